#include "app/reserve.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

namespace weir::app {
namespace {

constexpr size_t kMiB = size_t(1) << 20;

// The address space may grow by `more` bytes while this lives.
class Limited {
 public:
  explicit Limited(size_t more) {
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &before_);
    rlimit now = before_;
    now.rlim_cur = pages * size_t(sysconf(_SC_PAGESIZE)) + more;
    setrlimit(RLIMIT_AS, &now);
  }
  ~Limited() { setrlimit(RLIMIT_AS, &before_); }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;

 private:
  rlimit before_{};
};

bool can_map(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at != MAP_FAILED && munmap(at, bytes) == 0;
}

// mmap stands for the allocator: who is told that the reserve has been used can have some of it at once.
TEST(Reserve, WhoFindsItUsedFindsItsMemoryFree) {
  constexpr int kThreads = 3, kRounds = 1000;
  std::atomic<int> users{0}, refused{0};
  std::unique_ptr<Limited> limited;
  auto before = [&]() noexcept {
    if (!limited) limited = std::make_unique<Limited>(72 * kMiB);  // once all stacks are there
    if (!keep_reserve() || can_map(48 * kMiB)) std::abort();
  };
  std::barrier start(kThreads, before);
  std::barrier end(kThreads);
  auto work = [&] {
    for (int i = 0; i < kRounds; ++i) {
      start.arrive_and_wait();
      users += use_reserve();
      refused += !can_map(16 * kMiB);
      end.arrive_and_wait();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(users, kRounds);
  EXPECT_EQ(refused, 0);
}

}  // namespace
}  // namespace weir::app
