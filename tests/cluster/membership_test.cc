#include "cluster/membership.h"

#include <gtest/gtest.h>

#include "base/fake_env.h"
#include "cluster/ownership.h"
#include "fake_bucket.h"

namespace weir::cluster {
namespace {

using base::Code;
using std::chrono::milliseconds;
using std::chrono::seconds;

Node named(const std::string& id) {
  Node node;
  node.id = id, node.address = "http://127.0.0.1:1";
  return node;
}

struct MembershipTest : testing::Test {
  struct One {
    One(MembershipTest& test, const std::string& id, Rules rules = {})
        : way(test.bucket),
          membership(test.env, way, rules, "", named(id), listener()),
          ownership(test.bucket, membership, 10) {
      membership.connected();
    }
    Membership::Listener listener() {
      Membership::Listener out;
      out.joined = [this](const Node& node) { log += "+" + node.id; };
      out.left = [this](const Node& node) { log += "-" + node.id; };
      out.fenced = [this] { log += "fenced", ownership.drop_all(); };
      out.name_taken = [this](const Node& other) { log += "taken by " + other.address; };
      out.refused = [this](const std::string& key, const std::string& why) { log += key + ": " + why + ";"; };
      return out;
    }
    std::string log;
    Way way;
    Membership membership;
    Ownership ownership;
  };

  void pass(base::Duration time, const std::vector<One*>& watching) { cluster::pass(env, bucket, time, watching); }
  base::Status take(One& one, const std::string& session) {
    base::Status out = base::failure(Code::kUnknown, "no answer");
    one.ownership.take(session, [&](base::Result<Record> taken) { out = taken ? base::Status() : taken.error(); });
    bucket.answer();
    return out;
  }
  base::Status open(One& one, const std::string& session) {
    base::Status out = base::failure(Code::kUnknown, "no answer");
    one.ownership.open(session, "x", [&](base::Status s) { out = s; });
    bucket.answer();
    return out;
  }

  base::FakeEnv env;
  FakeBucket bucket;
};

TEST_F(MembershipTest, NodesFindEachOtherAndMissOneThatFallsSilent) {
  One a(*this, "a");
  auto b = std::make_unique<One>(*this, "b");
  pass(seconds(2), {&a, b.get()});
  EXPECT_EQ("+b", a.log);
  EXPECT_EQ("+a", b->log);
  b.reset();
  pass(milliseconds(3500), {&a});
  EXPECT_EQ("+b", a.log);
  pass(seconds(4), {&a});
  EXPECT_EQ("+b-b", a.log);
  EXPECT_TRUE(a.membership.nodes().empty());
}

TEST_F(MembershipTest, ANodeThatLeavesIsGoneAtOnce) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(2), {&a, &b});
  bool left = false;
  b.membership.leave([&] { left = true; });
  pass(milliseconds(100), {&a});
  EXPECT_TRUE(left);
  EXPECT_EQ("+b-b", a.log);
}

TEST_F(MembershipTest, WhileTheBucketIsAwayNobodyIsGone) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(2), {&a, &b});
  bucket.away = true;
  a.membership.disconnected(), b.membership.disconnected();
  pass(seconds(60), {});
  EXPECT_EQ(1u, a.membership.nodes().size());
  EXPECT_TRUE(a.membership.away());
  EXPECT_FALSE(a.membership.has_lease());
  bucket.away = false;
  a.membership.connected(), b.membership.connected();
  pass(seconds(2), {&a, &b});
  EXPECT_EQ("+b", a.log);
  EXPECT_TRUE(a.membership.has_lease());
}

TEST_F(MembershipTest, TwoOfOneNameAreNotBothThere) {
  auto first = std::make_unique<One>(*this, "same");
  pass(seconds(2), {});
  One second(*this, "same");
  pass(seconds(9), {});
  EXPECT_TRUE(first->membership.has_lease());
  EXPECT_FALSE(second.membership.has_lease());
  EXPECT_EQ("", second.log) << "it may be what is left of a node that has gone";
  pass(seconds(60), {});
  EXPECT_EQ("", std::exchange(first, nullptr)->log);
  pass(seconds(8), {});
  EXPECT_TRUE(second.membership.has_lease());
  EXPECT_EQ("taken by http://127.0.0.1:1", second.log);
}

