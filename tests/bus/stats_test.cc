#include "bus/stats.h"

#include <gtest/gtest.h>

namespace weir::bus {
namespace {

using base::Code;

TEST(ModelStats, AFailureCountsItsTimeAndWhoseFaultItIs) {
  ModelStats stats;
  stats.add_failure(Code::kInternal, 5);
  stats.add_failure(Code::kInvalidArgument, 7);
  stats.add_failure(Code::kUnavailable, 11);
  stats.add_failure(Code::kResourceExhausted, 13);
  stats.add_failure(Code::kCancelled, 17);
  stats.add_failure(Code::kDeadlineExceeded, 19);
  EXPECT_EQ(stats.fail.count, 6u);
  EXPECT_EQ(stats.fail.ns, 5u + 7 + 11 + 13 + 17 + 19);
  EXPECT_EQ(stats.errors, 2u);
  EXPECT_EQ(stats.rejected, 2u);
  EXPECT_EQ(stats.cancelled + stats.expired, 0u) << "the bus counts these";
}

TEST(ModelStats, BatchesAreSummedByTheirRows) {
  ModelStats stats;
  stats.record_batch(2, 1, 10, 100);
  stats.record_batch(2, 2, 20, 200);
  stats.record_batch(3, 4, 40, 400);
  auto batches = stats.batches();
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[2].count, 2u);
  EXPECT_EQ(batches[2].input_ns, 3u);
  EXPECT_EQ(batches[2].infer_ns, 30u);
  EXPECT_EQ(batches[2].output_ns, 300u);
  EXPECT_EQ(batches[3].count, 1u);
}

TEST(TokenStats, TheUseOfKeysAndValuesIsAPart) {
  TokenStats stats;
  EXPECT_EQ(stats.kv_usage(), 0) << "there is none";
  stats.blocks_total.set(1), stats.blocks_used.set(1);
  EXPECT_EQ(stats.kv_usage(), 1);
  stats.blocks_total.set(8), stats.blocks_used.set(2);
  EXPECT_EQ(stats.kv_usage(), 0.25);
}

TEST(TokenStats, ASequenceStopsAtAStopIdAndElseAtItsLength) {
  using Reason = TokenStats::Reason;
  EXPECT_EQ(reason_of(msg::Finish::kEos), Reason::kStop);
  EXPECT_EQ(reason_of(msg::Finish::kStopId), Reason::kStop);
  EXPECT_EQ(reason_of(msg::Finish::kLength), Reason::kLength);
  EXPECT_EQ(reason_of(msg::Finish::kNone), Reason::kLength) << "it was asked for no token";
}

TEST(ModelStats, WhatWaitsIsInsideAndOutside) {
  ModelStats stats;
  stats.pending = 3, stats.held = 4;
  EXPECT_EQ(stats.waiting(), 7u);
  stats.pending = -1;  // read between two lanes' changes
  EXPECT_EQ(stats.waiting(), 4u);
}

}  // namespace
}  // namespace weir::bus
