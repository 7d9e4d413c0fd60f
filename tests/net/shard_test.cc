#include "net/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <csignal>
#include <future>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "net/shard_parts.h"
#include "net/signals.h"

namespace weir::net {
namespace {

using std::chrono::milliseconds;

// Runs on the shard and waits for it.
void on(Shard& shard, std::function<void()> work) { shard.parts().run_and_wait(work); }

TEST(Shard, WorkFromManyThreadsRunsOnItsThreadInEachOnesOrder) {
  Shard shard(base::ShardId(0), Pin::kYes);
  shard.start();
  std::vector<std::vector<int>> seen(4);
  std::set<std::thread::id> where;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i)
        shard.post([&, t, i] {
          seen[t].push_back(i);
          where.insert(std::this_thread::get_id());
        });
    });
  for (auto& thread : threads) thread.join();
  on(shard, [] {});
  EXPECT_EQ(where.size(), 1u);
  for (const auto& one : seen) {
    ASSERT_EQ(one.size(), 1000u);
    EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
  }
}

TEST(Shard, OneThatSpinsBeforeItSleepsWakesUpAllTheSame) {
  Shard shard(base::ShardId(0), Pin::kNo);
  shard.spin(milliseconds(2));
  shard.start();
  for (int pause : {0, 1, 5}) {
    std::promise<void> fired;
    on(shard, [&] { shard.env().at(shard.env().now() + milliseconds(pause), [&] { fired.set_value(); }); });
    fired.get_future().wait();
  }
  shard.stop();
  shard.join();
}

TEST(Shard, WhatWasPostedBeforeStopStillRuns) {
  int ran = 0;
  Shard shard(base::ShardId(0), Pin::kNo);
  for (int i = 0; i < 100; ++i) shard.post([&] { ++ran; });
  shard.start();
  shard.stop();
  shard.join();
  EXPECT_EQ(ran, 100);
}

TEST(Shard, TheClockStandsStillWithinATurnAndMovesBetweenTurns) {
  Shard shard(base::ShardId(0), Pin::kNo);
  shard.start();
  base::Time first{}, again{}, next{};
  on(shard, [&] {
    first = shard.env().now();
    while (std::chrono::steady_clock::now() <= first + milliseconds(1)) {
    }
    again = shard.env().now();
  });
  on(shard, [&] { next = shard.env().now(); });
  EXPECT_EQ(first, again);
  EXPECT_LT(first + milliseconds(1), next);
}

void work_for(base::Duration time) {
  for (auto until = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < until;) {
  }
}

TEST(Shard, MuchWorkIsSpreadOverTurnsInItsOrder) {
  std::string order;
  int turns = 0, at_post = 0, at_fire = 0;
  Shard shard(base::ShardId(0), Pin::kNo);
  shard.at_turn_end([&] { ++turns; });
  for (char c : std::string("abcdefghij"))
    shard.post([&order, c] {
      order += c;
      work_for(milliseconds(4));
    });
  shard.start();
  on(shard, [&] { at_post = turns; });
  EXPECT_EQ(order, "abcdefghij");
  EXPECT_GE(at_post, 3) << "two of them make a turn long";
  on(shard, [&] {
    for (char c : std::string("klmnopqrst"))
      shard.env().at(shard.env().now(), [&order, c] {
        order += c;
        work_for(milliseconds(4));
      });
  });
  std::promise<void> fired;
  on(shard, [&] {
    at_post = turns;
    shard.env().at(shard.env().now() + milliseconds(1), [&] { at_fire = turns, fired.set_value(); });
  });
  fired.get_future().wait();
  EXPECT_EQ(order, "abcdefghijklmnopqrst");
  EXPECT_GE(at_fire - at_post, 3);
}

struct Writer final : Resident {
  Writer(Shard& its_shard, std::string& all, char its_name, LoadClass its_class, base::Duration its_time)
      : shard(its_shard), order(all), name(its_name), load(its_class), time(its_time) {}
  void flush() override {
    order += name;
    turn = shard.env().now();
    work_for(time);
  }
  void release() override {}
  bool at_rest() const override { return true; }
  LoadClass load_class() const override { return load; }

  Shard& shard;
  std::string& order;
  const char name;
  const LoadClass load;
  const base::Duration time;
  base::Time turn{};
};

