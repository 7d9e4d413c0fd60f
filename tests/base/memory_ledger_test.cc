#include "base/memory_ledger.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace weir::base {
namespace {

using Kind = MemoryKind;
constexpr uint64_t kMiB = 1 << 20;

TEST(MemoryLedger, AllKindsHaveOneTotal) {
  MemoryLedger ledger(10 * kMiB);
  EXPECT_TRUE(ledger.take(Kind::kSlabs, 6 * kMiB));
  EXPECT_TRUE(ledger.take(Kind::kAnswers, 3 * kMiB));
  EXPECT_FALSE(ledger.take(Kind::kSessions, 2 * kMiB));
  EXPECT_TRUE(ledger.take(Kind::kSessions, kMiB));
  EXPECT_FALSE(ledger.take(Kind::kInput, 1));
  EXPECT_EQ(ledger.held(), 10 * kMiB);
  EXPECT_EQ(ledger.held(Kind::kAnswers), 3 * kMiB);
  ledger.give(Kind::kAnswers, 3 * kMiB);
  EXPECT_TRUE(ledger.take(Kind::kInput, 3 * kMiB));
}

TEST(MemoryLedger, SlabsLeaveRoomForTheAnswersToWhatHoldsThem) {
  MemoryLedger ledger(16 * kMiB, kMiB);
  EXPECT_FALSE(ledger.take(Kind::kSlabs, 16 * kMiB));
  EXPECT_TRUE(ledger.take(Kind::kSlabs, 15 * kMiB));
  EXPECT_FALSE(ledger.take(Kind::kSlabs, 1));
  EXPECT_TRUE(ledger.take(Kind::kAnswers, kMiB));
  EXPECT_FALSE(ledger.take(Kind::kAnswers, 1));
}

TEST(MemoryLedger, SessionsGetHalfAtMost) {
  MemoryLedger ledger(16 * kMiB);
  EXPECT_TRUE(ledger.take(Kind::kSessions, 8 * kMiB));
  EXPECT_FALSE(ledger.has_room(Kind::kSessions, 1));
  EXPECT_FALSE(ledger.take(Kind::kSessions, 1));
  EXPECT_TRUE(ledger.has_room(Kind::kSlabs, 8 * kMiB));
  EXPECT_FALSE(ledger.has_room(Kind::kSlabs, 8 * kMiB + 1));
}

TEST(MemoryLedger, WhatIsThereAlreadyIsChargedBeyondTheBudgetAndRefusesTheNext) {
  MemoryLedger ledger(kMiB);
  ledger.add(Kind::kDecoding, 2 * kMiB);
  EXPECT_EQ(ledger.held(), 2 * kMiB);
  EXPECT_FALSE(ledger.take(Kind::kSlabs, 1));
  EXPECT_FALSE(ledger.take(Kind::kSlabs, UINT64_MAX));
  ledger.give(Kind::kDecoding, 2 * kMiB);
  EXPECT_TRUE(ledger.take(Kind::kSlabs, kMiB));
}

TEST(MemoryLedger, WhoWasRefusedIsToldOnceWhenThereIsRoom) {
  MemoryLedger ledger(kMiB);
  int woken = 0;
  ledger.on_room([&] { ++woken; });
  ASSERT_TRUE(ledger.take(Kind::kAnswers, kMiB));
  ledger.give(Kind::kAnswers, 1);
  EXPECT_EQ(woken, 0) << "nobody waits";
  EXPECT_FALSE(ledger.take(Kind::kSlabs, 2));
  ledger.give(Kind::kAnswers, 1, MemoryLedger::Wake::kQuiet);
  EXPECT_EQ(woken, 0);
  ledger.give(Kind::kAnswers, 1);
  ledger.give(Kind::kAnswers, 1);
  EXPECT_EQ(woken, 1);
}

TEST(MemoryLedger, IdleSlabsAreGivenUpForWhateverLacksRoom) {
  MemoryLedger ledger(4 * kMiB);
  uint64_t idle = 0;
  int trimmed = 0;
  ledger.keep_idle({[&] { return idle; },
                    [&] {
                      ++trimmed;
                      ledger.give(Kind::kSlabs, std::exchange(idle, 0), MemoryLedger::Wake::kQuiet);
                    }});
  ASSERT_TRUE(ledger.take(Kind::kSlabs, 4 * kMiB));
  idle = 3 * kMiB;
  EXPECT_EQ(ledger.held(), kMiB) << "what is idle is at hand";
  EXPECT_TRUE(ledger.take(Kind::kAnswers, 2 * kMiB));
  EXPECT_EQ(trimmed, 1);
  EXPECT_FALSE(ledger.take(Kind::kAnswers, 2 * kMiB));
  EXPECT_EQ(trimmed, 1) << "nothing is idle";
  EXPECT_EQ(ledger.held(), 3 * kMiB);
}

TEST(MemoryCharge, EndsWithItsHolder) {
  MemoryLedger ledger(kMiB);
  {
    MemoryCharge charge(ledger, Kind::kInput);
    EXPECT_TRUE(charge.grow(kMiB / 2));
    EXPECT_FALSE(charge.grow(kMiB));
    EXPECT_EQ(charge.bytes(), kMiB / 2);
    MemoryCharge other(std::move(charge));
    EXPECT_EQ(ledger.held(), kMiB / 2);
    MemoryCharge third(ledger, Kind::kAnswers);
    EXPECT_TRUE(third.grow(10));
    third = std::move(other);
    EXPECT_EQ(third.bytes(), kMiB / 2);
  }
  EXPECT_EQ(ledger.held(), 0u);
  MemoryCharge nobodys;
  EXPECT_TRUE(nobodys.grow(UINT64_MAX)) << "without a ledger there is no limit";
}

TEST(MemoryShare, ASmallChargeSeldomTouchesTheTotal) {
  MemoryLedger ledger(kMiB);
  {
    MemoryShare share(ledger, Kind::kAnswers);
    EXPECT_TRUE(share.take(100));
    uint64_t held = ledger.held();
    EXPECT_EQ(held, MemoryShare::kStep);
    for (int i = 0; i < 1000; ++i) {
      EXPECT_TRUE(share.take(100));
      share.give(100);
    }
    EXPECT_EQ(ledger.held(), held);
    EXPECT_EQ(share.used(), 100u);
    EXPECT_TRUE(share.take(kMiB - 100)) << "up to the last byte";
    EXPECT_FALSE(share.take(1));
    share.add(50);
    EXPECT_EQ(share.used(), kMiB + 50);
    share.give(kMiB + 50);
    EXPECT_LE(ledger.held(), 2 * MemoryShare::kStep) << "what is not used goes back";
  }
  EXPECT_EQ(ledger.held(), 0u);
}

TEST(ChargedBytes, AreChargedUntilTheLastSliceGoes) {
  MemoryLedger ledger(kMiB);
  auto bytes = adopt(&ledger, Kind::kAnswers, std::string(100'000, 'a'));
  ASSERT_TRUE(bytes);
  EXPECT_EQ(ledger.held(Kind::kAnswers), 100'000u);
  Bytes part = bytes->slice(10, 5);
  bytes.reset();
  EXPECT_EQ(part.view(), "aaaaa");
  EXPECT_EQ(ledger.held(), 100'000u);
  EXPECT_TRUE(charge(&ledger, Kind::kAnswers, part)) << "charged already";
  EXPECT_EQ(ledger.held(), 100'000u);
  std::thread([p = std::move(part)]() mutable { p = {}; }).join();
  EXPECT_EQ(ledger.held(), 0u);
}

TEST(ChargedBytes, WithoutRoomThereAreNone) {
  MemoryLedger ledger(50'000);
  EXPECT_FALSE(adopt(&ledger, Kind::kAnswers, std::string(100'000, 'a')));
  Bytes bytes = Bytes::copy_of(std::string(60'000, 'b'));
  EXPECT_FALSE(charge(&ledger, Kind::kAnswers, bytes));
  EXPECT_EQ(bytes.size(), 60'000u) << "as it was";
  EXPECT_EQ(ledger.held(), 0u);
  EXPECT_TRUE(adopt(nullptr, Kind::kAnswers, std::string(100'000, 'a'))) << "nobody counts";
  EXPECT_TRUE(adopt(&ledger, Kind::kAnswers, "small"));
  static const std::string kText(70'000, 'c');
  Bytes constant = Bytes::constant(kText);
  EXPECT_TRUE(charge(&ledger, Kind::kAnswers, constant)) << "a constant costs nothing";
  EXPECT_EQ(ledger.held(), 0u);
}

// The sum over threads of what they hold is what the ledger says, and never passes the budget.
TEST(MemoryLedger, ManyThreadsNeverPassTheBudget) {
  MemoryLedger ledger(kMiB);
  std::atomic<uint64_t> held{0};
  std::atomic<bool> passed{false};
  auto work = [&](unsigned seed) {
    for (int i = 0; i < 20'000; ++i) {
      uint64_t bytes = (seed = seed * 1664525 + 1013904223) % 300'000;
      if (!ledger.take(Kind(i % kMemoryKinds), bytes)) continue;
      if (held.fetch_add(bytes) + bytes > kMiB) passed = true;
      held.fetch_sub(bytes);
      ledger.give(Kind(i % kMemoryKinds), bytes);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < 4; ++i) threads.emplace_back(work, i);
  }
  EXPECT_FALSE(passed);
  EXPECT_EQ(ledger.held(), 0u);
  for (size_t i = 0; i < kMemoryKinds; ++i) EXPECT_EQ(ledger.held(Kind(i)), 0u) << name(Kind(i));
}

TEST(Overload, StepsAreTakenAtTheirSharesAndLeftATwentiethBelow) {
  constexpr OverloadShares kShares{70, 85, 92, 97};
  auto step = [&](Overload now, uint64_t held) { return overload_step(kShares, now, held, 1000); };
  EXPECT_EQ(step(Overload::kNone, 699), Overload::kNone);
  EXPECT_EQ(step(Overload::kNone, 700), Overload::kShrink);
  EXPECT_EQ(step(Overload::kNone, 850), Overload::kClose);
  EXPECT_EQ(step(Overload::kShrink, 920), Overload::kRefuse);
  EXPECT_EQ(step(Overload::kNone, 970), Overload::kStop);
  EXPECT_EQ(step(Overload::kStop, 5000), Overload::kStop) << "beyond the budget";
  EXPECT_EQ(step(Overload::kStop, 920), Overload::kStop);
  EXPECT_EQ(step(Overload::kStop, 919), Overload::kRefuse);
  EXPECT_EQ(step(Overload::kRefuse, 870), Overload::kRefuse);
  EXPECT_EQ(step(Overload::kRefuse, 869), Overload::kClose);
  EXPECT_EQ(step(Overload::kRefuse, 100), Overload::kNone);
  EXPECT_EQ(step(Overload::kClose, 869), Overload::kClose) << "a step is not taken again for being near";
}

TEST(Overload, AShareAboveAHundredIsNever) {
  EXPECT_EQ(overload_step(OverloadShares::never(), Overload::kNone, 1'000'000, 1), Overload::kNone);
  EXPECT_EQ(overload_step({70, 101, 92, 101}, Overload::kNone, 95, 100), Overload::kRefuse);
  EXPECT_EQ(overload_step({1, 101, 101, 101}, Overload::kShrink, 0, 100), Overload::kNone);
  EXPECT_EQ(overload_step({70, 85, 92, 97}, Overload::kNone, UINT64_MAX / 2, UINT64_MAX), Overload::kNone);
}

TEST(Overload, TheLedgerTellsOfEachNewStepOnce) {
  MemoryLedger ledger(1000, 0, {70, 85, 92, 97});
  std::vector<Overload> told;
  ledger.on_step([&](Overload step) { told.push_back(step); });
  ASSERT_TRUE(ledger.take(Kind::kSlabs, 930));
  EXPECT_EQ(ledger.overload(), Overload::kNone) << "nobody has looked";
  EXPECT_EQ(ledger.update_overload(), Overload::kRefuse);
  ledger.update_overload();
  EXPECT_TRUE(ledger.at_least(Overload::kClose));
  EXPECT_NE(ledger.shortage().find("limits.slab_budget"), std::string::npos);
  ledger.give(Kind::kSlabs, 930);
  ledger.update_overload();
  EXPECT_EQ(told, (std::vector{Overload::kRefuse, Overload::kNone}));
}

TEST(Overload, IsTheServersLackInEveryProtocol) {
  Status status = overloaded("memory is short");
  EXPECT_EQ(status.code, Code::kResourceExhausted);
  EXPECT_EQ(http_status(status), 503);
  EXPECT_TRUE(worth_trying_again(status));
  EXPECT_EQ(http_status(try_again(Code::kResourceExhausted, "a quota")), 429);
  EXPECT_EQ(http_status(failure(Code::kNotFound, "no")), 404);
}

}  // namespace
}  // namespace weir::base
