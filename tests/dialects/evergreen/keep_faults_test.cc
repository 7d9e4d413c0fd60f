// KEEP and RESUME where something is in the way: no claim, no room, others who ask, states that cannot be read.
#include "keep_fixture.h"
#include "session/byte_quota.h"

namespace weir::evergreen {
namespace {

using namespace std::chrono_literals;

TEST_F(EvergreenKeep, OneClientHasAShareOfTheSearches) {
  std::vector<Bench::Opened> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(t.open());
    t.send(*all.back(), resume(std::string(32, 'f')));
  }
  EXPECT_EQ(nodes.taken, 2);
  EXPECT_EQ(
      status(*all[2]),
      "RESOURCE_EXHAUSTED: action RESUME: too many sessions of this client are being looked for; try again later");
  answer();
  EXPECT_EQ(status(*all[0]), kNoSuch);
  all.push_back(t.open());
  t.send(*all.back(), resume(std::string(32, 'f')));
  EXPECT_EQ(nodes.taken, 3);
  answer();
}

TEST_F(EvergreenKeep, WithoutItsClaimTheNodeDoesNotAnswerForIt) {
  auto x = t.open();
  keep(*x);
  nodes.claim = 0;
  t.send(*x, text_leaf("a", "abc"));
  EXPECT_EQ(status(*x).substr(0, 40), "UNAVAILABLE: this node is cut off from N");
  EXPECT_TRUE(nodes.held.empty());
  auto y = t.open();
  t.send(*y, kKeep);
  EXPECT_EQ(status(*y).substr(0, 26), "UNAVAILABLE: action KEEP: ");
}

TEST_F(EvergreenKeep, WithoutItsClaimNoAnswerGoesOut) {
  auto x = t.open();
  const std::string id = keep(*x);
  t.send(*x, text_leaf("q", "why?"));
  t.send(*x, generate("q", "answer"));
  t.chat->emit(t.chat->held[0], {msg::Token{'b', 100, false, nullptr}});
  t.turn();
  EXPECT_EQ(t.leaf(*x, "answer"), "b…");
  nodes.claim = 2;  // it was taken for dead, and has joined anew
  t.chat->emit(t.chat->held[0], {msg::Token{'c', 101, false, nullptr}});
  t.turn();
  EXPECT_EQ(t.leaf(*x, "answer"), "b…");
  EXPECT_TRUE(status(*x).starts_with("UNAVAILABLE: this node is cut off")) << status(*x);
  const int saves = nodes.saves;
  answer();
  EXPECT_EQ(nodes.saves, saves) << "another node may have gone on with it";
}

TEST_F(EvergreenKeep, AClaimThatComesBackDoesNotBringBackWhatWasNotSaid) {
  auto x = t.open();
  keep(*x);
  t.send(*x, text_leaf("q", "why?"));
  t.send(*x, generate("q", "answer"));
  for (int i = 0; i < 3 && !x->ended; ++i) {
    if (i == 1) nodes.flickers = 1;
    t.chat->emit(t.chat->held[0], {msg::Token{uint8_t('b' + i), uint32_t(100 + i), false, nullptr}});
    t.turn();
  }
  EXPECT_EQ(t.leaf(*x, "answer"), "b…");
  EXPECT_TRUE(status(*x).starts_with("UNAVAILABLE: this node is cut off")) << status(*x);
}

TEST_F(EvergreenKeep, OneThatThrowsIsLetGoAsItWasKept) {
  auto x = t.open();
  const std::string id = keep(*x), before = kept_of(id);
  pause(*x);
  nodes.saves_throw = true;
  t.send(*x, text_leaf("a", "abc"));
  t.send(*x, kEcho);
  EXPECT_TRUE(nodes.held.empty());
  nodes.saves_throw = false;
  answer();
  x.reset();
  answer();
  EXPECT_EQ(kept_of(id), before);
  auto y = t.open();
  t.send(*y, resume(id));
  answer();
  EXPECT_EQ(t.leaf(*y, "there"), "[]");
}

TEST_F(EvergreenKeep, OneThatThrowsAtItsEndIsLetGo) {
  auto x = t.open();
  const std::string id = keep(*x);
  nodes.saves_throw = true;
  x.reset();
  EXPECT_TRUE(nodes.held.empty());
  EXPECT_EQ(nodes.kept.size(), 1u);
}

TEST_F(EvergreenKeep, FaultsThatAreNotTheClientsDoNotTakeItAway) {
  auto x = t.open();
  const std::string id = keep(*x);
  t.send(*x, text_leaf("q", "why?"));
  t.send(*x,
         "actions { name: 'GENERATE' inputs { name: 'prompt' id: 'q' } outputs { name: 'response' id: 'r' } "
         "target_spec { id: 'no such model' } }");
  answer();
  EXPECT_TRUE(status(*x).starts_with("NOT_FOUND")) << status(*x);
  EXPECT_TRUE(nodes.held.empty());
  EXPECT_EQ(nodes.kept.size(), 1u);
}

TEST_F(EvergreenKeep, WhatIsTooLongIsKeptAgainOnceItWasDropped) {
  auto x = t.open();
  const std::string id = keep(*x);
  auto fill = [&](const std::string& name, const std::string& more) {
    for (int i = 0; i < 5; ++i)
      t.send(*x, "node_fragments { id: '" + name + std::to_string(i) + "' " + more +
                     " chunk_fragment { metadata { mimetype: 'text/plain' } data: '" + std::string(1 << 20, 'x') +
                     "' } }");
    for (int i = 0; i < 40; ++i) t.later_turn(), answer();
  };
  auto keep_as = [&](const std::string& name) {
    t.send(*x, "actions { name: 'KEEP' outputs { name: 'session' id: '" + name + "' } outputs { name: 'status' id: 's" +
                   name + "' } }");
    for (int i = 0; i < 40; ++i) t.later_turn(), answer();
    t.rpc.advance(*x, 5s);
    answer();
    return t.leaf(*x, name);
  };
  fill("n", "");
  EXPECT_NE(keep_as("k1"), id);
  for (int i = 0; i < 5; ++i)
    t.send(*x, "actions { name: 'DROP' inputs { name: 'node' id: 'n" + std::to_string(i) + "' } }");
  fill("m", "continued: true");  // these are not kept while they are open
  EXPECT_EQ(keep_as("k2"), id) << t.leaf(*x, "sk2") << status(*x);
}

TEST_F(EvergreenKeep, WithoutItsClaimAnEndIsNotEverybodys) {
  auto x = t.open();
  keep(*x);
  nodes.claim = 2;
  t.rpc.end(*x);
  t.turn();
  answer();
  EXPECT_EQ(nodes.kept.size(), 1u);
  EXPECT_TRUE(nodes.held.empty());
}

TEST_F(EvergreenKeep, WhatWasTakenUnderAnotherClaimIsNotHeld) {
  auto x = t.open();
  const std::string id = keep(*x);
  x.reset();
  answer();
  auto y = t.open();
  t.send(*y, resume(id));
  nodes.claim = 2;
  answer();
  EXPECT_TRUE(status(*y).starts_with("UNAVAILABLE: action RESUME: this node is cut off")) << status(*y);
  EXPECT_TRUE(nodes.held.empty());
  EXPECT_EQ(nodes.kept.size(), 1u);
}

TEST_F(EvergreenKeep, OneThatAnotherNodeHasEnds) {
  auto x = t.open();
  keep(*x);
  answer();
  pause(*x);
  nodes.save_status = base::failure(base::Code::kAborted, "another node has the session");
  t.send(*x, text_leaf("a", "abc"));
  t.send(*x, kEcho);
  answer();
  EXPECT_EQ(status(*x), "ABORTED: another node has the session");
  EXPECT_TRUE(nodes.held.empty());
  const int saves = nodes.saves;
  answer();
  EXPECT_EQ(nodes.saves, saves) << "it is not written over";
}

TEST_F(EvergreenKeep, KeepSaysWhyNothingIsKept) {
  auto x = t.open();
  nodes.save_status = base::failure(base::Code::kUnavailable, "NATS is away");
  t.send(*x, "actions { name: 'KEEP' outputs { name: 'session' id: 'no' } outputs { name: 'status' id: 's' } }");
  answer();
  EXPECT_NE(t.leaf(*x, "s").find("KEEP: NATS is away"), std::string::npos) << t.leaf(*x, "s");
  EXPECT_TRUE(nodes.held.empty());
  nodes.save_status = {};
  const std::string id = keep(*x);
  const std::string before = kept_of(id);
  nodes.save_status = base::failure(base::Code::kResourceExhausted, "it is full");
  t.send(*x, text_leaf("a", "abc"));
  t.send(*x, "actions { name: 'KEEP' outputs { name: 'status' id: 'st' } }");
  answer();
  EXPECT_NE(t.leaf(*x, "st").find("it is full"), std::string::npos) << t.leaf(*x, "st");
  EXPECT_EQ(status(*x), "open") << "it is held, and was kept";
  EXPECT_EQ(nodes.held.size(), 1u);
  EXPECT_EQ(kept_of(id), before);
  nodes.save_status = {};
  x.reset();
  answer();
  EXPECT_NE(kept_of(id).find("abc"), std::string::npos);
}

TEST_F(EvergreenKeep, OneThatHasGrownTooLongStaysKeptAsItWas) {
  auto x = t.open();
  const std::string id = keep(*x);
  pause(*x);
  t.send(*x, text_leaf("a", "abc"));
  t.send(*x, kEcho);
  answer();
  const std::string before = kept_of(id);
  for (int i = 0; i < 5; ++i) t.send(*x, text_leaf("n" + std::to_string(i), std::string(1 << 20, 'x')));
  t.send(*x, "actions { name: 'KEEP' outputs { name: 'status' id: 's' } }");
  for (int i = 0; i < 40; ++i) t.later_turn(), answer();
  t.rpc.advance(*x, 5s);
  answer();
  EXPECT_NE(t.leaf(*x, "s").find("at most 4194304 bytes are kept"), std::string::npos) << t.leaf(*x, "s");
  EXPECT_EQ(status(*x), "open");
  EXPECT_EQ(kept_of(id), before);
  x.reset();
  answer();
  auto y = t.open();
  t.send(*y, resume(id));
  answer();
  const std::string there = t.leaf(*y, "there");
  EXPECT_EQ(there.size(), std::string(R"(["a","e"])").size()) << there;
  // Nothing at all where it was too long from the start.
  auto z = t.open();
  for (int i = 0; i < 5; ++i) t.send(*z, text_leaf("n" + std::to_string(i), std::string(1 << 20, 'x')));
  t.send(*z, kKeep);
  for (int i = 0; i < 40; ++i) t.later_turn(), answer();
  EXPECT_TRUE(status(*z).starts_with("RESOURCE_EXHAUSTED: action KEEP: the session has 5")) << status(*z);
  EXPECT_EQ(nodes.kept.size(), 1u);
}

TEST_F(EvergreenKeep, SavesOfALongOneAreFurtherApart) {
  auto x = t.open();
  keep(*x);
  t.send(*x, text_leaf("a", std::string(1 << 20, 'x')));
  const int before = nodes.saves;
  for (int i = 0; i < 40; ++i) {
    t.send(*x, "actions { name: 'LIST_ACTIONS' outputs { name: 'actions' id: 'l" + std::to_string(i) + "' } }");
    t.rpc.advance(*x, 50ms);
    answer();
  }
  EXPECT_GE(nodes.saves, before + 2);
  EXPECT_LE(nodes.saves, before + 4) << "a MiB in a second";
}

TEST_F(EvergreenKeep, AServerThatHasNoRoomLeavesWhatWasKept) {
  Options options = with(nodes);
  options.graph.bytes = 64 << 10;
  Bench small{options};
  auto x = small.open();
  small.send(*x, kKeep);
  nodes.answer(), small.later_turn();
  const std::string id = small.leaf(*x, "sid");
  small.send(*x, text_leaf("a", std::string(100 << 10, 'x')));
  EXPECT_TRUE(status(*x).starts_with("RESOURCE_EXHAUSTED")) << status(*x);
  nodes.answer();
  EXPECT_EQ(nodes.kept.size(), 1u);
  EXPECT_TRUE(nodes.held.empty());
}

// As when a connection with many sessions breaks.
TEST_F(EvergreenKeep, ManyLargeOnesThatEndAtOnceTakeNoLongTurn) {
  std::vector<Bench::Opened> large;
  for (int i = 0; i < 20; ++i) {
    large.push_back(t.open());
    keep(*large.back());
    t.send(*large.back(), text_leaf("a", std::string(1 << 20, 'x')));
  }
  auto small = t.open();
  const std::string id = keep(*small);
  t.send(*small, text_leaf("a", "sent last"));
  const int before = nodes.saves;
  large.clear();
  EXPECT_GE(nodes.saves, before + 1);
  EXPECT_LE(nodes.saves, before + 17) << "a MiB takes 256 of 4096 steps";
  small.reset();
  answer();
  EXPECT_NE(kept_of(id).find("sent last"), std::string::npos);
  EXPECT_EQ(nodes.kept.size(), 21u);
  EXPECT_TRUE(nodes.held.empty());
}

TEST_F(EvergreenKeep, WhatIsOnItsWayIsChargedToTheClient) {
  session::ByteQuota quota(6 << 20, 64 << 20);
  Bench charged{with(nodes), nullptr, &quota};
  auto x = charged.open();
  charged.send(*x, kKeep);
  EXPECT_GE(quota.held(), 4096u);
  nodes.answer(), charged.later_turn();
  const std::string id = charged.leaf(*x, "sid");
  x.reset();
  nodes.answer(), charged.later_turn();
  EXPECT_EQ(quota.held(), 0u);
  // The longest state has its room before it is there.
  auto y = charged.open(), z = charged.open();
  charged.send(*y, resume(id));
  EXPECT_GE(quota.held(), 4u << 20);
  charged.send(*z, resume(id));
  EXPECT_EQ(status(*z), "RESOURCE_EXHAUSTED: action RESUME: there is no memory to resume the session; try again later");
  nodes.answer(), charged.later_turn();
  EXPECT_LT(quota.held(), 64u << 10);
  EXPECT_EQ(charged.leaf(*y, "there"), "[]");
  y.reset(), z.reset();
  nodes.answer();
}

TEST_F(EvergreenKeep, AnOutputWithTheNameOfAKeptNodeIsSaidSo) {
  auto x = t.open();
  const std::string id = keep(*x);
  t.send(*x, text_leaf("there", "abc"));
  x.reset();
  answer();
  auto y = t.open();
  t.send(*y, resume(id));
  answer();
  EXPECT_EQ(status(*y), "ALREADY_EXISTS: the session has a node 'there' already: choose another name for the output");
  auto z = t.open();
  t.send(*z, resume(id, "outputs { name: 'status' id: 's' }"));
  answer();
  EXPECT_NE(status(*z), "open") << "and it stays for the next";
  EXPECT_EQ(nodes.kept.size(), 1u);
}

TEST_F(EvergreenKeep, WhatCannotBeReadIsRefusedAndStays) {
  auto x = t.open();
  const std::string id = keep(*x);
  x.reset();
  answer();
  nodes.kept.begin()->second = "rubbish";
  auto y = t.open();
  t.send(*y, resume(id));
  answer();
  EXPECT_EQ(status(*y), "DATA_LOSS: action RESUME: what was kept of the session cannot be read: its form");
  EXPECT_TRUE(nodes.held.empty());
  nodes.kept.begin()->second = "weir-nodes 1\nage 1\nsent 3\nmade 0\ntimes 0\ndropped 0\n\nxyz";
  auto z = t.open();
  t.send(*z, resume(id));
  answer();
  EXPECT_EQ(status(*z).substr(0, 9), "DATA_LOSS");
  EXPECT_TRUE(nodes.held.empty());
  EXPECT_EQ(nodes.kept.size(), 1u);
}

TEST(EvergreenAlone, NothingIsKeptWhereThereAreNoOtherNodes) {
  Bench t;
  auto x = t.open();
  t.send(*x, kKeep);
  EXPECT_EQ(Bench::status(*x),
            "UNIMPLEMENTED: action KEEP: no sessions are kept here: that takes a cluster (cluster.nats)");
  auto y = t.open();
  t.send(*y, resume(std::string(32, 'f')));
  EXPECT_EQ(Bench::status(*y).substr(0, 13), "UNIMPLEMENTED");
  for (bool alone : {true, false}) {
    FakeHandover nodes;
    Bench list{alone ? Options() : with(nodes)};
    auto z = list.open();
    list.send(*z, "actions { name: 'LIST_ACTIONS' outputs { name: 'actions' id: 'l' } }");
    const std::string there = list.leaf(*z, "l");
    for (const char* name : {"\"KEEP\"", "\"RESUME\""}) EXPECT_EQ(there.find(name) == there.npos, alone) << there;
  }
}

}  // namespace
}  // namespace weir::evergreen
