#include "net/turn_watch.h"

#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "net/shard_parts.h"

namespace weir::net {
namespace {

using std::chrono::milliseconds;
using Cause = TurnWatch::Cause;

base::Duration thread_cpu() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

// So much of the thread's own time, however long that takes on this machine.
void burn(base::Duration time) {
  for (auto end = thread_cpu() + time; thread_cpu() < end;) {
  }
}

struct Bench {
  Shard shard{base::ShardId(0), Pin::kNo};

  void on(std::function<void()> work) { shard.parts().run_and_wait(work); }
  uint64_t slow(Cause cause) { return shard.parts().watch.totals()->slow[size_t(cause)].value(); }
  uint64_t burned() {  // turns that were slow by CPU time
    uint64_t all = 0;
    for (size_t i = 0; i < size_t(Cause::kOffCpu); ++i) all += slow(Cause(i));
    return all;
  }
};

TEST(TurnWatch, ASlowTurnIsCountedByThePhaseThatTookMostOfIt) {
  bool heavy = false;
  Bench t;
  t.shard.at_turn_end([&] {
    if (std::exchange(heavy, false)) burn(milliseconds(30));
  });
  t.shard.start();
  t.on([] { burn(milliseconds(1)); });
  EXPECT_EQ(t.burned(), 0u);
  t.on([] { burn(milliseconds(30)); });
  EXPECT_EQ(t.slow(Cause::kPosted), 1u);
  t.on([&] {
    heavy = true;
    burn(milliseconds(2));
  });
  EXPECT_EQ(t.slow(Cause::kHook), 1u);
  std::promise<void> fired;
  t.on([&] {
    t.shard.env().at(t.shard.env().now() + milliseconds(1), [&] {
      burn(milliseconds(30));
      fired.set_value();
    });
  });
  fired.get_future().wait();
  t.on([] {});
  EXPECT_EQ(t.slow(Cause::kTimer), 1u);
  EXPECT_EQ(t.burned(), 3u);
}

TEST(TurnWatch, ATurnThatDoesNotRunIsNotBlamedOnAPhase) {
  Bench t;
  t.shard.start();
  t.on([] { std::this_thread::sleep_for(milliseconds(30)); });
  EXPECT_EQ(t.slow(Cause::kOffCpu), 1u);
  EXPECT_EQ(t.burned(), 0u);
}

TEST(TurnWatch, TheLongestTurnIsToldInCpuTimeToAMillisecond) {
  Bench t;
  t.shard.start();
  base::Duration used{0};
  t.on([&] {
    auto before = thread_cpu();
    burn(milliseconds(40));
    std::this_thread::sleep_for(milliseconds(20));
    used = thread_cpu() - before;
  });
  t.on([] {});
  base::Duration told(t.shard.parts().watch.totals()->longest_ns.load());
  EXPECT_GE(told, used);
  EXPECT_LT(told, used + TurnWatch::kMark + milliseconds(5)) << "what the loop itself does beside";
}

TEST(TurnWatch, TheMetricsNameEveryCauseAndShard) {
  Bench t;
  std::string text;
  TurnWatch::append(text, {t.shard.parts().watch.totals(), t.shard.parts().watch.totals()});
  for (const char* line :
       {"weir_shard_longest_turn_seconds{shard=\"0\"} 0.000000\n",
        "weir_shard_longest_turn_seconds{shard=\"1\"} 0.000000\n", "weir_shard_slow_turns_total{cause=\"read\"} 0\n",
        "weir_shard_slow_turns_total{cause=\"off_cpu\"} 0\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
}

TEST(TurnWatch, AnIdleShardIsInNoTurn) {
  Bench t;
  t.shard.start();
  int64_t during = 0;
  t.on([&] { during = t.shard.parts().watch.turn_began(); });
  EXPECT_NE(during, 0);
  t.shard.stop();
  t.shard.join();
  EXPECT_EQ(t.shard.parts().watch.turn_began(), 0);
  EXPECT_FALSE(t.shard.parts().watch.signal(0));
}

}  // namespace
}  // namespace weir::net