TEST_F(MembershipTest, LyingEntriesAreRefusedOnceByName) {
  One a(*this, "a", {.most_nodes = 3});
  pass(seconds(1), {});
  auto say = [&](const std::string& key, const std::string& value) {
    a.membership.on_entry({key, value, ++bucket.revision, false});
    a.membership.on_entry({key, value, ++bucket.revision, false});
  };
  say("node.b", "garbage");
  EXPECT_EQ("node.b: no entry of a node;", a.log);
  a.log.clear();
  Node other = named("c");
  other.incarnation = 1;
  say("node.b", write_node(other, ""));
  EXPECT_EQ("", a.log);
  EXPECT_TRUE(a.membership.nodes().empty());
  EXPECT_EQ(4u, a.membership.others().refused());
  say("node." + std::string(500, 'x'), "");
  say("session.x", "");
  say("node.../x", "");
  for (int i = 0; i < 20; ++i) {
    Node one = named("n" + std::to_string(i));
    one.incarnation = 1;
    say("node." + one.id, write_node(one, ""));
  }
  EXPECT_LE(a.membership.nodes().size(), 3u);
  EXPECT_NE(std::string::npos, a.log.find("there are 3 nodes already"));
}

// Whoever can write into the bucket may write keys without end.
TEST_F(MembershipTest, EntriesThatAreRefusedTakeNoPlaces) {
  One a(*this, "a", {.most_nodes = 3});
  pass(seconds(1), {});
  for (int i = 0; i < 1000; ++i) {
    a.membership.on_entry({"node.x" + std::to_string(i), "garbage", ++bucket.revision, false});
    a.membership.on_entry({"node.y" + std::to_string(i), "", ++bucket.revision, true});
  }
  EXPECT_EQ(1000u, a.membership.others().refused());
  EXPECT_LE(a.log.size(), 100u * 64) << "the log has some of them";
  EXPECT_NE(std::string::npos, a.log.find("node.x0: no entry of a node;"));
  a.log.clear();
  One b(*this, "b");
  pass(seconds(2), {&a, &b});
  EXPECT_EQ("+b", a.log);
}

TEST_F(MembershipTest, OwnersThatNobodyHasSeenTakeNoPlaces) {
  One a(*this, "a", {.most_nodes = 3});
  pass(seconds(1), {});
  std::map<std::string, int> said;
  for (int i = 0; i < 100; ++i) {
    a.membership.fencing().fence("ghost" + std::to_string(i), 1, [&](base::Status status) { ++said[status.text]; });
    bucket.answer();
  }
  EXPECT_LE(said["the node may still be there"], 3) << "so many are remembered";
  EXPECT_GE(said["too many nodes are missed"], 97);
  One b(*this, "b");
  pass(seconds(2), {&a, &b});
  EXPECT_EQ("+b", a.log);
}

TEST_F(MembershipTest, ModelsOfAllNodesAreBounded) {
  One a(*this, "a", {.most_models = 10});
  pass(seconds(1), {});
  auto say = [&](const std::string& id, uint64_t beat, size_t models) {
    Node node = named(id);
    node.incarnation = 1, node.beat = beat;
    for (size_t i = 0; i < models; ++i) node.models.push_back({"m" + std::to_string(i)});
    a.membership.on_entry({"node." + id, write_node(node, ""), ++bucket.revision, false});
  };
  say("b", 1, 6), say("c", 1, 4), say("d", 1, 1);
  EXPECT_EQ(2u, a.membership.nodes().size());
  EXPECT_NE(std::string::npos, a.log.find("the nodes have more than 10 models"));
  say("b", 2, 7);
  EXPECT_EQ(6u, a.membership.others().find("b")->models.size());
  say("b", 3, 5), say("d", 2, 1);
  EXPECT_EQ(3u, a.membership.nodes().size());
  EXPECT_EQ(5u, a.membership.others().find("b")->models.size());
  // Those of a node that is forgotten are free again.
  pass(seconds(120), {});
  EXPECT_EQ(0u, a.membership.nodes().size());
  say("e", 1, 10);
  EXPECT_EQ(1u, a.membership.nodes().size());
}

// A write fails as often as somebody else writes there: the next try is the next beat's.
TEST_F(MembershipTest, ANodeWhoseEntryIsWrittenOverAndOverWaitsForItsNextBeat) {
  One a(*this, "a");
  pass(seconds(2), {});
  bucket.meddler = "node.a";
  const uint64_t before = bucket.writes;
  pass(seconds(5), {});
  EXPECT_LE(bucket.writes - before, 12u);
  bucket.meddler.clear();
  pass(seconds(2), {});
  EXPECT_TRUE(a.membership.has_lease());
}

