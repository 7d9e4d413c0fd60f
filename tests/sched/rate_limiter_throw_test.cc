// Turns are given and given back where there is no memory.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "failing_new.h"
#include "sched/rate_limiter.h"

namespace weir::sched {
namespace {

// True: the work has thrown, since its allocation of that number failed.
template <class Work>
bool throws_without_memory(int64_t allocation, Work work) {
  left = allocation, counted = true;
  bool thrown = false;
  try {
    work();
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  counted = false, left = -1;
  return thrown;
}

TEST(RateLimiterThrow, NoTurnIsLostWhereThereIsNoMemory) {
  for (int64_t allocation = 0; allocation < 8; ++allocation) {
    auto limiter = std::make_shared<RateLimiter>();
    const RateLimit limit{{{"a resource with a name that is long", true, 1}}};
    std::vector<std::unique_ptr<RateLimiter::Instance>> all;
    for (int i = 0; i < 3; ++i) all.push_back(*RateLimiter::join(limiter, limit, "cpu"));
    EXPECT_FALSE(throws_without_memory(allocation, [&] { all[0]->acquire(); })) << allocation;
    std::atomic<int> had{0};
    std::vector<std::thread> threads;
    for (size_t i : {1u, 2u}) threads.emplace_back([&, i] { all[i]->acquire(), ++had, all[i]->release(); });
    while (limiter->waiting() < 2) std::this_thread::yield();
    EXPECT_FALSE(throws_without_memory(allocation, [&] { all[0]->release(); })) << allocation;
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(had, 2);
    EXPECT_EQ(limiter->used().begin()->second.first, 0u) << allocation;
  }
}

}  // namespace
}  // namespace weir::sched