struct Writers {
  // Marks one for each letter, heavy the capital ones, in a turn that also has what `more` asks for, and waits for all.
  void write(const std::string& names, base::Duration time, const std::function<void()>& more) {
    for (char c : names)
      all.push_back(
          std::make_unique<Writer>(shard, order, c, std::isupper(c) ? LoadClass::kHeavy : LoadClass::kLight, time));
    shard.start();
    on(shard, [&] {
      for (auto& one : all) shard.parts().mark(*one);
      more();
    });
    for (size_t done = 0; done < names.size();) on(shard, [&] { done = order.size(); });
  }
  size_t turns() const {
    std::set<base::Time> of;
    for (const auto& one : all) of.insert(one->turn);
    return of.size();
  }
  Shard shard{base::ShardId(0), Pin::kNo};
  std::string order;
  std::vector<std::unique_ptr<Writer>> all;
};

TEST(Shard, WritesOfHeavyClientsComeBehindTheOthers) {
  Writers t;
  t.write("HHHHHHHHHHab", milliseconds(2), [] {});
  EXPECT_EQ(t.order, "abHHHHHHHHHH");
  EXPECT_GE(t.turns(), 3u);
}

// Timers that take all the time of a turn would leave each turn one write, however often it is tried. A busy machine
// takes the time away, too, so that one try says little.
TEST(Shard, TimersLeaveTimeToWrite) {
  constexpr auto kTimer = std::chrono::microseconds(500), kWrite = std::chrono::microseconds(100);
  size_t least = SIZE_MAX;
  for (int i = 0; i < 50 && least > 4; ++i) {
    Writers t;
    t.write("abcdefgh", kWrite, [&] {
      for (int n = 0; n < 100; ++n) t.shard.env().at(t.shard.env().now(), [&] { work_for(kTimer); });
    });
    EXPECT_EQ(t.order, "abcdefgh");
    least = std::min(least, t.turns());
  }
  EXPECT_LE(least, 4u);
}

struct Leaver final : Resident {
  Leaver(Shard& its_shard, std::vector<base::Time>& when, base::Duration its_time)
      : shard(its_shard), released(when), time(its_time) {}
  void flush() override {}
  void release() override {
    released.push_back(shard.env().now());
    work_for(time);
  }
  bool at_rest() const override { return true; }

  Shard& shard;
  std::vector<base::Time>& released;  // the turn, for each
  const base::Duration time;
};

struct Leavers {
  void leave(size_t many, base::Duration time) {
    shard.post([this, many, time] {
      for (size_t i = 0; i < many; ++i) shard.parts().retire(std::make_unique<Leaver>(shard, released, time));
    });
  }
  Shard shard{base::ShardId(0), Pin::kNo};
  std::vector<base::Time> released;
};

TEST(Shard, ManyThatRetireAtOnceAreReleasedInSeveralTurns) {
  Leavers t;
  t.leave(30, milliseconds(1));
  t.shard.start();
  std::atomic<size_t> done{0};
  for (int i = 0; i < 1000 && done < 30; ++i) {
    t.shard.post([&] { done = t.released.size(); });
    std::this_thread::sleep_for(milliseconds(5));
  }
  ASSERT_EQ(done, 30u) << "nobody has to wake it";
  t.shard.stop();
  t.shard.join();
  EXPECT_GE(std::set(t.released.begin(), t.released.end()).size(), 10u);
}

// Else it would grow as long as turns have much else to do.
TEST(Shard, APartOfALongLineIsReleasedInAnyCase) {
  Leavers t;
  t.leave(320, milliseconds(1));
  t.shard.start();
  t.shard.stop();
  t.shard.join();
  ASSERT_EQ(t.released.size(), 320u);
  EXPECT_GE(std::count(t.released.begin(), t.released.end(), t.released[0]), 11);
}

TEST(Shard, WhoWaitsForATurnOrForTheEndFindsAllReleased) {
  Leavers t;
  t.shard.start();
  on(t.shard, [&] { t.leave(20, milliseconds(1)); });
  on(t.shard, [] {});
  EXPECT_EQ(t.released.size(), 20u);
  on(t.shard, [&] {
    t.leave(20, milliseconds(1));
    t.shard.stop();
  });
  t.shard.join();
  EXPECT_EQ(t.released.size(), 40u);
  on(t.shard, [&] {
    for (int i = 0; i < 20; ++i) t.shard.parts().retire(std::make_unique<Leaver>(t.shard, t.released, milliseconds(1)));
  });
  EXPECT_EQ(t.released.size(), 60u);
}