TEST_F(MembershipTest, AnOldEntryThatIsWrittenAgainIsRefused) {
  One a(*this, "a");
  Node b = named("b");
  b.incarnation = 1, b.beat = 5;
  a.membership.on_entry({"node.b", write_node(b, ""), 10, false});
  b.beat = 4;
  a.membership.on_entry({"node.b", write_node(b, ""), 11, false});
  EXPECT_EQ(1u, a.membership.others().refused());
  b.incarnation = 2, b.beat = 1;
  a.membership.on_entry({"node.b", write_node(b, ""), 12, false});
  b.incarnation = 1, b.beat = 6;
  a.membership.on_entry({"node.b", write_node(b, ""), 13, false});
  EXPECT_EQ(2u, a.membership.others().refused());
  EXPECT_EQ(2u, a.membership.others().find("b")->incarnation);
}

// Where a write of "fenced" is lost and expects no entry, it may come as long as there is none: this node promises that
// incarnation nothing. Of a later one the mark says nothing, and it is promised to.
TEST_F(MembershipTest, AFenceOfAnAbsentEntryThatMayComeLateIsForgottenOnceTheNodeHasJoinedAnew) {
  One a(*this, "a", {.alone = seconds(10)});
  pass(seconds(1), {&a});
  base::Status status;
  auto fence = [&] { a.membership.fencing().fence("b", 7, [&](base::Status s) { status = s; }); };
  fence(), bucket.answer();
  EXPECT_EQ(Code::kUnavailable, status.code);
  pass(seconds(13), {&a});
  fence(), bucket.answer(1);  // it reads, and writes
  bucket.refuse_next();
  EXPECT_EQ(Code::kUnavailable, status.code);
  auto see = [&](uint64_t incarnation) {
    Node b = named("b");
    b.incarnation = incarnation, b.beat = 1;
    a.membership.on_entry({"node.b", write_node(b, ""), ++bucket.revision, false});
  };
  see(7);
  a.way.cut = true;
  a.membership.disconnected();
  EXPECT_EQ("that node is being fenced", a.membership.fencing().promise("b", 7).error().text);
  see(8);
  EXPECT_TRUE(a.membership.fencing().promise("b", 8));
}

// The entry of an earlier incarnation does not say whom a later one asks.
TEST_F(MembershipTest, TheMarkOfAnEarlierIncarnationLetsNobodyBeFencedSooner) {
  One a(*this, "a", {.alone = seconds(20)});
  pass(seconds(1), {&a});
  Node mark;
  mark.id = "b", mark.incarnation = 7, mark.phase = Node::Phase::kFenced;
  ASSERT_TRUE(bucket.put({"node.b", write_node(mark, ""), 0, false}, 0));
  base::Status status;
  auto fence = [&](uint64_t incarnation) {
    a.membership.fencing().fence("b", incarnation, [&](base::Status s) { status = s; });
    bucket.answer();
    return status;
  };
  EXPECT_TRUE(fence(7).ok());
  pass(seconds(10), {&a});
  EXPECT_EQ(Code::kUnavailable, fence(8).code);
  pass(seconds(20), {&a});
  EXPECT_EQ(Code::kUnavailable, fence(8).code) << "it may go on alone since it was looked for";
  pass(seconds(6), {&a});
  EXPECT_TRUE(fence(8).ok());
  EXPECT_EQ(Code::kUnavailable, fence(9).code) << "how long another one was looked for says nothing";
}

// A flood of entries costs no walk over all of them for each.
TEST_F(MembershipTest, TheNodesThatHaveAnEntryAreCountedAsTheyComeAndGo) {
  One a(*this, "a", {.most_nodes = 4});
  pass(seconds(1), {&a});
  auto say = [&](const std::string& id) {
    Node one = named(id);
    one.incarnation = 1;
    a.membership.on_entry({"node." + id, write_node(one, ""), ++bucket.revision, false});
  };
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 8; ++i) say("n" + std::to_string(i));
    EXPECT_EQ(4u, a.membership.others().present());
    EXPECT_EQ(4u, a.membership.nodes().size());
    for (int i = 0; i < 8; ++i) a.membership.on_entry({"node.n" + std::to_string(i), "", ++bucket.revision, true});
    EXPECT_EQ(0u, a.membership.others().present());
  }
}

