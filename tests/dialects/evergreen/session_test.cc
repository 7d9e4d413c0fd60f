// The limits of a session: room, time, and the server's own end.
#include <google/protobuf/util/json_util.h>

#include "bench.h"

namespace weir::evergreen {
namespace {

using support::FakeExchange;
using namespace std::chrono_literals;

// --- room ------------------------------------------------------------------------------------------------------------

Options small() {
  Options options;
  options.graph.bytes = 100'000;
  options.idle = 1h;
  return options;
}

pb::SessionMessage piece(const std::string& node, size_t bytes) {
  pb::SessionMessage m;
  auto& f = *m.add_node_fragments();
  f.set_id(node);
  f.mutable_chunk_fragment()->mutable_metadata()->set_mimetype("a/b");
  f.mutable_chunk_fragment()->set_data(std::string(bytes, 'x'));
  return m;
}
pb::SessionMessage ttl(const std::string& node, int64_t milliseconds) {
  pb::SessionMessage m;
  auto& a = *m.add_actions();
  a.set_name("SET_TTL");
  auto& in = *a.add_inputs();
  in.set_name("node"), in.set_id(node);
  v1::TtlConfig config;
  config.set_milliseconds(milliseconds);
  a.add_configs()->PackFrom(config);
  return m;
}

TEST(EvergreenSession, WithoutATimeToLiveContentBeyondTheLimitEndsTheSession) {
  Bench t(small());
  auto x = t.open();
  t.send(*x, piece("a", 60'000));
  t.send(*x, piece("b", 60'000));
  EXPECT_EQ(t.status(*x), "RESOURCE_EXHAUSTED: node 'b', fragment 0: the session's content passes 100000 bytes");
}

TEST(EvergreenSession, AWriterIsHeldUntilATimeToLiveMakesRoom) {
  Bench t(small());
  auto x = t.open();
  t.send(*x, piece("a", 60'000));
  t.send(*x, ttl("a", 5000));
  size_t before = x->consumed;
  t.send(*x, piece("b", 60'000));
  size_t taken = x->consumed;
  t.send(*x, piece("c", 10));
  EXPECT_EQ(x->consumed, taken) << "the next message waits in the window";
  t.rpc.advance(*x, 4s);
  EXPECT_EQ(t.status(*x), "open");
  EXPECT_EQ(x->consumed, taken);
  t.rpc.advance(*x, 2s);
  t.rpc.advance(*x, 1s);
  EXPECT_GT(x->consumed, taken);
  EXPECT_GT(taken, before);
  t.send(*x, "actions { name: 'ECHO' inputs { name: 'x' id: 'b' } outputs { name: 'x' id: 'e' } }");
  EXPECT_EQ(t.status(*x),
            "RESOURCE_EXHAUSTED: action ECHO: node 'e', fragment 0: the session's content passes 100000 bytes")
      << "'b' is there; its echo is too much, and nothing can make room any more";
}

TEST(EvergreenSession, AMessageIsGoneOnWithWhereItWasHeld) {
  Bench t(small());
  auto x = t.open();
  t.send(*x, piece("a", 60'000));
  t.send(*x, ttl("a", 1000));
  auto m = piece("b", 10'000);  // fits
  m.MergeFrom(piece("c", 60'000));
  m.MergeFrom(piece("d", 10));
  auto echo = t.parse("actions { name: 'ECHO' inputs { name: 'd' id: 'd' } outputs { name: 'd' id: 'e' } }");
  m.MergeFrom(echo);
  t.send(*x, m);
  EXPECT_TRUE(t.fragments(*x).empty());
  t.rpc.end(*x);
  EXPECT_EQ(t.status(*x), "open") << "though the client has ended";
  t.rpc.advance(*x, 2s);
  t.turn();
  EXPECT_EQ(t.leaf(*x, "e"), std::string(10, 'x'));
  EXPECT_EQ(t.status(*x), "");
}

TEST(EvergreenSession, WhenNothingCanMakeRoomAnyMoreTheHeldWriterHearsIt) {
  Bench t(small());
  auto x = t.open();
  t.send(*x, piece("a", 10'000));
  t.send(*x, piece("b", 60'000));
  t.send(*x, ttl("a", 1000));
  t.send(*x, piece("c", 60'000));
  EXPECT_EQ(t.status(*x), "open");
  t.rpc.advance(*x, 2s);
  EXPECT_EQ(t.status(*x), "RESOURCE_EXHAUSTED: node 'c', fragment 0: the session's content passes 100000 bytes");
}

TEST(EvergreenSession, AnAnswerPausesWhereThereIsNoRoomForItAndGoesOn) {
  Bench t(small());
  auto x = t.open();
  t.send(*x, piece("a", 40'000));
  t.send(*x, ttl("a", 1000));
  t.send(*x, piece("b", 22'000));
  // 97 % full after the first of these chunks' echo: the echo stops between two chunks.
  auto m = piece("c", 11'000);
  m.mutable_node_fragments(0)->set_continued(true);
  t.send(*x, m);
  t.send(*x, "actions { name: 'ECHO' inputs { name: 'x' id: 'c' } outputs { name: 'x' id: 'e' } }");
  EXPECT_EQ(t.leaf(*x, "e").size(), 11'000u + std::string("…").size());
  m = pb::SessionMessage();
  auto& f = *m.add_node_fragments();
  f.set_id("c"), f.set_seq(1);
  f.mutable_chunk_fragment()->set_data("tail");
  t.send(*x, m);
  EXPECT_EQ(t.leaf(*x, "e").size(), 11'000u + std::string("…").size());
  t.rpc.advance(*x, 2s);
  t.turn();
  t.rpc.advance(*x, 1s);
  EXPECT_EQ(t.leaf(*x, "e").size(), 11'004u);
}

// A session whose one time to live is long, and where an answer has begun.
support::RpcBench::Opened answering(Bench& t) {
  auto x = t.open();
  t.send(*x, piece("t", 1));
  t.send(*x, ttl("t", 600'000));
  t.send(*x, generate("p", "r") + text_leaf("p", "hello"));
  EXPECT_EQ(t.chat->held.size(), 1u);
  return x;
}
pb::SessionMessage echo_of_two_chunks(size_t first) {
  auto m = piece("c", first);
  m.mutable_node_fragments(0)->set_continued(true);
  auto& f = *m.add_node_fragments();
  f.set_id("c"), f.set_seq(1);
  f.mutable_chunk_fragment()->set_data("tail");
  m.MergeFrom(Bench::parse("actions { name: 'ECHO' inputs { name: 'x' id: 'c' } outputs { name: 'x' id: 'e' } }"));
  return m;
}

TEST(EvergreenSession, AnEchoThatPausesForRoomGoesOnWhenAnotherActionGivesItBack) {
  Bench t(small());
  auto x = answering(t);
  t.send(*x, piece("a", 52'000));
  t.send(*x, echo_of_two_chunks(11'000));
  t.rpc.end(*x);
  EXPECT_EQ(t.leaf(*x, "e").size(), 11'000u + std::string("…").size());
  t.answer("Hi");
  EXPECT_EQ(t.leaf(*x, "e").size(), 11'004u);
  EXPECT_EQ(t.status(*x), "") << "nothing is waited for";
}

TEST(EvergreenSession, AnAnswerThatPausesForRoomGoesOnWhenAnotherActionGivesItBack) {
  Bench t(small());
  auto x = answering(t);
  t.send(*x, generate("p", "s"));
  ASSERT_EQ(t.chat->held.size(), 2u);
  msg::Call *first = t.chat->held[0], *second = t.chat->held[1];
  t.send(*x, piece("a", 74'000));  // beyond 15/16 with the actions that run
  const int32_t credit = first->credit;
  const auto prompt = uint32_t(first->generation->length());
  for (uint32_t i = 0; i < 16; ++i) t.chat->emit(first, {msg::Token{'h', prompt + i, false, nullptr}});
  t.turn();
  EXPECT_EQ(first->credit, credit) << "it pauses";
  t.chat->emit(second, {msg::Done{prompt, 0, 0, msg::Finish::kLength, 0}});
  t.turn();
  EXPECT_EQ(first->credit, credit + 16);
}

const char* const kDropA = "actions { name: 'DROP' inputs { name: 'node' id: 'a' } }";
Options larger() {  // its last sixteenth has room for actions
  Options options = small();
  options.graph.bytes = 400'000;
  return options;
}

TEST(EvergreenSession, ADropIsReadWhereOutputsPauseForRoom) {
  Bench t(larger());
  auto x = t.open();
  t.send(*x, piece("t", 1));
  t.send(*x, ttl("t", 600'000));
  t.send(*x, piece("a", 300'000));
  t.send(*x, echo_of_two_chunks(35'000));
  EXPECT_EQ(t.leaf(*x, "e").size(), 35'000u + std::string("…").size()) << "it pauses";
  t.send(*x, kDropA);
  EXPECT_EQ(t.leaf(*x, "e").size(), 35'004u);
  EXPECT_EQ(t.status(*x), "open");
}

TEST(EvergreenSession, WhatNeedsRoomIsHeldBeforeThereIsNoneWithEverythingBehindIt) {
  Bench t(larger());
  auto x = t.open();
  t.send(*x, piece("t", 1));
  t.send(*x, ttl("t", 1000));
  t.send(*x, piece("a", 380'000));
  t.send(*x, piece("b", 10));
  const size_t taken = x->consumed;
  t.send(*x, kDropA);
  EXPECT_EQ(x->consumed, taken);
  t.rpc.advance(*x, 2s);
  t.rpc.advance(*x, 1s);
  EXPECT_GT(x->consumed, taken);
  EXPECT_EQ(t.status(*x), "open");
}

TEST(EvergreenSession, LinesAndWebSocketsAreHeldTheSameWay) {
  auto json = [](const pb::SessionMessage& m) {
    std::string out;
    EXPECT_TRUE(google::protobuf::util::MessageToJsonString(m, &out).ok());
    return out;
  };
  {
    Bench t(small());
    auto x = t.open_http("POST", {});
    t.rpc.data(*x, json(piece("a", 60'000)) + "\n" + json(ttl("a", 1000)) + "\n" + json(piece("b", 60'000)) + "\n");
    size_t taken = x->consumed;
    std::string echo =
        "{\"actions\":[{\"name\":\"ECHO\",\"inputs\":[{\"name\":\"x\",\"id\":\"z\"}],\"outputs\":[{\"name\":\"x\","
        "\"id\":\"e\"}]}]}\n";
    t.rpc.data(*x, echo + json(piece("z", 10)) + "\n");
    EXPECT_EQ(x->consumed, taken) << "flow control holds the client";
    EXPECT_EQ(x->sent, "");
    t.rpc.advance(*x, 2s);
    t.rpc.advance(*x, 1s);
    EXPECT_GT(x->consumed, taken);
    EXPECT_NE(x->sent.find("\"id\":\"e\""), std::string::npos);
  }
  {
    Bench t(small());
    auto x = t.open_http("GET", kUpgrade);
    t.rpc.data(*x, frame(0x82, piece("a", 60'000).SerializeAsString()));
    t.rpc.data(*x, frame(0x82, ttl("a", 1000).SerializeAsString()));
    t.rpc.data(*x, frame(0x82, piece("b", 60'000).SerializeAsString()));
    size_t taken = x->consumed;
    auto last = t.parse("actions { name: 'ECHO' inputs { name: 'x' id: 'z' } outputs { name: 'x' id: 'e' } }");
    last.MergeFrom(piece("z", 10));
    t.rpc.data(*x, frame(0x82, last.SerializeAsString()));
    EXPECT_EQ(x->consumed, taken);
    EXPECT_EQ(x->sent, "");
    t.rpc.advance(*x, 2s);
    t.rpc.advance(*x, 1s);
    EXPECT_GT(x->consumed, taken);
    EXPECT_NE(x->sent.find("xxxxxxxxxx"), std::string::npos);
  }
}

TEST(EvergreenSession, ATimeToLiveOfAnOutputThatIsBeingWrittenMakesNoRoom) {
  Bench t(small());
  auto x = t.open();
  t.send(*x, generate("p", "r") + text_leaf("p", "hello"));
  t.send(*x, ttl("r", 1000));
  t.send(*x, piece("a", 84'000));  // beyond 15/16 with the action that runs
  ASSERT_EQ(t.chat->held.size(), 1u);
  msg::Call* call = t.chat->held[0];
  const int32_t credit = call->credit;
  const auto prompt = uint32_t(call->generation->length());
  for (uint32_t i = 0; i < 16; ++i) t.chat->emit(call, {msg::Token{'h', prompt + i, false, nullptr}});
  t.turn();
  EXPECT_EQ(call->credit, credit + 16) << "the answer goes on";
  t.rpc.advance(*x, 5s);
  EXPECT_EQ(t.status(*x), "open");
  t.send(*x, piece("b", 60'000));
  EXPECT_EQ(t.status(*x), "RESOURCE_EXHAUSTED: node 'b', fragment 0: the session's content passes 100000 bytes");
}

TEST(EvergreenSession, ATimeToLiveOfAnOutputCountsOnceTheOutputIsComplete) {
  Bench t(small());
  auto x = t.open();
  t.send(*x, generate("p", "r") + text_leaf("p", "hello"));
  t.send(*x, ttl("r", 5000));
  t.send(*x, piece("a", 60'000));
  t.answer("done");
  t.send(*x, piece("b", 60'000));
  EXPECT_EQ(t.status(*x), "open") << "held";
  t.rpc.advance(*x, 6s);
  EXPECT_EQ(t.status(*x), "RESOURCE_EXHAUSTED: node 'b', fragment 0: the session's content passes 100000 bytes");
}

TEST(EvergreenSession, AHeldWriterHearsItWhenTheNodeThatWasToMakeRoomHasBeenDropped) {
  Bench t(small());
  auto x = t.open();
  t.send(*x, piece("a", 60'000));
  t.send(*x, piece("c", 10));
  t.send(*x, ttl("c", 5000));
  t.send(*x, "actions { name: 'DROP' inputs { name: 'node' id: 'c' } }");
  t.send(*x, piece("b", 60'000));
  t.rpc.advance(*x, 6s);
  EXPECT_EQ(t.status(*x), "RESOURCE_EXHAUSTED: node 'b', fragment 0: the session's content passes 100000 bytes");
}

// --- time ------------------------------------------------------------------------------------------------------------

TEST(EvergreenSession, ASessionThatNobodyUsesEnds) {
  Options options;
  options.idle = 60s;
  Bench t(options);
  auto x = t.open();
  t.send(*x, std::string(kEcho));  // waits for its client
  t.rpc.advance(*x, 50s);
  t.send(*x, text_leaf("q", "x"));
  t.rpc.advance(*x, 50s);
  EXPECT_EQ(t.status(*x), "open");
  t.rpc.advance(*x, 11s);
  EXPECT_EQ(t.status(*x), "DEADLINE_EXCEEDED: the session was not used for longer than evergreen.idle");
}

TEST(EvergreenSession, AModelAtWorkIsUse) {
  Options options;
  options.idle = 60s;
  Bench t(options);
  auto x = t.open();
  t.send(*x, generate("p", "r") + text_leaf("p", "hello"));
  for (int i = 0; i < 5; ++i) t.rpc.advance(*x, 50s);
  EXPECT_EQ(t.status(*x), "open");
  t.answer("done");
  t.rpc.advance(*x, 119s);
  t.rpc.advance(*x, 2s);
  EXPECT_EQ(t.status(*x), "DEADLINE_EXCEEDED: the session was not used for longer than evergreen.idle");
}

// --- the server's end ------------------------------------------------------------------------------------------------

TEST(EvergreenSession, ADrainEndsAnIdleSessionAtOnce) {
  Bench t;
  auto x = t.open();
  auto lines = t.open_http("POST", {});
  auto socket = t.open_http("GET", kUpgrade);
  t.send(*x, text_leaf("p", "hello"));
  t.evergreen->drain(5s);
  EXPECT_EQ(t.status(*x), "UNAVAILABLE: the server is shutting down");
  EXPECT_TRUE(lines->ended);
  EXPECT_EQ(lines->sent,
            "{\"error\":{\"code\":14,\"status\":\"UNAVAILABLE\",\"message\":\"the server is shutting down\"}}\n");
  size_t at = socket->sent.rfind(char(0x88));
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(uint8_t(socket->sent[at + 2]) << 8 | uint8_t(socket->sent[at + 3]), 1001);
  auto late = t.open();
  t.turn();
  EXPECT_EQ(t.status(*late), "UNAVAILABLE: the server is shutting down");
}

TEST(EvergreenSession, ADrainLetsWhatRunsFinishAndBeginsNothingElse) {
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p", "r") + text_leaf("p", "hello"));
  t.evergreen->drain(5s);
  t.rpc.advance(*x, 60s);
  EXPECT_EQ(t.status(*x), "open");
  t.send(*x, generate("p", "r2"));
  EXPECT_EQ(t.chat->held.size(), 1u);
  t.answer("bye");
  EXPECT_EQ(t.leaf(*x, "r"), "bye");
  EXPECT_EQ(t.status(*x), "UNAVAILABLE: the server is shutting down");
}

TEST(EvergreenSession, ADrainWaitsAMomentForAClientThatIsStillSending) {
  Bench t;
  auto x = t.open(), y = t.open();
  t.send(*x, std::string(kEcho));
  t.send(*y, std::string(kEcho));
  t.evergreen->drain(5s);
  t.rpc.advance(*x, 4s);
  EXPECT_EQ(t.status(*x), "open");
  t.send(*x, text_leaf("a", "hello"));
  EXPECT_EQ(t.leaf(*x, "e"), "hello");
  EXPECT_EQ(t.status(*x), "UNAVAILABLE: the server is shutting down");
  EXPECT_EQ(t.status(*y), "open");
  t.rpc.advance(*y, 2s);
  EXPECT_EQ(t.status(*y), "UNAVAILABLE: the server is shutting down");
}

}  // namespace
}  // namespace weir::evergreen
