#include "cluster/kept_sessions.h"

#include <gtest/gtest.h>

#include "kept_sessions_fixture.h"

namespace weir::cluster {
namespace {

TEST_F(KeptSessionsTest, TheNewestTurnIsKept) {
  One a(*this, "a");
  pass(seconds(1), {&a});
  EXPECT_TRUE(save(a, "s", "one").ok());
  EXPECT_TRUE(save(a, "s", "two").ok());
  int answered = 0;
  for (const char* state : {"three", "four", "five"})
    a.kept.save("s", state, [&](const Status& s) { answered += s.ok(); });
  bucket.answer();
  EXPECT_EQ(answered, 3);
  EXPECT_TRUE(value("s").ends_with("\nfive"));
  EXPECT_EQ(a.kept.owned(), 1u);
}

TEST_F(KeptSessionsTest, ANodeThatIsThereHasItAndAnotherSaysWhich) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(a, "s", "one").ok());
  auto place = find(b, "s");
  ASSERT_TRUE(place) << place.error().text;
  EXPECT_EQ(place->where, Where::kNode);
  EXPECT_EQ(place->node, "a");
  EXPECT_EQ(find(b, "other")->where, Where::kNowhere);
}

TEST_F(KeptSessionsTest, WhoWaitsForANodeThatHasDiedGetsTheSessionAsItWasLastKept) {
  auto a = std::make_unique<One>(*this, "a");
  One b(*this, "b");
  pass(seconds(2), {a.get(), &b});
  ASSERT_TRUE(save(*a, "s", "one").ok());
  ASSERT_TRUE(save(*a, "s", "two").ok());
  a.reset();
  auto place = find(b, "s", "a", seconds(7), {&b});
  ASSERT_TRUE(place) << place.error().text;
  EXPECT_EQ(place->where, Where::kHere);
  EXPECT_EQ(place->state, "two");
  EXPECT_EQ(b.kept.taken(), 1u);
  EXPECT_TRUE(save(b, "s", "three").ok());
  EXPECT_TRUE(value("s").ends_with("\nthree"));
}

TEST_F(KeptSessionsTest, OneThatDoesNotAnswerAndIsThereIsNamedInTheEnd) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(a, "s", "one").ok());
  EXPECT_EQ(find(b, "s", "a", seconds(10), {&a, &b}).error().text, "no answer");
  auto place = find(b, "s", "a", seconds(17), {&a, &b});
  ASSERT_FALSE(place);
  EXPECT_EQ(place.error().code, Code::kUnavailable);
  EXPECT_NE(place.error().text.find("'a'"), std::string::npos);
}

TEST_F(KeptSessionsTest, ANodeThatWasFencedLosesItsTurnAndSaysSo) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(a, "s", "one").ok());
  a.way.cut = true;
  a.membership.disconnected();
  EXPECT_TRUE(find(b, "s", "a", seconds(7), {&b}));
  ASSERT_TRUE(save(b, "s", "of b").ok());
  a.way.cut = false;
  a.membership.connected();
  pass(seconds(2), {&a, &b});
  EXPECT_EQ(save(a, "s", "of a").code, Code::kAborted);
  EXPECT_TRUE(value("s").ends_with("\nof b"));
  EXPECT_EQ(find(a, "s")->node, "b");
}

TEST_F(KeptSessionsTest, WhileTheBucketIsAwayTurnsAreAnsweredAndWrittenLater) {
  One a(*this, "a");
  pass(seconds(1), {&a});
  ASSERT_TRUE(save(a, "s", "one").ok());
  bucket.away = true;
  a.membership.disconnected();
  EXPECT_TRUE(save(a, "s", "two").ok());
  EXPECT_TRUE(save(a, "new", "n").ok());
  EXPECT_EQ(a.kept.unkept(), 2u);
  auto nobodys = find(a, "of another");
  EXPECT_EQ(nobodys.error().code, Code::kUnavailable);
  EXPECT_NE(nobodys.error().text.find("NATS is away"), std::string::npos);
  bucket.away = false;
  a.membership.connected();
  pass(seconds(4), {&a});
  EXPECT_EQ(a.kept.unkept(), 0u);
  EXPECT_TRUE(value("s").ends_with("\ntwo"));
  EXPECT_TRUE(value("new").ends_with("\nn"));
}

