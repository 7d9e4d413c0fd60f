// More than a session takes at once: the client is held where that ends by itself, and told where it does not.
#include "bench.h"
#include "marshal/pb_wire.h"
#include "support/cpu_time.h"

namespace weir::evergreen {
namespace {

using support::FakeExchange;
using namespace std::chrono_literals;

std::string echo(const std::string& from, const std::string& to) {
  return "actions { name: 'ECHO' inputs { name: 'x' id: '" + from + "' } outputs { name: 'x' id: '" + to + "' } }";
}

Options working(uint32_t actions) {
  Options options;
  options.max_actions = actions;
  options.idle = 1h;
  return options;
}

void finish(Bench& t, msg::Call* call, char said) {
  uint32_t at = uint32_t(call->generation->length());
  t.chat->emit(call, {msg::Token{uint8_t(said), at, false, nullptr}});
  t.chat->emit(call, {msg::Done{at, 0, 1, msg::Finish::kLength, 0}});
  t.turn();
}

TEST(EvergreenPressure, AnyNumberOfActionsMayWaitForWhatIsBehindThem) {
  constexpr int kMany = 1000;
  Bench t(working(2));
  auto x = t.open();
  std::string all;
  for (int i = 0; i < kMany; ++i) all += echo("in" + std::to_string(i % 7), "out" + std::to_string(i));
  t.send(*x, all);
  for (int i = 0; i < 7; ++i) t.send(*x, text_leaf("in" + std::to_string(i), std::to_string(i)));
  for (int i = 0; i < kMany; ++i) ASSERT_EQ(t.leaf(*x, "out" + std::to_string(i)), std::to_string(i % 7));
  EXPECT_EQ(t.status(*x), "open");
}

TEST(EvergreenPressure, TwoThousandFragmentsMayComeInReverseOrder) {
  constexpr int kMany = 2000;
  Bench t;
  auto x = t.open();
  t.send(*x, echo("in", "out"));
  for (int seq = kMany; seq-- > 0;) {
    pb::SessionMessage m;
    auto& f = *m.add_node_fragments();
    f.set_id("in"), f.set_seq(seq), f.set_continued(seq + 1 < kMany);
    if (seq == 0) f.mutable_chunk_fragment()->mutable_metadata()->set_mimetype("a/b");
    f.mutable_chunk_fragment()->set_data("x");
    t.send(*x, m);
    for (int i = 0; i < 9 && seq == 0; ++i) t.rpc.advance(*x, 20ms);
  }
  EXPECT_EQ(t.status(*x), "open");
  EXPECT_EQ(t.leaf(*x, "out"), std::string(kMany, 'x'));
}

TEST(EvergreenPressure, ModelsWorkOnSomeAndTheOthersFollow) {
  Bench t(working(2));
  auto x = t.open();
  for (const char* r : {"1", "2", "3", "4"}) t.send(*x, generate("p", r));
  EXPECT_EQ(t.chat->held.size(), 0u);
  t.send(*x, text_leaf("p", "hello"));
  ASSERT_EQ(t.chat->held.size(), 2u);
  finish(t, t.chat->held[0], 'a');
  EXPECT_EQ(t.leaf(*x, "1"), "a");
  ASSERT_EQ(t.chat->held.size(), 2u) << "the third has begun";
  finish(t, t.chat->held[0], 'b');
  finish(t, t.chat->held[0], 'c');
  finish(t, t.chat->held[0], 'd');
  EXPECT_EQ(t.leaf(*x, "2") + t.leaf(*x, "3") + t.leaf(*x, "4"), "bcd");
  EXPECT_EQ(t.status(*x), "open");
}

TEST(EvergreenPressure, AnActionThatNoModelCanBeginHoldsItsClient) {
  Bench t(working(1));
  auto x = t.open();
  t.send(*x, text_leaf("p", "hello") + generate("p", "1"));
  t.send(*x, text_leaf("q", "there"));
  const size_t before = x->consumed;
  t.send(*x, generate("q", "2") + echo("p", "e"));
  const size_t taken = x->consumed;
  EXPECT_EQ(t.leaf(*x, "e"), "…") << "what lies behind it in its message waits, too";
  t.send(*x, text_leaf("late", "x"));
  EXPECT_EQ(x->consumed, taken) << "the next message waits in the window";
  ASSERT_EQ(t.chat->held.size(), 1u);
  finish(t, t.chat->held[0], 'a');
  t.rpc.advance(*x, 1s);
  EXPECT_GT(x->consumed, taken);
  EXPECT_GT(taken, before);
  EXPECT_EQ(t.leaf(*x, "e"), "hello");
  ASSERT_EQ(t.chat->held.size(), 1u);
  EXPECT_EQ(t.prompt(), "[user]there<|end|>[assistant]");
  finish(t, t.chat->held[0], 'b');
  EXPECT_EQ(t.leaf(*x, "2"), "b");
  t.rpc.end(*x);
  EXPECT_EQ(t.status(*x), "");
}

TEST(EvergreenPressure, AClientThatIsHeldGoesOnAtOnceAndIsNotLookedAtMeanwhile) {
  for (const char* type : {"application/grpc", "application/x-ndjson"}) {
    const bool lines = type[12] == 'x';
    Bench t(working(1));
    auto x = lines ? t.open_http("POST", {}) : t.open();
    auto send = [&](const std::string& text) {
      if (!lines) return t.send(*x, text);
      t.rpc.data(*x, *t.json.to_json("evergreen.v2.SessionMessage", t.parse(text).SerializeAsString()) + "\n");
      t.turn();
    };
    send(text_leaf("p", "hello") + generate("p", "1"));
    send(generate("p", "2"));
    const size_t taken = x->consumed, timers = t.rpc.env.armed();
    send(text_leaf("late", "x"));
    EXPECT_EQ(x->consumed, taken) << type;
    if (!lines) {
      EXPECT_EQ(t.rpc.env.armed(), timers);
    }
    ASSERT_EQ(t.chat->held.size(), 1u);
    finish(t, t.chat->held[0], 'a');
    EXPECT_GT(x->consumed, taken) << type;
    finish(t, t.chat->held[0], 'b');
  }
}

TEST(EvergreenPressure, WhatNeedsNoModelPassesWhileModelsWork) {
  Bench t(working(1));
  auto x = t.open();
  t.send(*x, text_leaf("p", "hello") + generate("p", "1"));
  t.send(*x, echo("p", "e"));
  EXPECT_EQ(t.leaf(*x, "e"), "hello");
  t.send(*x, "actions { name: 'CANCEL' inputs { name: 'output' id: '1' } }");
  EXPECT_EQ(t.leaf(*x, "1"), "");
  t.send(*x, generate("p", "2"));
  EXPECT_EQ(t.chat->held.size(), 2u) << "the cancelled one, and the one in its place";
}

TEST(EvergreenPressure, ActionsThatWaitCountAsContent) {
  Options options = working(64);
  options.graph.bytes = 100'000;
  Bench t(options);
  auto x = t.open();
  for (int i = 0; i < 100 && t.status(*x) == "open"; ++i) t.send(*x, echo("in", "out" + std::to_string(i)));
  EXPECT_EQ(t.status(*x).substr(0, 31), "RESOURCE_EXHAUSTED: action ECHO");
  EXPECT_NE(t.status(*x).find(": the session's content passes 100000 bytes"), std::string::npos);
  auto y = t.open();
  for (int i = 0; i < 100; ++i) {
    t.send(*y, echo("in" + std::to_string(i), "out" + std::to_string(i)));
    t.send(*y, text_leaf("in" + std::to_string(i), ""));
    if (i % 10 == 9) {
      std::string drops;
      for (int n = i - 9; n <= i; ++n)
        for (const char* node : {"in", "out"})
          drops += " inputs { name: 'node' id: '" + std::string(node) + std::to_string(n) + "' }";
      t.send(*y, "actions { name: 'DROP' " + drops + " }");
    }
  }
  EXPECT_EQ(t.status(*y), "open") << "and what is over counts no more";
}

TEST(EvergreenPressure, WhatActionsHaveReadWhileTheyWaitCountsToo) {
  Options options = working(64);
  options.graph.bytes = 200'000;
  Bench t(options);
  auto x = t.open();
  t.send(*x, "node_fragments { id: 'p' continued: true chunk_fragment { metadata { mimetype: 'text/plain' } data: '" +
                 std::string(40'000, 'x') + "' } }");
  int begun = 0;
  for (; begun < 100 && t.status(*x) == "open"; ++begun) t.send(*x, generate("p", "r" + std::to_string(begun)));
  EXPECT_EQ(t.status(*x), "RESOURCE_EXHAUSTED: action GENERATE: the session's content passes 200000 bytes");
  EXPECT_EQ(begun, 4) << "each with a copy of the text";
}

// Brings nothing until it is told to.
struct SlowWeb final : wire::Fetcher {
  struct Fetching final : Fetch {
    SlowWeb& web;
    Receiver& receiver;
    Fetching(SlowWeb& its, Receiver& who) : web(its), receiver(who) {}
    ~Fetching() override { std::erase(web.open, this); }
  };
  std::vector<Fetching*> open;
  base::Result<std::unique_ptr<Fetch>> fetch(std::string_view, Receiver& receiver) override {
    auto made = std::make_unique<Fetching>(*this, receiver);
    open.push_back(made.get());
    return std::unique_ptr<Fetch>(std::move(made));
  }
};

TEST(EvergreenPressure, MoreReferencesThanAreFetchedAtOnceWait) {
  constexpr int kMany = 600;
  SlowWeb web;
  Bench t({}, &web);
  auto x = t.open();
  std::string all = echo("in", "out") + "node_fragments { id: 'in'";
  for (int i = 0; i < kMany; ++i) all += " child_ids: 'c" + std::to_string(i) + "'";
  all += " }";
  for (int i = 0; i < kMany; ++i)
    all += "node_fragments { id: 'c" + std::to_string(i) +
           "' chunk_fragment { metadata { mimetype: 'text/plain' } ref: 'https://a.example/' } }";
  t.send(*x, all);
  EXPECT_EQ(web.open.size(), 256u);
  int fetched = 0;
  while (!web.open.empty()) {
    web.open.front()->receiver.on_fetched(base::Bytes::copy_of("x"));
    ++fetched;
    t.turn();
    ASSERT_LE(web.open.size(), 256u);
  }
  EXPECT_EQ(fetched, kMany);
  EXPECT_EQ(t.leaf(*x, "out/599"), "x");
  EXPECT_EQ(t.status(*x), "open");
}

// --- fragments times actions -----------------------------------------------------------------------------------------

Options visiting(uint64_t visits, uint64_t per_message) {
  Options options = working(64);
  options.graph.visits = visits;
  options.graph.visits_per_message = per_message;
  return options;
}
std::string pieces(const std::string& node, int many) {
  std::string out;
  for (int seq = 0; seq < many; ++seq)
    out += "node_fragments { id: '" + node + "' seq: " + std::to_string(seq) +
           (seq + 1 < many ? " continued: true" : "") + " chunk_fragment { " +
           (seq ? "" : "metadata { mimetype: 'a/b' } ") + "data: 'x' } }";
  return out;
}
std::string echoes(const std::string& from, const std::string& to, int many) {
  std::string out;
  for (int i = 0; i < many; ++i) out += echo(from, to + std::to_string(i));
  return out;
}
const std::string kVisits =
    "RESOURCE_EXHAUSTED: action ECHO: node 'in': the session's actions visit too many fragments";

TEST(EvergreenPressure, ActionsOfOneMessageVisitSoManyFragmentsAndNoMore) {
  constexpr int kOne = 1 + 21 + 20;  // an ECHO of 20 chunks: begun, measured, read
  Bench t(visiting(9 * kOne, 100));
  auto x = t.open();
  t.send(*x, pieces("in", 20));
  t.send(*x, echoes("in", "a", 9));
  EXPECT_EQ(t.status(*x), "open");
  EXPECT_EQ(t.leaf(*x, "a8"), std::string(20, 'x'));
  for (int i = 0; i < 100; ++i) t.send(*x, echo("in", "b" + std::to_string(i)));
  EXPECT_EQ(t.status(*x), "open") << "one in each message, for as long as the session lives";
  EXPECT_EQ(t.leaf(*x, "b99"), std::string(20, 'x'));
  auto y = t.open();
  t.send(*y, pieces("in", 20));
  t.send(*y, echoes("in", "a", 10));
  EXPECT_EQ(t.status(*y).substr(0, kVisits.size()), kVisits);
}

TEST(EvergreenPressure, ActionsThatWaitForANodeVisitItWithinTheSameLimit) {
  Bench t(visiting(400, 100));
  auto x = t.open();
  t.send(*x, echoes("in", "a", 50));
  EXPECT_EQ(t.status(*x), "open");
  t.send(*x, pieces("in", 20));
  EXPECT_EQ(t.status(*x).substr(0, kVisits.size()), kVisits);
}

TEST(EvergreenPressure, AnAnswerBeginsWhatWaitsForAModelAndRunsNothingElse) {
  Bench t(working(1));
  auto x = t.open();
  t.send(*x, generate("p", "1") + generate("p", "2") + generate("never", "3") + generate("p", "4"));
  t.send(*x, text_leaf("p", "hello"));
  for (char c : {'a', 'b', 'c'}) {
    ASSERT_EQ(t.chat->held.size(), 1u);
    finish(t, t.chat->held[0], c);
  }
  EXPECT_EQ(t.leaf(*x, "1") + t.leaf(*x, "2") + t.leaf(*x, "4"), "abc");
  EXPECT_EQ(t.leaf(*x, "3"), "…");
  EXPECT_EQ(t.chat->held.size(), 0u);
  t.send(*x, text_leaf("never", "at last"));
  ASSERT_EQ(t.chat->held.size(), 1u);
  finish(t, t.chat->held[0], 'd');
  EXPECT_EQ(t.leaf(*x, "3"), "d");
}

// --- one turn of the loop --------------------------------------------------------------------------------------------

// A node that is 2^levels times one byte.
std::string diamond(const std::string& name, int levels) {
  std::string out;
  auto id = [&](int i) { return i == 0 ? name : name + std::to_string(i); };
  for (int i = 0; i < levels; ++i)
    out += "node_fragments { id: '" + id(i) + "' child_ids: '" + id(i + 1) + "' child_ids: '" + id(i + 1) + "' } ";
  return out + text_leaf(id(levels), "x");
}

Options turning(uint64_t steps) {
  Options options = working(64);
  options.steps_per_turn = steps;
  return options;
}

TEST(EvergreenSlices, ALongEchoIsMadeInManyTurnsAndComesWhole) {
  Bench t(turning(50));
  auto x = t.open();
  t.send(*x, diamond("d", 6) + echo("d", "out"));
  for (int i = 0; i < 64; ++i) ASSERT_EQ(t.leaf(*x, "out/" + std::to_string(i)), "x");
  EXPECT_EQ(t.leaf(*x, "out"), "");
  EXPECT_EQ(t.status(*x), "open");
}

TEST(EvergreenSlices, AMessageOfMuchWorkIsReadInManyTurns) {
  Bench t(turning(100));
  auto x = t.open();
  std::string all = diamond("d", 3);
  for (int i = 0; i < 50; ++i) all += echo("d", "out" + std::to_string(i));
  t.rpc.data(*x, support::grpc_frame(Bench::parse(all).SerializeAsString()));
  t.bus.turn();
  EXPECT_EQ(t.leaf(*x, "out49/7"), "…") << "not in the turn in which it came";
  t.turn();
  for (int i = 0; i < 50; ++i) ASSERT_EQ(t.leaf(*x, "out" + std::to_string(i) + "/7"), "x") << i;
}

TEST(EvergreenSlices, WhatIsReadAndSaysNothingTakesTurns) {
  std::string empty, all, metadata;
  marshal::put_bytes(empty, 100, "");
  for (int i = 0; i < 1600; ++i) metadata += empty;  // 100 steps
  auto within = [](uint32_t number, const std::string& value) {
    std::string out;
    marshal::put_bytes(out, number, value);
    return out;
  };
  for (int i = 0; i < 10; ++i)
    all += within(1, within(1, "n" + std::to_string(i)) + within(5, within(1, metadata) + within(10, "x")));
  all += Bench::parse(echo("n9", "out")).SerializeAsString();
  Bench t(turning(200));
  auto x = t.open();
  t.rpc.data(*x, support::grpc_frame(all));
  t.bus.turn();
  EXPECT_EQ(t.leaf(*x, "out"), "…") << "not in the turn in which it came";
  t.turn();
  EXPECT_EQ(t.leaf(*x, "out"), "x");
}

TEST(EvergreenSlices, SessionsOfAShardTakeTurns) {
  Bench t(turning(100));
  auto x = t.open(), y = t.open();
  const std::string big = diamond("d", 8) + echo("d", "out"), small = diamond("d", 1) + echo("d", "out");
  t.rpc.data(*x, support::grpc_frame(Bench::parse(big).SerializeAsString()));
  t.rpc.data(*y, support::grpc_frame(Bench::parse(small).SerializeAsString()));
  t.turn();
  EXPECT_EQ(t.leaf(*x, "out/255") + t.leaf(*y, "out/1"), "xx");
}

TEST(EvergreenSlices, ASessionEndsInOrderThoughItsWorkIsUnderWay) {
  Bench t(turning(50));
  auto x = t.open();
  t.rpc.data(*x, support::grpc_frame(Bench::parse(diamond("d", 6) + echo("d", "out")).SerializeAsString()));
  t.rpc.end(*x);
  EXPECT_EQ(t.status(*x), "open");
  t.turn();
  EXPECT_EQ(t.leaf(*x, "out/63"), "x");
  EXPECT_EQ(t.status(*x), "");
  auto y = t.open();
  t.rpc.data(*y, support::grpc_frame(Bench::parse(diamond("d", 6) + echo("d", "out")).SerializeAsString()));
  y.reset();  // the client has left
}

TEST(EvergreenPressure, EchoesOfADiamondCostWhatAMessageAllows) {
  Options options = working(64);
  Bench t(options);
  auto x = t.open();
  // Nothing comes of it but work: its last node has no content.
  std::string all = diamond("d", 16);
  all = all.substr(0, all.rfind("node_fragments")) + "node_fragments { id: 'd16' }";
  for (int i = 0; i < 250; ++i) all += echo("d", "out" + std::to_string(i));
  const std::string bytes = support::grpc_frame(Bench::parse(all).SerializeAsString());
  double began = support::cpu_seconds();
  t.rpc.data(*x, bytes);
  EXPECT_LT(support::cpu_seconds() - began, 0.025) << "the turn in which it came";
  EXPECT_EQ(t.status(*x), "open");
  t.turn();  // and all that follow
  EXPECT_LT(support::cpu_seconds() - began, 20) << "two million visits";
  EXPECT_NE(t.status(*x).find("visit too many fragments"), std::string::npos) << t.status(*x);
}

}  // namespace
}  // namespace weir::evergreen
