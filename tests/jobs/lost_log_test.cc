// A log that is another one, or has lost its end: a copy refuses changes, and hides no loss.
#include <gtest/gtest.h>

#include "copies.h"

namespace weir::jobs {
namespace {

using base::Code;

TEST_F(Two, AnotherLogIsNotMixedIn) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  log.make_anew();
  log.write("somebody's");
  EXPECT_EQ(Code::kFailedPrecondition, a->perform(add("y", 1)).code);
  EXPECT_EQ(1u, log.entries.size());
}

// Both have told each other how far they are, and the time for that is over.
struct NewLog : Two {
  void make_anew() {
    log.make_anew();
    for (auto* copy : {&*a, &*b}) EXPECT_EQ(Code::kUnavailable, look(*copy));
    log.now += LogBeginning::kCompare;
  }
  static Code look(Copy& copy) {
    auto more = copy.replica->catch_up();
    return more ? Code::kOk : more.error().code;
  }
};

TEST_F(NewLog, ItBeginsWithTheCopyThatIsFurthest) {
  ASSERT_TRUE(a->perform(add("x", 3)).ok());
  b->catch_up();
  ASSERT_EQ(1u, a->claim(1).size());
  make_anew();
  EXPECT_EQ(Code::kUnavailable, look(*b));
  a->catch_up(), b->catch_up();
  EXPECT_EQ(2u, b->counts("x").waiting);
  ASSERT_TRUE(b->perform(add("y", 1)).ok());
  ++log.connection;
  same();
  const std::set<std::string> nobody;
  ASSERT_TRUE(b->replica->look_after_nodes(&nobody, {}));
  ASSERT_TRUE(b->replica->look_after_nodes(&nobody, base::Time() + 2 * Replica::kGrace));
  EXPECT_EQ(3u, b->counts("x").waiting) << "what was claimed before is claimed again";
  Copy c(log, "c");
  c.catch_up();
  a->catch_up();
  EXPECT_EQ(a->dump(), c.dump());
  log.bytes.used = Snapshots::kShort * 4, log.last += Snapshots::kApart;
  ASSERT_TRUE(a->perform(add("z", 1)).ok());
  while (a->replica->shorten_log().value()) continue;
  EXPECT_LT(Log::Snapshot::kBeginning, log.newest->sequence);
  EXPECT_TRUE(b->replica->take_snapshot().ok());
  same();
}

TEST_F(NewLog, TwoCopiesThatAreAsFarAreOneBeginning) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  b->catch_up();
  make_anew();
  log.before_beginning = [this] { b->catch_up(); };
  a->catch_up();
  same();
  EXPECT_TRUE(a->perform(add("y", 1)).ok());
  EXPECT_TRUE(b->perform(add("z", 1)).ok());
  same();
}

TEST_F(NewLog, ItIsNotTakenByACopyThatHasAcknowledgedWhatItLacks) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  b->catch_up();
  ASSERT_TRUE(a->perform(add("y", 1)).ok());
  make_anew();
  log.now += LogBeginning::kYield - seconds(1);
  EXPECT_EQ(Code::kUnavailable, look(*b));
  log.now += seconds(1);
  EXPECT_EQ(Code::kOk, look(*b)) << "the one that is further has gone";
  EXPECT_EQ(Code::kFailedPrecondition, a->perform(add("z", 1)).code);
  EXPECT_EQ(1u, a->counts("y").waiting) << "it is there to be saved by hand";
  ++log.connection;
  EXPECT_EQ(Code::kFailedPrecondition, a->perform(add("z", 1)).code);
  EXPECT_TRUE(b->perform(add("z", 1)).ok());
}

TEST_F(Two, ACopyThatHasNothingGoesOnInWhateverLogIsThere) {
  a->catch_up(), b->catch_up();
  ASSERT_TRUE(b->perform(add("x", 1)).ok());
  log.make_anew();
  a->catch_up();
  log.now += LogBeginning::kCompare;
  ASSERT_TRUE(a->perform(add("y", 1)).ok());
  EXPECT_EQ(Code::kFailedPrecondition, b->perform(add("z", 1)).code) << "that log has begun without it";
}

struct FreshCopy : NewLog {
  void SetUp() override {
    NewLog::SetUp();
    if (IsSkipped()) return;
    c.emplace(log, "c");
  }
  Code write(const char* batch) { return c->perform(add(batch, 1)).code; }
  Code duties() {  // where no other node is known
    const std::set<std::string> nobody;
    auto taken = c->replica->look_after_nodes(&nobody, {});
    return taken ? Code::kOk : taken.error().code;
  }
  std::optional<Copy> c;
};

