// A log that is another one, or has lost its end: a copy refuses changes, and hides no loss.
#include <gtest/gtest.h>

#include "copies.h"

namespace weir::jobs {
namespace {

using base::Code;

TEST_F(Two, AnotherLogIsNotMixedIn) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  log.identity = "2", log.entries.clear(), log.ids.clear(), log.last = 0;
  EXPECT_EQ(Code::kFailedPrecondition, a->perform(add("y", 1)).code);
  EXPECT_TRUE(log.entries.empty());
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
