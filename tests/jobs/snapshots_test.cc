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

}  // namespace
}  // namespace weir::jobs