TEST_F(FreshCopy, ItLeavesTheBeginningToThoseThatHaveSomething) {
  ASSERT_TRUE(a->perform(add("x", 3)).ok());
  log.make_anew();
  EXPECT_EQ(log_is_new(), c->perform(add("y", 1)));
  log.now += LogBeginning::kCompare - seconds(1);
  EXPECT_EQ(Code::kUnavailable, look(*a)) << "it reaches the broker late, and tells the others";
  log.now += seconds(1);
  EXPECT_EQ(Code::kUnavailable, write("y")) << "that has been told";
  log.now += LogBeginning::kCompare;
  a->catch_up();
  EXPECT_EQ(Code::kOk, write("y"));
  EXPECT_EQ(3u, c->counts("x").waiting);
  a->catch_up();
  EXPECT_EQ(a->dump(), c->dump());
}

TEST_F(FreshCopy, ItBeginsWhereNobodyDoes) {
  log.make_anew();
  EXPECT_EQ(Code::kUnavailable, write("y"));
  EXPECT_TRUE(log.entries.empty());
  log.now += LogBeginning::kCompare - seconds(1);
  EXPECT_EQ(Code::kUnavailable, write("y"));
  log.now += seconds(1);
  EXPECT_EQ(Code::kOk, write("y"));
  EXPECT_EQ(Code::kOk, b->perform(add("z", 1)).code) << "it has begun for all";
}

TEST_F(FreshCopy, ItsWaitBeginsWhenItSeesTheLogNotWhenItFirstWrites) {
  EXPECT_EQ(Code::kOk, look(*c));
  log.now += LogBeginning::kCompare;
  EXPECT_EQ(Code::kOk, write("y"));
}

// The node is the first that the broker sees again, and knows of no other: nobody has asked for anything yet.
TEST_F(FreshCopy, ItTakesNoDutiesBeforeThat) {
  ASSERT_TRUE(a->perform(add("x", 3)).ok());
  log.make_anew();
  c->catch_up();
  EXPECT_EQ(Code::kUnavailable, duties());
  EXPECT_TRUE(log.entries.empty());
  log.now += LogBeginning::kCompare;
  EXPECT_EQ(Code::kUnavailable, look(*a)) << "it comes later, and tells what it has";
  EXPECT_EQ(Code::kUnavailable, duties());
  log.now += LogBeginning::kCompare;
  a->catch_up();
  EXPECT_EQ(Code::kOk, duties());
  EXPECT_EQ(3u, c->counts("x").waiting);
}

TEST_F(FreshCopy, ItDoesNotWaitForEverForOneThatHasToldAndGone) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  log.make_anew();
  EXPECT_EQ(Code::kUnavailable, look(*a));
  EXPECT_EQ(Code::kUnavailable, write("y"));
  log.now += LogBeginning::kCompare + LogBeginning::kYield - seconds(1);
  EXPECT_EQ(Code::kUnavailable, write("y"));
  log.now += seconds(1);
  EXPECT_EQ(Code::kOk, write("y"));
}

// Which is no entry.
TEST_F(FreshCopy, ItHasTheBeginningAsSoonAsItIsThere) {
  ASSERT_TRUE(a->perform(add("x", 3)).ok());
  b->catch_up();
  make_anew();
  c->catch_up();
  a->catch_up();
  ASSERT_TRUE(log.entries.empty());
  c->catch_up();
  EXPECT_EQ(3u, c->counts("x").waiting);
}

TEST_F(FreshCopy, ItWaitsForOneThatHasNothingButABeginning) {
  ASSERT_TRUE(a->perform(add("x", 3)).ok());
  b->catch_up();
  make_anew();
  a->catch_up(), b->catch_up();
  ASSERT_TRUE(log.entries.empty());
  log.make_anew();
  EXPECT_EQ(Code::kUnavailable, write("y"));
  log.now += LogBeginning::kCompare - seconds(1);
  EXPECT_EQ(Code::kUnavailable, look(*b)) << "it tells what it has";
  log.now += seconds(1);
  EXPECT_EQ(Code::kUnavailable, write("y"));
  log.now += LogBeginning::kCompare;
  b->catch_up();
  EXPECT_EQ(Code::kOk, write("y"));
  EXPECT_EQ(3u, c->counts("x").waiting);
}

TEST_F(FreshCopy, ItReadsMeanwhile) {
  EXPECT_EQ(Code::kUnavailable, write("y"));
  EXPECT_EQ(Code::kOk, look(*c));
  EXPECT_EQ(0u, c->counts("y").waiting);
}

