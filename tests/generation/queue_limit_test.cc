// How many calls may wait.
#include "generation/queue_limit.h"

#include <gtest/gtest.h>

#include "scheduler_harness.h"

namespace weir::generation {
namespace {

TokenPolicy waits(base::Duration most, uint32_t running = 4) {
  TokenPolicy policy;
  policy.max_running = running, policy.max_waiting = 100'000, policy.max_wait = most;
  return policy;
}

TEST(QueueLimit, UntilSomethingIsKnownTheNumberCounts) {
  auto policy = waits(60s);
  QueueLimit limit(policy);
  EXPECT_EQ(limit.calls(), 100'000u);
  limit.began(0, 10s), limit.began(1, 10s);
  EXPECT_EQ(limit.calls(), 100'000u) << "who finds hardly anybody waits for a step and not for others";
}

TEST(QueueLimit, AsManyAsBeginInTime) {
  auto policy = waits(60s);
  QueueLimit limit(policy);
  for (size_t places : {10, 20, 40}) limit.began(places, places * 100ms);
  EXPECT_EQ(limit.calls(), 600u);
  for (int i = 0; i < 32; ++i) limit.began(10, 20s);
  EXPECT_EQ(limit.calls(), 30u) << "the last ones count";
  for (int i = 0; i < 32; ++i) limit.began(10, 1000s);
  EXPECT_EQ(limit.calls(), 4u) << "as many as a step has";
  for (int i = 0; i < 32; ++i) limit.began(10, 1us);
  EXPECT_EQ(limit.calls(), 100'000u);
}

TEST(QueueLimit, WhoFoundHalfAStepBeforeItCountsAndTheLastThirtyTwoDo) {
  auto policy = waits(60s);  // four run in a step
  QueueLimit limit(policy);
  limit.began(1, 1s);
  EXPECT_EQ(limit.calls(), 100'000u);
  limit.began(2, 1s);
  EXPECT_EQ(limit.calls(), 120u);
  for (int i = 0; i < 31; ++i) limit.began(2, 1s);
  limit.began(2, 33s);  // in place of the first: 64 places took as many seconds
  EXPECT_EQ(limit.calls(), 60u);
  for (int i = 0; i < 31; ++i) limit.began(2, 1s);
  EXPECT_EQ(limit.calls(), 60u) << "it is one of the last still";
  limit.began(2, 1s);
  EXPECT_EQ(limit.calls(), 120u);
}

TEST(QueueLimit, AFullQueueNamesItsLimits) {
  auto policy = waits(0s);
  auto spec = token_spec();
  EXPECT_EQ(queue_full(spec, policy, 7).text,
            "the queue of model 'talker' is full (7 requests wait; max_waiting is 100000); try again later");
  policy.max_wait = 1ns;
  EXPECT_NE(queue_full(spec, policy, 7).text.find("; max_wait is "), std::string::npos);
  EXPECT_TRUE(base::worth_trying_again(queue_full(spec, policy, 7)));
}

TEST(QueueLimit, WithoutATimeTheNumberCounts) {
  auto policy = waits(0s);
  QueueLimit limit(policy);
  limit.began(50, 1000s);
  EXPECT_EQ(limit.calls(), 100'000u);
}

msg::Call& send(SchedulerHarness& harness, uint64_t tenant) {
  auto& call = harness.call(numbers(3), 10);
  call.tenant = tenant;
  harness.send(call);
  return call;
}

TEST(TokenScheduler, AFloodOfOneTenantIsCutToWhatBeginsInTimeAndOthersStayIn) {
  SchedulerHarness harness(waits(100ms), 256);  // a step takes 1 ms, and a call ten of them: 0.4 calls begin per ms
  std::vector<msg::Call*> flood, others;
  for (int i = 0; i < 400; ++i) flood.push_back(&send(harness, 1));
  for (int i = 0; i < 60; ++i) harness.step();
  for (int i = 0; i < 8; ++i) others.push_back(&send(harness, 2));
  harness.step();
  EXPECT_LT(harness.scheduler->queue().size(), 80u);
  EXPECT_GT(harness.scheduler->queue().size(), 20u);
  harness.run();
  size_t answered = 0, refused = 0;
  for (auto* call : flood) harness.said[call] == harness.expected(*call) ? ++answered : ++refused;
  EXPECT_GT(answered, 30u);
  EXPECT_GT(refused, 200u);
  for (auto* call : others) EXPECT_EQ(harness.said[call], harness.expected(*call));
}

}  // namespace
}  // namespace weir::generation
