#include "net/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <vector>

#include "net/shard_parts.h"

namespace weir::net {
namespace {

using std::chrono::seconds;

// Turns its shard until the watchdog has reported so many stacks, or for a long while.
struct Bench {
  explicit Bench(base::Duration every)
      : dog({&shard.parts().watch}, every, [this](const Watchdog::Stack& stack) {
          std::lock_guard lock(mutex);
          stacks.push_back(stack);
          ++reported;
        }) {
    shard.start();
  }
  void slow_turn_until(int count) {
    shard.parts().run_and_wait([&] {
      auto end = std::chrono::steady_clock::now() + seconds(20);
      while (reported < count && std::chrono::steady_clock::now() < end) {
      }
    });
  }

  Shard shard{base::ShardId(0), Pin::kNo};
  std::mutex mutex;
  std::vector<Watchdog::Stack> stacks;
  std::atomic<int> reported{0};
  Watchdog dog;
};

TEST(Watchdog, TheStackOfASlowTurnIsTakenWhileItLasts) {
  Bench t(base::Duration(0));
  t.slow_turn_until(1);
  std::lock_guard lock(t.mutex);
  ASSERT_GE(t.stacks.size(), 1u);
  EXPECT_GT(t.stacks[0].so_far, TurnWatch::kSlow);
  EXPECT_EQ(t.stacks[0].shard, 0u);
  int ours = 0;
  for (const auto& frame : t.stacks[0].frames) ours += frame.starts_with("net_watchdog_test+0x");
  EXPECT_GT(ours, 2) << "of " << t.stacks[0].frames.size();
}

TEST(Watchdog, OneThatHasSleptIsWokenByTheNextTurn) {
  Bench t(base::Duration(0));
  t.shard.parts().run_and_wait([] {});
  for (auto end = std::chrono::steady_clock::now() + 3 * Watchdog::kIdleTime; std::chrono::steady_clock::now() < end;)
    std::this_thread::yield();  // nothing tells from outside that it sleeps
  t.slow_turn_until(1);
  EXPECT_GE(t.reported, 1);
}

TEST(Watchdog, StacksAreTakenNoMoreOftenThanAskedFor) {
  Bench t(std::chrono::hours(1));
  t.slow_turn_until(1);
  t.shard.parts().run_and_wait([] {
    for (auto end = std::chrono::steady_clock::now() + 10 * Watchdog::kLook; std::chrono::steady_clock::now() < end;) {
    }
  });
  EXPECT_EQ(t.reported, 1);
}

TEST(Watchdog, OnlyOneHasTheSignal) {
  Bench first(base::Duration(0)), second(base::Duration(0));
  first.slow_turn_until(1);
  EXPECT_GE(first.reported, 1);
  EXPECT_EQ(second.reported, 0);
}

}  // namespace
}  // namespace weir::net
