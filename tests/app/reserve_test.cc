// The reserve of address space. This program has an operator new that can be told to give nothing.
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
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "app/memory_watch.h"
#include "base/fake_env.h"
#include "support/sizes.h"

namespace {
thread_local bool no_memory = false;
}

void* operator new(std::size_t bytes) {
  void* memory = no_memory ? nullptr : std::malloc(bytes > 0 ? bytes : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace weir::app {
namespace {

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

// There is memory for the timer, if for nothing else.
struct LastEnv final : base::Env {
  base::FakeEnv inner;
  base::Time now() const override { return inner.now(); }
  base::WallTime wall() const override { return inner.wall(); }
  uint64_t random() override { return inner.random(); }
  base::TimerId at(base::Time when, std::function<void()> fire) override {
    bool none = std::exchange(no_memory, false);
    auto id = inner.at(when, std::move(fire));
    no_memory = none;
    return id;
  }
  void cancel(base::TimerId id) override { inner.cancel(id); }
};

TEST(Reserve, IsLookedAtAgainThoughThereIsNoMemoryToSaySo) {
  LastEnv env;
  MemoryWatch watch;
  {
    Limited limited(16 * kMiB);
    no_memory = true;
    try {
      watch.check_reserve(env);
    } catch (const std::bad_alloc&) {  // as timers do
    }
    no_memory = false;
    EXPECT_EQ(env.inner.armed(), 1u);
    EXPECT_FALSE(use_reserve()) << "it could not be had";
  }
  Limited limited(200 * kMiB);
  env.inner.advance(std::chrono::seconds(1));
  EXPECT_EQ(env.inner.armed(), 1u);
  EXPECT_TRUE(use_reserve());
}

TEST(MemoryWatch, GivesBackLargeSlabsThatRest) {
  base::FakeEnv env;
  device::SlabPool slabs(512 * kMiB);
  MemoryWatch watch;
  watch.start(env, slabs);
  base::drop(slabs.take(90 * kMiB));
  const auto kept = slabs.idle();
  EXPECT_GE(kept, 90 * kMiB);
  env.advance(MemoryWatch::kSlabRest);
  EXPECT_EQ(slabs.idle(), kept) << "the next request may want it";
  env.advance(MemoryWatch::kSlabRest);
  EXPECT_EQ(slabs.idle(), 0u);
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