TEST(Shard, HooksRunAtTheEndOfEachTurnInTheirOrder) {
  std::string order;
  Shard shard(base::ShardId(0), Pin::kNo);
  shard.at_turn_end([&] { order += 'a'; });
  shard.at_turn_end([&] { order += 'b'; });
  shard.start();
  std::string during;
  on(shard, [&] { order = ".", during = order; });
  on(shard, [&] { during = order; });
  EXPECT_EQ(during.substr(0, 3), ".ab");
}

TEST(Shard, ATimerFiresNotBeforeItsTime) {
  std::promise<base::Duration> late;
  Shard shard(base::ShardId(0), Pin::kNo);
  shard.start();
  on(shard, [&] {
    auto when = shard.env().now() + milliseconds(3);
    shard.env().at(when, [&, when] { late.set_value(shard.env().now() - when); });
  });
  EXPECT_GE(late.get_future().get().count(), 0);
}

TEST(Shard, AnEarlierTimerOvertakesALaterOne) {
  Shard shard(base::ShardId(0), Pin::kNo);
  shard.start();
  std::promise<void> fired;
  on(shard, [&] { shard.env().at(shard.env().now() + std::chrono::hours(1), [] {}); });
  on(shard, [&] { shard.env().at(shard.env().now() + milliseconds(1), [&] { fired.set_value(); }); });
  fired.get_future().wait();
}

TEST(Shard, RandomNumbersDoNotRepeat) {
  Shard shard(base::ShardId(0), Pin::kNo);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(shard.env().random());
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(Shard, WhatItsWorkThrowsEndsThatWorkAndNothingElse) {
  std::atomic<int> hooks{0}, ran{0};
  std::promise<void> fired;
  Shard shard(base::ShardId(0), Pin::kNo);
  shard.at_turn_end([] { throw std::bad_alloc(); });
  shard.at_turn_end([] { throw std::runtime_error("a hook's"); });
  shard.at_turn_end([&] { ++hooks; });
  shard.start();
  shard.post([] { throw std::bad_alloc(); });
  shard.post([&] { ++ran; });
  shard.post([] { throw std::runtime_error("posted work's"); });
  shard.post([&] { ++ran; });
  on(shard, [&] {
    auto soon = shard.env().now() + milliseconds(1);
    shard.env().at(soon, [] { throw std::runtime_error("a timer's"); });
    shard.env().at(soon, [&] { fired.set_value(); });
    throw std::bad_alloc();  // whoever waits for this work hears of its end all the same
  });
  fired.get_future().wait();
  on(shard, [] {});
  EXPECT_EQ(ran, 2);
  EXPECT_GT(hooks, 0);
}

TEST(Shard, AnIdleOneHasNothingArmed) {
  Shard shard(base::ShardId(0), Pin::kNo);
  shard.start();
  on(shard, [&] {
    shard.env().cancel(shard.env().at(shard.env().now() + milliseconds(1), [] {}));
    EXPECT_EQ(shard.parts().timers.armed(), 0u);
    EXPECT_EQ(shard.parts().alarm_at, base::kNever);
  });
}

TEST(Signals, ArriveOnTheShard) {
  std::promise<int> got;
  Shard shard(base::ShardId(0), Pin::kNo);
  Signals signals(shard, [&](int signal) { got.set_value(signal); });
  shard.start();
  std::raise(SIGUSR1);
  EXPECT_EQ(got.get_future().get(), SIGUSR1);
  shard.stop();
  shard.join();
}

// Without that they would end this program.
TEST(Signals, ThatAskForSomethingWaitUntilThereIsAServer) {
  hold_signals();
  std::raise(SIGHUP);
  std::promise<int> got;
  {
    Shard shard(base::ShardId(0), Pin::kNo);
    Signals signals(shard, [&](int signal) { got.set_value(signal); });
    shard.start();
    EXPECT_EQ(got.get_future().get(), SIGHUP);
    shard.stop();
    shard.join();
  }
  std::raise(SIGUSR1);
}

}  // namespace
}  // namespace weir::net
