#include "bus/run_counts.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "bus/stats.h"

namespace weir::bus {
namespace {

// Some of them share a cell.
TEST(RunCounts, NothingIsLostOfWhatManyThreadsCount) {
  constexpr size_t kThreads = base::kNumberedThreads + 20, kTimes = 500;
  ModelStats stats;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (size_t n = 0; n < kTimes; ++n) {
        stats.ran({.at_ms = 1,
                   .calls = 2,
                   .rows = 3,
                   .whole_ns = 5,
                   .queue_ns = 7,
                   .input_ns = 11,
                   .infer_ns = 13,
                   .output_ns = 17});
        stats.record_batch(n % 2 ? 1 : 4, 1, 10, 100);
      }
    });
  for (auto& thread : threads) thread.join();
  constexpr uint64_t kAll = kThreads * kTimes;
  EXPECT_EQ(stats.inference_count, 3 * kAll);
  EXPECT_EQ(stats.execution_count, kAll);
  for (auto* of : {&stats.success, &stats.queue, &stats.compute_input, &stats.compute_infer, &stats.compute_output})
    EXPECT_EQ(of->count, 2 * kAll);
  EXPECT_EQ(stats.success.ns, 5 * kAll);
  EXPECT_EQ(stats.queue.ns, 7 * kAll);
  EXPECT_EQ(stats.compute_input.ns, 11 * kAll);
  EXPECT_EQ(stats.compute_infer.ns, 13 * kAll);
  EXPECT_EQ(stats.compute_output.ns, 17 * kAll);
  const auto batches = stats.batches();
  ASSERT_EQ(batches.size(), 2u);
  for (uint32_t rows : {1, 4}) {
    EXPECT_EQ(batches.at(rows).count, kAll / 2);
    EXPECT_EQ(batches.at(rows).output_ns, 100 * kAll / 2);
  }
}

TEST(RunCounts, TheLatestInferenceIsThatOfAnyThread) {
  ModelStats stats;
  EXPECT_EQ(stats.runs.latest(), 0u);
  stats.runs.mine().set_latest(100);
  std::thread([&] { stats.runs.mine().set_latest(200); }).join();
  EXPECT_EQ(stats.runs.latest(), 200u);
  stats.set_last_inference(300);
  EXPECT_EQ(stats.runs.latest(), 300u);
}

}  // namespace
}  // namespace weir::bus
