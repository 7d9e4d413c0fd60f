#include "base/thread_number.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <mutex>
#include <thread>
#include <vector>

namespace weir::base {
namespace {

// Those of so many threads that live at the same time.
std::vector<uint32_t> numbers_of(size_t threads) {
  std::barrier all_have_one{ptrdiff_t(threads)};
  std::mutex mutex;
  std::vector<uint32_t> out;
  std::vector<std::thread> running;
  for (size_t i = 0; i < threads; ++i)
    running.emplace_back([&] {
      const uint32_t mine = thread_number();
      all_have_one.arrive_and_wait();
      EXPECT_EQ(mine, thread_number());
      std::lock_guard lock(mutex);
      out.push_back(mine);
    });
  for (auto& thread : running) thread.join();
  std::sort(out.begin(), out.end());
  return out;
}

TEST(ThreadNumber, NoTwoLivingThreadsHaveOneAndItGoesOnToAnother) {
  (void)thread_number();
  const auto first = numbers_of(20), second = numbers_of(20);
  EXPECT_EQ(std::adjacent_find(first.begin(), first.end()), first.end());
  EXPECT_EQ(first, second);
}

TEST(ThreadNumber, ThreadsBeyondTheMostShareTheLastOne) {
  (void)thread_number();
  const auto all = numbers_of(kNumberedThreads + 10);
  EXPECT_EQ(std::count(all.begin(), all.end(), kNumberedThreads), 11) << "this thread has one, too";
  EXPECT_EQ(all[0] < kNumberedThreads, true);
}

}  // namespace
}  // namespace weir::base
