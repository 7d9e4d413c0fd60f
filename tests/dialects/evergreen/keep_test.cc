// KEEP and RESUME: sessions that other nodes of a cluster go on with.
#include "keep_fixture.h"

namespace weir::evergreen {
namespace {

using namespace std::chrono_literals;

pb::SessionMessage forgotten_in_5s(const std::string& node) {
  auto m = Bench::parse("actions { name: 'SET_TTL' inputs { name: 'node' id: '" + node + "' } }");
  v1::TtlConfig ttl;
  ttl.set_milliseconds(5000);
  add_config(m, ttl);
  return m;
}

TEST_F(EvergreenKeep, ASessionWhoseClientHasLeftGoesOnAtAnotherConnection) {
  auto x = t.open();
  const std::string id = keep(*x);
  EXPECT_TRUE(session::parse_session_id(id)) << id;
  t.send(*x, text_leaf("a", "abc"));
  t.send(*x, kEcho);
  answer();
  t.send(*x, text_leaf("b", "sent last"));
  x.reset();
  answer();
  EXPECT_TRUE(nodes.held.empty());
  EXPECT_EQ(nodes.kept.size(), 1u);

  auto y = t.open();
  t.send(*y, resume(id, "outputs { name: 'session' id: 'again' }"));
  t.send(*y, "actions { name: 'ECHO' inputs { name: 'x' id: 'e' } outputs { name: 'x' id: 'f' } }");
  EXPECT_TRUE(t.fragments(*y).empty()) << "what is sent behind it waits";
  answer();
  EXPECT_EQ(t.leaf(*y, "again"), id);
  const std::string there = t.leaf(*y, "there");
  EXPECT_EQ(there.size(), std::string(R"(["a","b","e"])").size()) << there;
  for (const char* node : {"\"a\"", "\"b\"", "\"e\""}) EXPECT_NE(there.find(node), there.npos) << there;
  EXPECT_EQ(t.leaf(*y, "f"), "abc");
  t.send(*y, "actions { name: 'ECHO' inputs { name: 'x' id: 'b' } outputs { name: 'x' id: 'g' } }");
  EXPECT_EQ(t.leaf(*y, "g"), "sent last");
  // An output of before is one still.
  t.send(*y, text_leaf("e", "mine"));
  EXPECT_EQ(status(*y), "INVALID_ARGUMENT: node 'e', fragment 0: the node is the output of an action");
  answer();
  EXPECT_TRUE(nodes.kept.empty()) << "a session that breaks a rule ends everywhere";
}

TEST_F(EvergreenKeep, WhatWasOpenCanBeBegunAgain) {
  auto x = t.open();
  const std::string id = keep(*x);
  t.send(*x, text_leaf("q", "why?"));
  t.send(*x, generate("q", "answer"));
  ASSERT_EQ(t.chat->held.size(), 1u);
  t.chat->emit(t.chat->held[0], {msg::Token{'b', 100, false, nullptr}});
  t.turn();
  EXPECT_EQ(t.leaf(*x, "answer"), "b…");
  x.reset();
  while (!t.chat->held.empty()) t.chat->emit(t.chat->held[0], {msg::Failed{}});
  answer();
  auto y = t.open();
  t.send(*y, resume(id));
  t.send(*y, generate("q", "answer"));
  answer();
  EXPECT_EQ(t.leaf(*y, "there"), R"(["q"])");
  t.answer("because");
  EXPECT_EQ(t.leaf(*y, "answer"), "because");
  EXPECT_EQ(status(*y), "open");
}

TEST_F(EvergreenKeep, ItIsKeptAfterEachAction) {
  auto x = t.open();
  const std::string id = keep(*x);
  answer();
  pause(*x);
  const int before = nodes.saves;
  t.send(*x, text_leaf("a", "abc"));
  answer();
  EXPECT_EQ(nodes.saves, before);
  t.send(*x, kEcho);
  EXPECT_EQ(nodes.saves, before + 1);
  // While one is under way, the next waits; then the newest is kept.
  for (int i = 0; i < 5; ++i)
    t.send(*x, "actions { name: 'ECHO' inputs { name: 'x' id: 'a' } outputs { name: 'x' id: 'e" + std::to_string(i) +
                   "' } }");
  EXPECT_EQ(nodes.saves, before + 1);
  answer();
  pause(*x);
  answer();
  EXPECT_EQ(nodes.saves, before + 2);
  for (int i = 0; i < 5; ++i) EXPECT_NE(kept_of(id).find("e" + std::to_string(i)), std::string::npos);
}

TEST_F(EvergreenKeep, WhoComesTakesItFromTheOldConnection) {
  auto x = t.open();
  const std::string id = keep(*x);
  t.send(*x, text_leaf("a", "abc"));
  auto y = t.open();
  t.send(*y, resume(id));
  answer();
  EXPECT_EQ(status(*x), "ABORTED: the session goes on at another connection of its client");
  EXPECT_EQ(t.leaf(*y, "there"), R"(["a"])");
  EXPECT_EQ(status(*y), "open");
  EXPECT_EQ(nodes.held.size(), 1u);
}

TEST_F(EvergreenKeep, OfOthersItDoesNotExist) {
  auto x = t.open();
  const std::string id = keep(*x);
  wire::PeerInfo other;
  other.address = "192.0.2.7:5000";
  t.rpc.peer = &other;
  for (const std::string& guess : {id, std::string(32, 'f')}) {
    auto y = t.open();
    t.send(*y, resume(guess));
    answer();
    EXPECT_EQ(status(*y), kNoSuch);
  }
  EXPECT_EQ(status(*x), "open");
  EXPECT_EQ(nodes.held.size(), 1u);
  auto y = t.open();
  t.send(*y, resume("../../etc"));
  EXPECT_EQ(status(*y),
            "INVALID_ARGUMENT: action RESUME: ResumeConfig.session: expected 32 lower-case hexadecimal digits");
  t.rpc.peer = nullptr;
}

TEST_F(EvergreenKeep, ResumeComesFirst) {
  auto x = t.open();
  const std::string id = keep(*x);
  x.reset();
  answer();
  auto y = t.open();
  t.send(*y, text_leaf("a", "abc"));
  t.send(*y, resume(id, "outputs { name: 'status' id: 's' }"));
  EXPECT_NE(t.leaf(*y, "s").find("before all nodes and other actions"), std::string::npos) << t.leaf(*y, "s");
  EXPECT_EQ(nodes.taken, 0);
  EXPECT_EQ(status(*y), "open");
  // One that found nothing leaves a session behind that can be kept.
  auto z = t.open();
  t.send(*z, resume(std::string(32, 'f'), "outputs { name: 'status' id: 's' }"));
  answer();
  EXPECT_NE(t.leaf(*z, "s").find("there is no such session"), std::string::npos);
  EXPECT_EQ(keep(*z).size(), 32u);
}

TEST_F(EvergreenKeep, AnEndedSessionEndsEverywhere) {
  auto x = t.open();
  const std::string id = keep(*x);
  EXPECT_EQ(nodes.kept.size(), 1u);
  t.rpc.end(*x);
  t.turn();
  EXPECT_EQ(status(*x), "");
  answer();
  EXPECT_TRUE(nodes.kept.empty());
  EXPECT_TRUE(nodes.held.empty());
}

TEST_F(EvergreenKeep, ItsAgeGoesWithIt) {
  auto x = t.open();
  const std::string id = keep(*x);
  for (int i = 0; i < 23 * 12; ++i) {
    t.rpc.advance(*x, 5min);
    t.send(*x, text_leaf("n" + std::to_string(i), "abc"));
    answer();
  }
  x.reset();
  answer();
  auto y = t.open();
  t.send(*y, resume(id));
  answer();
  for (int i = 0; i < 13; ++i) {
    t.rpc.advance(*y, 5min);
    if (!y->ended) t.send(*y, text_leaf("m" + std::to_string(i), "abc"));
    answer();
  }
  EXPECT_TRUE(status(*y).starts_with("DEADLINE_EXCEEDED: the session is too old")) << status(*y);
  EXPECT_TRUE(nodes.kept.empty());
}

TEST_F(EvergreenKeep, ADrainLeavesItToOthers) {
  auto x = t.open();
  const std::string id = keep(*x);
  t.send(*x, text_leaf("a", "abc"));
  t.evergreen->drain(1s);
  EXPECT_EQ(status(*x), "UNAVAILABLE: the server is shutting down");
  answer();
  EXPECT_TRUE(nodes.held.empty());
  EXPECT_NE(kept_of(id).find("abc"), std::string::npos);
}

TEST_F(EvergreenKeep, ATimeToLiveGoesOn) {
  auto x = t.open();
  const std::string id = keep(*x);
  t.send(*x, text_leaf("a", "abc"));
  t.send(*x, forgotten_in_5s("a"));
  t.rpc.advance(*x, 2s);
  x.reset();
  answer();
  auto y = t.open();
  t.send(*y, resume(id));
  answer();
  EXPECT_EQ(t.leaf(*y, "there"), R"(["a"])");
  t.rpc.advance(*y, 2900ms);
  t.send(*y, kEcho);
  EXPECT_EQ(t.leaf(*y, "e"), "abc");
  t.rpc.advance(*y, 200ms);
  t.send(*y, "actions { name: 'DROP' inputs { name: 'node' id: 'a' } outputs { name: 'status' id: 's' } }");
  EXPECT_NE(t.leaf(*y, "s").find("there is no node 'a'"), std::string::npos) << t.leaf(*y, "s");
}

TEST_F(EvergreenKeep, ATimeToLiveGoesWithItsNode) {
  auto x = t.open();
  t.send(*x, text_leaf("a", "abc"));
  t.send(*x, forgotten_in_5s("a"));
  t.send(*x, "actions { name: 'DROP' inputs { name: 'node' id: 'a' } }");
  t.send(*x, text_leaf("a", "another"));
  t.rpc.advance(*x, 6s);
  t.send(*x, kEcho);
  EXPECT_EQ(t.leaf(*x, "e"), "another");
}

TEST_F(EvergreenKeep, SmallSavesHaveTheirPaceButForKeepsAndTheEnd) {
  auto x = t.open();
  const std::string id = keep(*x);
  t.send(*x, text_leaf("a", "abc"));
  pause(*x);
  const int before = nodes.saves;
  auto echo = [&](const std::string& to) {
    t.send(*x, "actions { name: 'ECHO' inputs { name: 'x' id: 'a' } outputs { name: 'x' id: '" + to + "' } }");
    answer();
  };
  for (int i = 0; i < 20; ++i) echo("e" + std::to_string(i));
  EXPECT_EQ(nodes.saves, before + 1);
  t.send(*x, "actions { name: 'KEEP' outputs { name: 'session' id: 'again' } }");
  EXPECT_EQ(nodes.saves, before + 2);
  answer();
  EXPECT_EQ(t.leaf(*x, "again"), id);
  echo("f");
  EXPECT_EQ(nodes.saves, before + 2);
  pause(*x);
  EXPECT_EQ(nodes.saves, before + 3);
  t.send(*x, text_leaf("b", "sent last"));
  x.reset();
  EXPECT_EQ(nodes.saves, before + 4);
  answer();
}

TEST_F(EvergreenKeep, KeepAgainIsAnsweredWhenAllThatIsThereIsKept) {
  auto x = t.open();
  const std::string id = keep(*x);
  pause(*x);
  t.send(*x, text_leaf("a", "abc"));
  t.send(*x, kEcho);
  t.send(*x, text_leaf("b", "behind the save that is under way"));
  t.send(*x, "actions { name: 'KEEP' outputs { name: 'session' id: 'again' } }");
  EXPECT_EQ(t.leaf(*x, "again"), "…");
  EXPECT_EQ(kept_of(id).find("behind"), std::string::npos);
  answer();
  EXPECT_EQ(t.leaf(*x, "again"), id);
  EXPECT_NE(kept_of(id).find("behind"), std::string::npos);
}

TEST_F(EvergreenKeep, AClientThatLeavesWhileItResumesLeavesTheSessionToTheNext) {
  auto x = t.open();
  const std::string id = keep(*x);
  t.send(*x, text_leaf("a", "abc"));
  x.reset();
  answer();
  const int before = nodes.let_go_of;
  auto y = t.open();
  t.send(*y, resume(id));
  y.reset();
  answer();
  EXPECT_EQ(nodes.let_go_of, before + 1);
  EXPECT_EQ(nodes.kept.size(), 1u);
  auto z = t.open();
  t.send(*z, resume(id));
  answer();
  EXPECT_EQ(t.leaf(*z, "there"), R"(["a"])");
}

}  // namespace
}  // namespace weir::evergreen