TEST_F(MembershipTest, ANodeIsToldOfOnceItHasAnAddressAndTheServerHasHeard) {
  One a(*this, "a");
  auto b = std::make_unique<One>(*this, "b");
  pass(seconds(2), {&a, b.get()});
  EXPECT_FALSE(a.membership.others().told("b"));
  EXPECT_EQ(1u, a.membership.others().tell().size());
  EXPECT_TRUE(a.membership.others().told("b"));
  b.reset();
  pass(seconds(6), {&a});
  EXPECT_EQ(0u, a.membership.others().tell().size());
  EXPECT_FALSE(a.membership.others().told("b"));
}

TEST_F(MembershipTest, ASessionIsTakenOnlyWhenItsOwnerIsGone) {
  One a(*this, "a");
  auto b = std::make_unique<One>(*this, "b");
  pass(seconds(2), {&a, b.get()});
  EXPECT_TRUE(open(*b, "s").ok());
  EXPECT_EQ(Code::kAlreadyExists, open(a, "s").code);
  EXPECT_EQ(Code::kFailedPrecondition, take(a, "s").code);
  EXPECT_EQ("b", a.ownership.owner_of("s"));
  EXPECT_EQ(Code::kNotFound, take(a, "t").code);
  b.reset();
  pass(seconds(3), {&a});
  EXPECT_FALSE(take(a, "s").ok());
  pass(seconds(4), {&a});
  EXPECT_TRUE(take(a, "s").ok());
  EXPECT_TRUE(a.ownership.may_answer("s"));
}

// The bucket has lost the entry of a node that died, and a beat of it that was sent twice has come again.
TEST_F(MembershipTest, ABeatThatComesLateDoesNotKeepADeadNodesSessions) {
  One a(*this, "a");
  auto b = std::make_unique<One>(*this, "b");
  pass(seconds(1), {&a, b.get()});
  const std::string early = bucket.entries.at("node.b").value;
  pass(seconds(2), {&a, b.get()});
  EXPECT_TRUE(open(*b, "s").ok());
  b.reset();
  pass(seconds(3), {&a});
  bucket.entries.erase("node.b");
  bucket.write("node.b", early, 0, [](base::Result<uint64_t> revision) { EXPECT_TRUE(revision); });
  bucket.answer();
  pass(seconds(4), {&a});
  EXPECT_TRUE(take(a, "s").ok());
  EXPECT_TRUE(a.ownership.may_answer("s"));
}

TEST_F(MembershipTest, AFencedNodeLearnsItAndJoinsAnew) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(2), {&a, &b});
  EXPECT_TRUE(open(b, "s").ok());
  b.way.cut = true;
  b.membership.disconnected();
  pass(seconds(6), {&a});
  EXPECT_FALSE(b.ownership.may_answer("s"));
  EXPECT_TRUE(take(a, "s").ok());
  b.way.cut = false;
  b.membership.connected();
  pass(seconds(1), {&a, &b});
  EXPECT_NE(std::string::npos, b.log.find("fenced"));
  EXPECT_FALSE(b.ownership.owns("s"));
  EXPECT_TRUE(b.membership.has_lease());
  EXPECT_EQ(1u, a.membership.nodes().size());
}

TEST_F(MembershipTest, ACommitOfAnotherOwnerIsAborted) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(2), {&a, &b});
  EXPECT_TRUE(open(b, "s").ok());
  b.membership.leave([] {});
  pass(seconds(1), {&a});
  EXPECT_TRUE(take(a, "s").ok());
  base::Status status;
  b.ownership.commit("s", "late", [&](base::Status s) { status = s; });
  bucket.answer();
  EXPECT_EQ(Code::kAborted, status.code);
  a.ownership.commit("s", std::string(Ownership::kLargestState + 1, 'x'), [&](base::Status s) { status = s; });
  bucket.answer();
  EXPECT_EQ(Code::kResourceExhausted, status.code);
  a.ownership.close("s", [&](base::Status s) { status = s; });
  bucket.answer();
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(Code::kNotFound, take(a, "s").code);
}

TEST(Record, HostileRecordsAreRefused) {
  const Record record{"a", 5, 2, "some\nbytes"};
  auto read = read_record(write_record(record));
  ASSERT_TRUE(read);
  EXPECT_EQ("some\nbytes", read->state);
  EXPECT_EQ(2u, read->turn);
  const std::string text = write_record(record);
  for (size_t n = 0; n < text.size() - record.state.size(); ++n) EXPECT_FALSE(read_record(text.substr(0, n))) << n;
  EXPECT_FALSE(read_record("weir-session 1\nowner ../x 5\nturn 2\n\n"));
  EXPECT_FALSE(read_record(text + std::string(Ownership::kLargestState + 512, 'x')));
}

}  // namespace
}  // namespace weir::cluster
