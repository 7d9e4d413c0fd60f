#include "app/watchdog_ping.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/fake_env.h"

namespace weir::app {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

TEST(WatchdogPing, ThePeriodIsAQuarterOfWhatTheManagerAllows) {
  EXPECT_EQ(watchdog_period("30000000", nullptr), 7500ms);
  EXPECT_EQ(watchdog_period("30000000", std::to_string(::getpid()).c_str()), 7500ms);
  EXPECT_EQ(watchdog_period("30000000", "1"), 0s) << "another process is to ping";
  EXPECT_EQ(watchdog_period(nullptr, nullptr), 0s);
  EXPECT_EQ(watchdog_period("soon", ""), 0s);
}

// Two shards whose tasks run when the test says so.
struct Shards {
  std::vector<std::function<void()>> tasks[2];
  void run(size_t shard) {
    for (auto& task : std::exchange(tasks[shard], {})) task();
  }
  std::vector<WatchdogPing::Post> posts() {
    return {[this](auto work) { tasks[0].push_back(std::move(work)); },
            [this](auto work) { tasks[1].push_back(std::move(work)); }};
  }
};

TEST(WatchdogPing, PingsEndWithAShardThatHangsAndComeBackWithIt) {
  base::FakeEnv env;
  Shards shards;
  int pings = 0;
  WatchdogPing ping(env, shards.posts(), 5s, [&] { ++pings; });
  ping.start();
  EXPECT_EQ(pings, 1);
  for (int round = 2; round < 5; ++round) {
    shards.run(0), shards.run(1);
    env.advance(5s);
    EXPECT_EQ(pings, round);
  }
  for (int round = 0; round < 10; ++round) {
    shards.run(0);  // the second one hangs
    env.advance(5s);
  }
  EXPECT_EQ(pings, 4);
  EXPECT_EQ(shards.tasks[1].size(), 1u) << "a shard that hangs is asked once";
  shards.run(1);
  env.advance(5s);
  EXPECT_EQ(pings, 5);
}

}  // namespace
}  // namespace weir::app
