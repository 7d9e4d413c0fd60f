// The statistics of a scheduler: of each sequence, of each step, and its part of the model's gauges.
#include <gtest/gtest.h>

#include "scheduler_harness.h"

namespace weir::generation {
namespace {

uint64_t ns(base::Duration d) { return uint64_t(d.count()); }
uint64_t samples(const base::Histogram& histogram) {
  uint64_t n = 0;
  for (size_t i = 0; i <= base::Histogram::kBuckets; ++i) n += histogram.bucket(i);
  return n;
}

TEST(SchedulerStats, ASequenceIsCountedByWhenItWasQueuedStartedComputedAndOver) {
  SchedulerHarness harness(small());
  auto& call = harness.call(numbers(6), 9);
  harness.send(call);
  harness.now += 3ms;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(harness.step());  // 1 ms and a token each
  harness.now += 4ms;
  call.satisfied = true, call.cancelled = true;
  EXPECT_FALSE(harness.step());
  ASSERT_EQ(harness.dones[&call].completion_tokens, 3u);

  const auto& stats = harness.stats;
  EXPECT_EQ(stats.inference_count, 1u);
  EXPECT_EQ(stats.success.count, 1u);
  EXPECT_EQ(stats.fail.count, 0u);
  EXPECT_EQ(stats.success.ns, ns(10ms));
  EXPECT_EQ(stats.queue.ns, ns(3ms));
  EXPECT_EQ(stats.compute_input.ns, 0u);
  EXPECT_EQ(stats.compute_infer.ns, ns(3ms));
  EXPECT_EQ(stats.compute_output.ns, ns(4ms));
  const auto& tokens = *stats.tokens;
  EXPECT_EQ(tokens.queue.sum(), ns(3ms));
  EXPECT_EQ(tokens.time_to_first_token.sum(), ns(4ms));
  EXPECT_EQ(tokens.inter_token.sum(), ns(2ms));
  EXPECT_EQ(samples(tokens.inter_token), 2u);
  EXPECT_EQ(tokens.prefill.sum(), ns(1ms));
  EXPECT_EQ(tokens.decode.sum(), ns(2ms));
  EXPECT_EQ(tokens.per_output_token.sum(), ns(1ms)) << "two tokens after the first";
  EXPECT_EQ(tokens.inference.sum(), ns(7ms));
  EXPECT_EQ(tokens.whole.sum(), ns(10ms));
  EXPECT_EQ(tokens.prompt_tokens.sum(), 6u);
  EXPECT_EQ(tokens.generated_tokens.sum(), 3u);
  EXPECT_EQ(tokens.max_tokens.sum(), 9u);
  EXPECT_EQ(tokens.prompt_total.value(), 6u);
  EXPECT_EQ(tokens.generated_total.value(), 3u);
  EXPECT_EQ(tokens.prefix_queries.value(), 6u);
  EXPECT_EQ(tokens.prefix_hits.value(), 0u);
}

TEST(SchedulerStats, TheTimeForAnImageIsInput) {
  SchedulerHarness harness(small());
  harness.images = SchedulerHarness::Images::kByHand;
  auto& call = harness.call(numbers(6), 2);
  call.generation->images.push_back({base::Bytes::copy_of("abc"), "image/png", 0, 5});
  harness.send(call);
  EXPECT_FALSE(harness.step());
  harness.now += 5ms;
  ASSERT_TRUE(harness.encode_images());
  harness.run();
  EXPECT_EQ(harness.said[&call], harness.expected(call));
  EXPECT_EQ(harness.stats.queue.ns, 0u);
  EXPECT_EQ(harness.stats.compute_input.ns, ns(5ms));
  EXPECT_EQ(harness.stats.compute_infer.ns, ns(2ms));
  EXPECT_EQ(harness.stats.tokens->prefill.sum(), ns(6ms));
}

TEST(SchedulerStats, ASequenceOfWhichEverythingIsThereTakesNoTime) {
  SchedulerHarness harness(small());
  auto& first = harness.call(numbers(8), 1);
  harness.send(first);
  harness.run();
  auto& again = harness.call(numbers(8), 0);
  harness.send(again);
  harness.now += 2ms;
  harness.run();
  EXPECT_EQ(again.times.computing, harness.now);
  EXPECT_EQ(again.times.computed, harness.now);
  EXPECT_EQ(harness.stats.success.ns, ns(1ms + 2ms));
  EXPECT_EQ(harness.stats.compute_infer.ns, ns(1ms)) << "of the first one";
  EXPECT_EQ(harness.stats.compute_output.ns, 0u);
  EXPECT_EQ(samples(harness.stats.tokens->decode), 2u);
  EXPECT_EQ(samples(harness.stats.tokens->per_output_token), 0u) << "neither has a second token";
  EXPECT_EQ(harness.stats.tokens->prefix_queries.value(), 16u);
  EXPECT_EQ(harness.stats.tokens->prefix_hits.value(), 8u);
}

TEST(SchedulerStats, AStepIsCountedByItsSequencesAndItsTokens) {
  SchedulerHarness harness(small());
  auto& runs = harness.call(numbers(3), 3);
  harness.send(runs);
  ASSERT_TRUE(harness.step());
  auto& comes = harness.call(numbers(5, 40), 1);
  harness.send(comes);
  const base::Time planned = harness.now;
  ASSERT_TRUE(harness.step());
  EXPECT_EQ(runs.times.batch_rows, 2u);
  EXPECT_EQ(comes.times.batch_rows, 2u);
  ASSERT_TRUE(harness.step());
  EXPECT_EQ(harness.stats.execution_count, 3u);
  auto batches = harness.stats.batches();
  EXPECT_EQ(batches[1].count, 2u);
  EXPECT_EQ(batches[1].infer_ns, ns(2ms));
  EXPECT_EQ(batches[2].count, 1u);
  EXPECT_EQ(batches[2].infer_ns, ns(1ms));
  EXPECT_EQ(batches[2].input_ns + batches[2].output_ns, 0u);
  EXPECT_EQ(harness.stats.tokens->iteration_tokens.sum(), 3u + 6 + 1);
  auto timeline = harness.stats.timeline.latest();
  ASSERT_EQ(timeline.size(), 3u);
  EXPECT_EQ(timeline[0].calls, 0u);
  EXPECT_EQ(timeline[0].rows, 3u);
  EXPECT_EQ(timeline[1].instance, 0u);
  EXPECT_EQ(timeline[1].calls, 1u) << "one decodes";
  EXPECT_EQ(timeline[1].rows, 6u);
  EXPECT_EQ(timeline[1].queued, planned);
  EXPECT_EQ(timeline[1].arrived, planned);
  EXPECT_EQ(timeline[1].computed, planned + 1ms);
  EXPECT_EQ(timeline[1].finished, planned + 1ms);
}

TEST(SchedulerStats, HowSequencesEndedIsCountedByItsReason) {
  using Reason = bus::TokenStats::Reason;
  SchedulerHarness harness(small());
  auto ended = [&](Reason reason) { return harness.stats.tokens->ended[size_t(reason)].value(); };
  harness.send(harness.call(numbers(4), 2));
  harness.run();
  EXPECT_EQ(ended(Reason::kLength), 1u);
  auto& cancelled = harness.call(numbers(4), 9);
  harness.send(cancelled);
  ASSERT_TRUE(harness.step());
  cancelled.cancelled = true;
  harness.now += 2ms;
  EXPECT_FALSE(harness.step());
  EXPECT_EQ(ended(Reason::kAbort), 1u);
  EXPECT_EQ(harness.stats.fail.ns, ns(3ms));
  EXPECT_EQ(cancelled.times.finished, harness.now);
  auto& late = harness.call(numbers(4), 9);
  late.deadline = harness.now + 1ms;
  harness.send(late);
  ASSERT_TRUE(harness.step());
  EXPECT_FALSE(harness.step());
  EXPECT_EQ(ended(Reason::kAbort), 2u);
  harness.engine.fail_at = 0;
  harness.send(harness.call(numbers(4), 9));
  harness.run();
  EXPECT_EQ(ended(Reason::kError), 1u);
  EXPECT_EQ(ended(Reason::kStop), 0u);
  EXPECT_EQ(harness.stats.fail.count, 3u);
  EXPECT_EQ(harness.stats.execution_count, 2u + 1 + 1) << "a step that fails is none";
}

// A model has one set of gauges, to which each scheduler adds.
TEST(SchedulerStats, TheGaugesAreTheSumOfTheSchedulersAndAnAbandonedOneTakesItsPartBack) {
  auto policy = small();
  policy.max_running = 2;
  SchedulerHarness harness(policy, 20);
  TokenScheduler other(harness.engine, {20, 4}, policy, harness.spec, harness.stats, 7);
  const auto& tokens = *harness.stats.tokens;
  EXPECT_EQ(tokens.blocks_total.value(), 40);
  auto& session = harness.call(numbers(6), 2);
  session.session = {1, 2};
  harness.send(session);
  harness.run();
  EXPECT_EQ(tokens.sessions.value(), 1);
  EXPECT_EQ(tokens.blocks_used.value(), 2) << "of seven positions";
  auto& cached = harness.call(numbers(5, 60), 1);
  harness.send(cached);
  harness.run();
  EXPECT_EQ(tokens.blocks_cached.value(), 1);
  for (uint32_t i = 0; i < 5; ++i) harness.send(harness.call(numbers(4, i), 9));
  EXPECT_EQ(tokens.waiting.value(), 5);
  EXPECT_EQ(harness.stats.pending, 5);
  ASSERT_TRUE(harness.step());
  EXPECT_EQ(tokens.running.value(), 2);
  EXPECT_EQ(tokens.waiting.value(), 3);
  EXPECT_EQ(harness.stats.pending, 3);
  msg::Call mine;
  mine.generation = std::make_unique<msg::Generation>();
  mine.generation->append = {1, 2};
  other.add(&mine, harness.now);
  EXPECT_EQ(tokens.waiting.value(), 4);
  other.abandon();
  EXPECT_EQ(tokens.waiting.value(), 3);
  EXPECT_EQ(harness.stats.pending, 3);
  EXPECT_EQ(tokens.blocks_total.value(), 20);
  harness.scheduler->abandon();
  for (const auto* gauge : {&tokens.waiting, &tokens.running, &tokens.blocks_total, &tokens.blocks_used,
                            &tokens.blocks_cached, &tokens.sessions})
    EXPECT_EQ(gauge->value(), 0);
  EXPECT_EQ(harness.stats.pending, 0);
  EXPECT_TRUE(harness.scheduler->empty());
}

}  // namespace
}  // namespace weir::generation
