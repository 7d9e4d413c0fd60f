// Sequences of several adapters in one TokenScheduler: none of them reads keys and values of another one's.
#include <gtest/gtest.h>

#include "scheduler_harness.h"

namespace weir::generation {
namespace {

TEST(Adapters, APrefixThatOneHasComputedIsNoOthers) {
  SchedulerHarness harness(small());
  for (uint32_t adapter : {1u, 0u, 2u, 1u, 0u, 2u}) {
    auto& call = harness.call(numbers(18), 5);
    call.adapter = adapter;
    const bool first = harness.engine.steps < 3 * 6;
    harness.send(call);
    harness.run();
    EXPECT_EQ(harness.said[&call], harness.expected(call)) << adapter;
    EXPECT_EQ(harness.dones[&call].cached_tokens, first ? 0u : 16u) << adapter;
  }
}

// A client chooses its salt; no salt makes the one's blocks the other's.
TEST(Adapters, NoSaltReachesTheBlocksOfAnother) {
  SchedulerHarness harness(small());
  for (uint64_t salt : {uint64_t(0), uint64_t(1), uint64_t(2), uint64_t(1) << 32, ~uint64_t(0)})
    for (uint32_t adapter : {0u, 1u, 2u}) {
      auto& call = harness.call(numbers(18), 5);
      call.adapter = adapter, call.generation->cache_salt = salt;
      harness.send(call);
      harness.run();
      EXPECT_EQ(harness.said[&call], harness.expected(call)) << adapter;
      EXPECT_EQ(harness.dones[&call].cached_tokens, 0u) << adapter;
    }
}

TEST(Adapters, ASessionThatChangesItsAdapterIsComputedAnew) {
  SchedulerHarness harness(small());
  auto& first = harness.call(numbers(18), 5);
  first.session = {1, 2}, first.adapter = 1;
  harness.send(first);
  harness.run();
  const auto history = harness.sequence(first);
  for (uint32_t adapter : {2u, 0u}) {
    auto& next = harness.call(numbers(3, 50), 4);
    next.session = {1, 2}, next.adapter = adapter;
    next.generation->history = history;
    harness.send(next);
    harness.run();
    EXPECT_EQ(harness.said[&next], harness.expected(next)) << adapter;
    EXPECT_EQ(harness.dones[&next].cached_tokens, 0u) << adapter;
  }
}

TEST(Adapters, SequencesOfSeveralRunInOneStepAndAhead) {
  for (bool ahead : {false, true}) {
    SchedulerHarness harness(small());
    harness.ahead = ahead;
    std::vector<msg::Call*> calls;
    for (uint32_t i = 0; i < 6; ++i) {
      auto& call = harness.call(numbers(10 + i), 9);
      call.adapter = i % 3;
      call.generation->logprobs = {{2, 16}};
      calls.push_back(&call);
      harness.send(call);
    }
    harness.run();
    EXPECT_EQ(harness.engine.most_rows, 6u);
    for (auto* call : calls) EXPECT_EQ(harness.said[call], harness.expected(*call)) << call->adapter;
  }
}

TEST(Adapters, OneThatThereIsNotIsRefused) {
  SchedulerHarness harness(small());
  auto& call = harness.call(numbers(4));
  call.adapter = 3;
  EXPECT_FALSE(harness.send(call));
  EXPECT_EQ(harness.said[&call].front(), "INTERNAL: model 'talker' has no adapter 3");
}

}  // namespace
}  // namespace weir::generation
