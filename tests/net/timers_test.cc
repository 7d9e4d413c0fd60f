#include "net/timers.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

namespace weir::net {
namespace {

base::Time at(int ms) { return base::Time(std::chrono::milliseconds(ms)); }

TEST(Timers, WhatOneThrowsDoesNotKeepTheOthersFromFiring) {
  Timers timers;
  base::Time t0{};
  int fired = 0;
  timers.at(t0, [] { throw std::bad_alloc(); });
  timers.at(t0, [] { throw std::runtime_error("broken"); });
  timers.at(t0, [&] { ++fired; });
  timers.fire_due(t0);
  EXPECT_EQ(fired, 1);
  EXPECT_EQ(timers.next(), base::kNever);
}

TEST(Timers, FireInOrderOfTimeAndThenOfCreation) {
  Timers timers;
  std::string order;
  timers.at(at(2), [&] { order += 'c'; });
  timers.at(at(1), [&] { order += 'a'; });
  timers.at(at(1), [&] { order += 'b'; });
  timers.at(at(9), [&] { order += 'z'; });
  EXPECT_EQ(timers.next(), at(1));
  timers.fire_due(at(2));
  EXPECT_EQ(order, "abc");
  EXPECT_EQ(timers.next(), at(9));
}

TEST(Timers, WhoeverHasHadEnoughLeavesTheRestForTheNextCallInItsOrder) {
  Timers timers;
  std::string order;
  for (char c : std::string("abcd")) timers.at(at(1), [&order, c] { order += c; });
  size_t enough = 2;
  auto long_enough = [&] { return order.size() >= enough; };
  timers.fire_due(at(1), long_enough);
  EXPECT_EQ(order, "ab");
  EXPECT_EQ(timers.next(), at(1));
  timers.at(at(1), [&] { order += 'e'; });
  timers.fire_due(at(2), long_enough);
  EXPECT_EQ(order, "abc") << "one fires in each call";
  enough = 100;
  timers.fire_due(at(2), long_enough);
  EXPECT_EQ(order, "abcde");
}

TEST(Timers, ACancelledTimerNeverFires) {
  Timers timers;
  bool fired = false;
  auto id = timers.at(at(1), [&] { fired = true; });
  timers.cancel(id);
  EXPECT_EQ(timers.next(), base::kNever);
  timers.fire_due(at(5));
  EXPECT_FALSE(fired);
  timers.cancel(id);
  timers.cancel(base::TimerId::kNone);
}

TEST(Timers, OneMayCancelAnotherThatIsDueToo) {
  Timers timers;
  bool fired = false;
  base::TimerId second{};
  timers.at(at(1), [&] { timers.cancel(second); });
  second = timers.at(at(1), [&] { fired = true; });
  timers.fire_due(at(1));
  EXPECT_FALSE(fired);
  EXPECT_EQ(timers.armed(), 0u);
}

TEST(Timers, OneThatReArmsItselfWaitsForTheNextCall) {
  Timers timers;
  int fired = 0;
  std::function<void()> again = [&] {
    ++fired;
    timers.at(at(0), again);
  };
  timers.at(at(0), again);
  timers.fire_due(at(1));
  EXPECT_EQ(fired, 1);
  EXPECT_EQ(timers.next(), at(0));
  timers.fire_due(at(1));
  EXPECT_EQ(fired, 2);
}

TEST(Timers, CancelledOnesDoNotPileUp) {
  Timers timers;
  auto keep = timers.at(at(1'000'000), [] {});
  for (int i = 0; i < 100'000; ++i) timers.cancel(timers.at(at(1'000 + i), [] {}));
  EXPECT_EQ(timers.armed(), 1u);
  EXPECT_EQ(timers.next(), at(1'000'000));
  timers.cancel(keep);
  EXPECT_EQ(timers.next(), base::kNever);
}

}  // namespace
}  // namespace weir::net