// The record is then one turn ahead of what this node knows to be there, and still its own.
TEST_F(KeptSessionsTest, ATurnBehindAWriteWhoseAnswerWasLostIsNotGivenUp) {
  One a(*this, "a");
  pass(seconds(1), {&a});
  ASSERT_TRUE(save(a, "s", "one").ok());
  bucket.loses_answer = "session.s";
  Status two = kNoAnswer;
  a.kept.save("s", "two", [&](Status s) { two = std::move(s); });
  bucket.answer();
  a.membership.disconnected();
  pass(seconds(1), {});
  ASSERT_TRUE(two.ok()) << two.text;
  ASSERT_TRUE(value("s").ends_with("\ntwo"));
  EXPECT_TRUE(save(a, "s", "three").ok());
  bucket.away = false;
  a.membership.connected();
  EXPECT_EQ(find(a, "s")->state, "three");
  pass(seconds(4), {&a});
  EXPECT_TRUE(value("s").ends_with("\nthree"));
  EXPECT_EQ(a.kept.lost_turns(), 0u);
  EXPECT_TRUE(save(a, "s", "four").ok());
  EXPECT_TRUE(value("s").ends_with("\nfour"));
}

TEST_F(KeptSessionsTest, AClaimThatIsNotAnsweredIsTriedAgain) {
  One a(*this, "a");
  pass(seconds(1), {&a});
  ASSERT_TRUE(save(a, "s", "one").ok());
  bucket.loses_answer = "session.s";
  Status two = kNoAnswer;
  a.kept.save("s", "two", [&](Status s) { two = std::move(s); });
  pass(seconds(2), {&a});
  EXPECT_NE(two.code, Code::kAborted) << two.text;
  bucket.away = false;
  pass(seconds(4), {&a});
  EXPECT_TRUE(two.ok()) << two.text;
  EXPECT_EQ(a.kept.lost_turns(), 0u);
}

// The other's turn has the number that the lost write would have; and the answer to taking that record is lost, too.
TEST_F(KeptSessionsTest, ATurnOfAnotherNodeIsNotTakenForTheLostWrite) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(a, "s", "one").ok());
  Status two = kNoAnswer;
  a.kept.save("s", "two", [&](Status s) { two = std::move(s); });
  bucket.refuse_next();  // it does not come there
  bucket.away = true;
  a.membership.disconnected();
  pass(seconds(1), {});
  ASSERT_TRUE(two.ok()) << two.text;
  bucket.away = false;
  a.way.cut = true;
  ASSERT_TRUE(find(b, "s", "a", seconds(8), {&b}));
  ASSERT_EQ(a.kept.unkept(), 1u);
  ASSERT_TRUE(save(b, "s", "of b").ok());
  Status released = kNoAnswer;
  b.kept.release("s", [&](Status s) { released = std::move(s); });
  bucket.answer();
  ASSERT_TRUE(released.ok());
  bucket.loses_answer = "session.s";
  a.way.cut = false;
  a.membership.connected();
  pass(seconds(2), {&a, &b});
  bucket.away = false;
  pass(seconds(4), {&a, &b});
  EXPECT_TRUE(value("s").ends_with("\nof b"));
  EXPECT_EQ(a.kept.lost_turns(), 1u);
}

