// Snapshots of a log whose room is short, and of what a node did not know yet.
#include <gtest/gtest.h>

#include "copies.h"

namespace weir::jobs {
namespace {

using base::Code;

TEST_F(Two, ASnapshotIsBegunWhileItFitsAndNotLater) {
  for (uint64_t i = 0; i < 20; ++i)
    ASSERT_TRUE(a->perform([i](Recorder& r) { (void)r.files.append("f", i, std::string(500'000, 'x')); }).ok());
  log.last += Snapshots::kApart;
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  const size_t parts = log.parts.size();
  log.bytes = {15 << 20, 20 << 20};
  EXPECT_EQ(Code::kResourceExhausted, a->replica->shorten_log().error().code);
  EXPECT_EQ(parts, log.parts.size());
  log.bytes = {4 << 20, 20 << 20};
  while (a->replica->shorten_log().value()) continue;
  EXPECT_TRUE(log.newest);
}

TEST_F(Two, JobsThatWereClaimedWithinASnapshotAreClaimedAgain) {
  ASSERT_TRUE(a->perform(add("x", 2)).ok());
  // Nobody knows whether b has them, and before it reads so itself a has made a snapshot of it.
  b->catch_up();
  log.lose_acks = 2;
  EXPECT_TRUE(b->claim(2).empty());
  log.bytes.used = Snapshots::kShort * 4, log.last += Snapshots::kApart;
  ASSERT_TRUE(a->perform(add("y", 1)).ok());
  while (a->replica->shorten_log().value()) continue;
  ASSERT_TRUE(b->replica->take_snapshot().ok());
  EXPECT_EQ(2u, b->counts("x").running);
  EXPECT_FALSE(b->replica->next_claimed());
  const std::set<std::string> others{"a"};
  EXPECT_TRUE(b->replica->look_after_nodes(&others, base::Time(seconds(1))).value());
  EXPECT_EQ(3u, b->claim(9).size());
  same();
}

}  // namespace
}  // namespace weir::jobs