// A node has slept through a whole log, which had begun with another copy.
TEST_F(NewLog, ItBeginsWithTheCopyOfTheLaterLog) {
  for (const char* batch : {"x", "y", "z"}) ASSERT_TRUE(a->perform(add(batch, 1)).ok());
  b->catch_up();
  log.make_anew();
  EXPECT_EQ(Code::kUnavailable, look(*b));
  log.now += LogBeginning::kCompare;
  b->catch_up();
  ASSERT_TRUE(b->perform(add("v", 1)).ok());
  make_anew();
  EXPECT_EQ(Code::kUnavailable, look(*a)) << "it has more entries, of an earlier log";
  b->catch_up();
  EXPECT_TRUE(b->perform(add("w", 1)).ok());
  EXPECT_EQ(1u, b->counts("v").waiting);
  EXPECT_EQ(Code::kFailedPrecondition, look(*a)) << "nothing says any more that all it had is there";
}

TEST_F(NewLog, OneThatHasLostItsBeginningBeginsAgain) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  b->catch_up();
  make_anew();
  a->catch_up();
  log.cut(0);
  log.newest.reset(), log.told.clear();
  for (auto* copy : {&*a, &*b}) EXPECT_EQ(Code::kUnavailable, look(*copy));
  log.now += LogBeginning::kCompare;
  EXPECT_EQ(Code::kUnavailable, look(*b)) << "it had not taken that yet";
  a->catch_up();
  same();
  EXPECT_TRUE(a->perform(add("y", 1)).ok());
  same();
}

TEST_F(Two, ALogThatWasCutShortIsNotGoneOnWith) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  b->catch_up();
  ASSERT_TRUE(a->perform(add("y", 1)).ok());
  log.cut(log.last - 1);
  EXPECT_EQ(Code::kFailedPrecondition, a->perform(add("z", 1)).code);
  // Another entry has the sequence now.
  ASSERT_TRUE(b->perform(add("z", 1)).ok());
  ASSERT_TRUE(b->perform(add("w", 1)).ok());
  ++log.connection;
  EXPECT_EQ(Code::kFailedPrecondition, a->perform(add("v", 1)).code);
  a->begin();
  EXPECT_EQ(Code::kFailedPrecondition, a->replica->catch_up().error().code);
  ++log.connection;
  EXPECT_TRUE(b->perform(add("v", 1)).ok());
}

TEST_F(Two, WhatIsWrittenToALogThatWasCutShortHidesNoLoss) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  b->catch_up();
  const uint64_t kept = log.last;
  ASSERT_TRUE(a->perform(add("y", 1)).ok());
  log.cut(kept);
  ASSERT_TRUE(log.append_part("of a longer entry"));
  EXPECT_EQ(Code::kFailedPrecondition, a->replica->catch_up().error().code);
  ASSERT_TRUE(b->perform(add("z", 1)).ok());
  EXPECT_EQ(Code::kFailedPrecondition, a->replica->catch_up().error().code);
}

// The last thing that a copy has seen was no entry, so that it has no id of it.
TEST_F(Two, ALogThatWasCutShortBehindWhatWasSkippedIsReadAgainFromThere) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  const uint64_t kept = log.last;
  log.write("no entry"), log.write("nor that");
  a->catch_up(), b->catch_up();
  log.cut(kept);
  ASSERT_TRUE(b->perform(add("y", 1)).ok());
  ASSERT_TRUE(b->perform(add("z", 1)).ok());
  a->catch_up();
  EXPECT_EQ(1u, a->counts("y").waiting);
  same();
  // An entry before it is gone, too.
  ASSERT_TRUE(a->perform(add("v", 1)).ok());
  log.write("no entry");
  a->catch_up();
  const uint64_t skipped = log.last;
  log.cut(skipped - 2);
  log.write("no entry"), log.write("no entry");
  EXPECT_EQ(Code::kFailedPrecondition, a->replica->catch_up().error().code);
}

TEST_F(Two, ASnapshotWithoutWhatThisCopyHasAcknowledgedIsNotTaken) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  b->catch_up();
  const uint64_t kept = log.last;
  ASSERT_TRUE(a->perform(add("y", 1)).ok());
  log.cut(kept);
  log.bytes.used = Snapshots::kShort * 4, log.last += Snapshots::kApart;
  ASSERT_TRUE(b->perform(add("z", 1)).ok());
  while (b->replica->shorten_log().value()) continue;
  ASSERT_TRUE(log.newest);
  EXPECT_EQ(Code::kFailedPrecondition, a->replica->catch_up().error().code);
  EXPECT_EQ(Code::kFailedPrecondition, a->replica->take_snapshot().code);
  EXPECT_EQ(Code::kFailedPrecondition, a->perform(add("w", 1)).code);
  EXPECT_EQ(1u, a->counts("y").waiting) << "it is there to be saved by hand";
  b->catch_up();
  EXPECT_TRUE(b->perform(add("w", 1)).ok());
}

}  // namespace
}  // namespace weir::jobs