TEST_F(KeptSessionsTest, WithoutALeaseATurnOfASessionThatAnotherNodeMayHaveFails) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(a, "s", "one").ok());
  bucket.away = true;
  a.membership.disconnected();
  pass(seconds(5), {});  // b promises nothing: nobody can ask it
  ASSERT_FALSE(a.membership.has_lease());
  const Status refused = save(a, "s", "two");
  EXPECT_EQ(refused.code, Code::kUnavailable);
  EXPECT_TRUE(base::worth_trying_again(refused));
  EXPECT_EQ(find(a, "s").error().code, Code::kUnavailable);
  // Nobody else can know of one that was opened since.
  EXPECT_TRUE(save(a, "new", "n").ok());
  EXPECT_EQ(find(a, "new")->where, Where::kHere);
  EXPECT_TRUE(save(a, "new", "n2").ok());
  bucket.away = false;
  a.membership.connected();
  pass(seconds(4), {&a, &b});
  EXPECT_TRUE(value("s").ends_with("\ntwo"));
  EXPECT_TRUE(value("new").ends_with("\nn2"));
}

// Its lease is that of another incarnation, and says nothing of what was this node's before.
TEST_F(KeptSessionsTest, ATurnThatWaitsOnANodeThatWasFencedIsNotTakenForTheSession) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(a, "s", "one").ok());
  bucket.away = true;
  a.membership.disconnected();
  EXPECT_TRUE(save(a, "s", "of a").ok());
  bucket.away = false;
  a.way.cut = true;
  EXPECT_TRUE(find(b, "s", "a", seconds(7), {&b}));
  ASSERT_TRUE(save(b, "s", "of b").ok());
  a.way.cut = false;
  a.membership.connected();
  for (int answers = 0; answers < 4; ++answers) bucket.answer();
  ASSERT_TRUE(a.membership.has_lease());
  ASSERT_EQ(a.kept.unkept(), 1u);
  bucket.away = true;
  a.membership.disconnected();
  EXPECT_EQ(find(a, "s").error().code, Code::kUnavailable);
  EXPECT_EQ(save(a, "s", "of a, too").code, Code::kUnavailable);
}

TEST_F(KeptSessionsTest, StatesThatWaitAreBounded) {
  One a(*this, "a", {.unkept_bytes = 1000});
  pass(seconds(1), {&a});
  bucket.away = true;
  a.membership.disconnected();
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(save(a, "s" + std::to_string(i), std::string(100, 'x')).ok());
  EXPECT_EQ(a.kept.unkept(), 10u);
  EXPECT_EQ(a.kept.lost_turns(), 40u);
}

TEST_F(KeptSessionsTest, SearchesAreBounded) {
  One a(*this, "a", {.waiting = 5}), b(*this, "b");
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(b, "s", "one").ok());
  int refused = 0;
  for (int i = 0; i < 8; ++i)
    a.kept.find("s", "b", [&](const base::Result<Place>& p) { refused += p.error().code == Code::kResourceExhausted; });
  EXPECT_EQ(refused, 3);
  pass(seconds(20), {&a, &b});
  EXPECT_EQ(find(a, "s")->node, "b");
}

TEST_F(KeptSessionsTest, OneThatHasEndedIsErasedAlsoWhenTheBucketWasAway) {
  One a(*this, "a");
  pass(seconds(1), {&a});
  ASSERT_TRUE(save(a, "s", "one").ok());
  ASSERT_TRUE(save(a, "t", "one").ok());
  a.kept.end("s");
  bucket.answer();
  EXPECT_EQ(value("s"), "");
  bucket.away = true;
  a.kept.end("t");
  bucket.answer();
  EXPECT_NE(value("t"), "");
  bucket.away = false;
  pass(seconds(4), {&a});
  EXPECT_EQ(value("t"), "");
  EXPECT_EQ(find(a, "t")->where, Where::kNowhere);
}

TEST_F(KeptSessionsTest, OneThatEndsWhileItIsWrittenIsErasedBehindThat) {
  One a(*this, "a");
  pass(seconds(1), {&a});
  a.kept.save("s", "one", [](const Status&) {});
  a.kept.end("s");
  bucket.answer();
  EXPECT_EQ(value("s"), "");
}

