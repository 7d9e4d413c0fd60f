#include "sched/sequence_spec.h"

#include <gtest/gtest.h>

#include "calls.h"
#include "msg/priority.h"
#include "sched/batcher.h"

namespace weir::sched {
namespace {

TEST(SequenceSpec, BehindTheSlotsNoRequestTimesOutAndNoQueueIsFull) {
  msg::ModelSpec spec = spec_of(2, 1);
  msg::SequenceSpec sequences;
  spec.batching.queue_timeout = 1s, spec.batching.max_queue = 1, spec.batching.priority_levels = 2;
  spec.batching.levels[1] = {1, 1s, true, msg::QueuePolicy::TimeoutAction::kDelay};
  wait_for_slots(spec, sequences);
  EXPECT_EQ(msg::queue_policy(sequences.queue, 2).queue_timeout, 1s);
  EXPECT_EQ(msg::queue_policy(sequences.queue, 1).timeout_action, msg::QueuePolicy::TimeoutAction::kDelay);
  Batcher batcher(spec);
  std::deque<msg::Call> calls;
  std::vector<Dropped> dropped;
  for (uint32_t priority : {1u, 1u, 2u, 2u}) {
    auto& call = calls.emplace_back();
    call.priority = priority, call.queue_timeout = 1ms;
    fill(call, 1, 0, 1);
    EXPECT_TRUE(batcher.add(&call, base::Time(0s), dropped).ok());
  }
  EXPECT_EQ(batcher.leaves_at(), base::kNever);
  batcher.leave(base::Time(1h), dropped);
  EXPECT_TRUE(dropped.empty());
}

// How many of `waiting` requests that came at 0 s run at once, of a model with so many rows a batch and 3 s of
// patience.
size_t run_at_once(float utilization, size_t waiting, uint32_t max_batch = 8) {
  msg::ModelSpec spec = spec_of(max_batch);
  msg::SequenceSpec sequences;
  sequences.max_delay = 3s, sequences.minimum_utilization = utilization;
  share_batches(spec, sequences);
  Batcher batcher(spec);
  std::deque<msg::Call> calls;
  std::vector<Dropped> dropped;
  std::vector<msg::Call*> batch;
  for (size_t i = 0; i < waiting; ++i) {
    fill(calls.emplace_back(), 1, 0, 1);
    EXPECT_TRUE(batcher.add(&calls.back(), base::Time(0s), dropped).ok());
  }
  batcher.next(base::Time(1s), batch, dropped);
  return batch.size();
}

TEST(SequenceSpec, ABatchRunsOnceEnoughSlotsHaveARequest) {
  EXPECT_EQ(run_at_once(0, 1), 1u);
  EXPECT_EQ(run_at_once(0.1F, 1), 1u);
  EXPECT_EQ(run_at_once(0.5F, 3), 0u);
  EXPECT_EQ(run_at_once(0.5F, 4), 4u);
  EXPECT_EQ(run_at_once(0.5F, 7), 7u);
  EXPECT_EQ(run_at_once(1, 7), 0u);
  EXPECT_EQ(run_at_once(1, 8), 8u);
  EXPECT_EQ(run_at_once(7, 8), 8u);
  EXPECT_EQ(run_at_once(-1, 1), 1u);
}

TEST(SequenceSpec, AShareThatNoFloatHasExactlyIsNotRoundedUp) {
  EXPECT_EQ(run_at_once(0.1F, 1, 10), 1u);
  for (uint32_t max_batch : {5u, 10u, 20u, 100u})
    for (uint32_t slots = 2; slots <= max_batch; slots += 1 + slots / 20) {
      const auto share = float(double(slots) / max_batch);
      EXPECT_EQ(run_at_once(share, slots, max_batch), slots) << share;
      EXPECT_EQ(run_at_once(share, slots - 1, max_batch), 0u) << share;
    }
}

}  // namespace
}  // namespace weir::sched