TEST_F(KeptSessionsTest, ASessionThatThisNodeCannotRunIsForAnother) {
  auto a = std::make_unique<One>(*this, "a");
  One b(*this, "b");
  pass(seconds(2), {a.get(), &b});
  ASSERT_TRUE(save(*a, "s", "one").ok());
  a.reset();
  b.can_take = base::failure(Code::kUnimplemented, "no such model");
  auto place = find(b, "s", "a", seconds(7), {&b});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->where, Where::kNode);
  EXPECT_EQ(place->node, "");
  EXPECT_EQ(place->state, "one");
  EXPECT_EQ(b.kept.owned(), 0u);
}

TEST_F(KeptSessionsTest, RecordsThatCannotBeReadAreRefusedByName) {
  One a(*this, "a", {}, "a key of the cluster");
  pass(seconds(1), {&a});
  const Record forged{"gone", 1, 1, "state"};
  const std::string signed_for_s = write_record(forged, "s", "a key of the cluster");
  int number = 0;
  for (const std::string& bad :
       {std::string(), std::string("weir-session 1\n"), write_record(forged), write_record(forged, "s", "another key"),
        signed_for_s, signed_for_s + "x", std::string(2 << 20, 'x')}) {
    const std::string id = "r" + std::to_string(++number);
    bucket.put({"session." + id, bad, 0, false}, 0);
    auto place = find(a, id);
    ASSERT_FALSE(place) << id;
    EXPECT_EQ(place.error().code, Code::kDataLoss);
    EXPECT_NE(place.error().text.find("record in the cluster's bucket"), std::string::npos);
  }
  EXPECT_EQ(a.kept.refused(), 7u);
  ASSERT_TRUE(save(a, "mine", "x").ok());
  EXPECT_TRUE(read_record(value("mine"), "mine", "a key of the cluster"));
  EXPECT_FALSE(read_record(value("mine"), "other", "a key of the cluster"));
}

TEST_F(KeptSessionsTest, ATurnOnAStaleRevisionLoses) {
  One a(*this, "a");
  pass(seconds(1), {&a});
  ASSERT_TRUE(save(a, "s", "one").ok());
  auto& entry = bucket.entries["session.s"];
  entry.value = write_record({"b", 7, 5, "of b"}), entry.revision = ++bucket.revision;
  Node other = node_named("b");
  other.incarnation = 7, other.beat = 1;
  bucket.put({"node.b", write_node(other, ""), 0, false}, 0);
  a.membership.on_entry(bucket.entries["node.b"]);
  EXPECT_EQ(save(a, "s", "two").code, Code::kAborted);
}

TEST_F(KeptSessionsTest, ANodeThatDrainsReleasesWhatItDoesNotWrite) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(a, "s", "one").ok());
  ASSERT_TRUE(save(a, "t", "one").ok());
  Status status = kNoAnswer;
  a.kept.save("t", "two", [&](Status s) { status = std::move(s); });
  a.kept.release_all();
  bucket.answer();
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(find(b, "t")->where, Where::kNode);
  auto place = find(b, "s");
  ASSERT_TRUE(place) << place.error().text;
  EXPECT_EQ(place->where, Where::kHere);
  EXPECT_EQ(place->state, "one");
  EXPECT_EQ(save(a, "s", "of a").code, Code::kAborted);
}

TEST_F(KeptSessionsTest, WhoDrainsGoesOnWithASessionThatNobodyHasTaken) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(a, "s", "one").ok());
  a.kept.release_all();
  bucket.answer();
  EXPECT_TRUE(save(a, "s", "two").ok());
  EXPECT_TRUE(value("s").ends_with("\ntwo"));
  EXPECT_EQ(find(b, "s")->node, "a");
}

TEST_F(KeptSessionsTest, ARecordWhoseTimeIsOverIsWrittenAnew) {
  One a(*this, "a");
  pass(seconds(1), {&a});
  ASSERT_TRUE(save(a, "s", "one").ok());
  bucket.entries.erase("session.s");
  EXPECT_TRUE(save(a, "s", "two").ok());
  EXPECT_TRUE(value("s").ends_with("\ntwo"));
}

}  // namespace
}  // namespace weir::cluster
