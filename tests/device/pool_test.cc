#include "device/pool.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "device/size_class.h"
#include "support/sizes.h"

namespace weir::device {
namespace {

TEST(SizeClass, EveryClassHoldsWhatWasAskedForAndLosesAtMostAFifth) {
  size_t last = 0, last_index = 0;
  for (size_t n = 1; n < 3 * kMiB; n += n < 4096 ? 1 : 997) {
    auto c = size_class(n);
    ASSERT_GE(c.bytes, n);
    ASSERT_LT(c.index, kSizeClasses);
    ASSERT_EQ(c.bytes % 64, 0u);
    ASSERT_GE(c.bytes, last);
    ASSERT_EQ(c.bytes == last, c.index == last_index && last != 0) << n;
    if (n >= 256 && n < kHugePage) {
      ASSERT_LE(c.bytes - n, n / 4 + 1) << n;
    }
    last = c.bytes, last_index = c.index;
  }
}

TEST(SizeClass, ExactSizesAreTheirOwnClass) {
  for (size_t n : {size_t(64), size_t(192), size_t(256), size_t(320), size_t(512), size_t(16384), kMiB, 2 * kMiB,
                   64 * kMiB, kLargestSlab})
    EXPECT_EQ(size_class(n).bytes, n);
  EXPECT_EQ(size_class(0).bytes, 64u);
  EXPECT_EQ(size_class(2 * kMiB + 1).bytes, 4 * kMiB);
  EXPECT_EQ(size_class(kLargestSlab).index + 1, kSizeClasses);
}

TEST(SlabPool, SlabsAreAlignedWritableAndCountedAgainstTheBudget) {
  SlabPool pool(64 * kMiB);
  for (size_t n : {size_t(0), size_t(1), size_t(64), size_t(1000), 2 * kMiB - 1, 3 * kMiB}) {
    auto* slab = pool.take(n);
    ASSERT_NE(slab, nullptr);
    EXPECT_GE(slab->capacity, n);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(slab->data) % (slab->capacity >= 2 * kMiB ? 2 * kMiB : 64), 0u);
    EXPECT_EQ(pool.used(), slab->capacity);
    std::memset(slab->data, 1, slab->capacity);
    base::drop(slab);
    EXPECT_EQ(pool.used(), 0u);
  }
}

TEST(SlabPool, AReturnedSlabIsUsedAgain) {
  SlabPool pool(kMiB);
  auto* slab = pool.take(1000);
  auto* data = slab->data;
  base::drop(slab);
  EXPECT_EQ(pool.idle(), 1024u);
  slab = pool.take(1024);
  EXPECT_EQ(slab->data, data);
  EXPECT_EQ(slab->refs, 1u);
  EXPECT_EQ(pool.idle(), 0u);
  base::drop(slab);
}

TEST(SlabPool, PartsLeaveMostOfTheBudgetToWhatBecomesWhole) {
  SlabPool pool(64 * kMiB);
  std::vector<base::Slab*> parts;
  EXPECT_FALSE(pool.scarce());
  while (auto* part = pool.take_part(2 * kMiB)) parts.push_back(part);
  EXPECT_EQ(parts.size(), 8u);
  EXPECT_TRUE(pool.scarce());
  EXPECT_FALSE(pool.scarce_for_wholes());
  EXPECT_EQ(pool.take_part(1), nullptr);
  auto* whole = pool.take(48 * kMiB);
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(pool.take(1), nullptr);
  EXPECT_TRUE(pool.scarce_for_wholes());
  int woken = 0;
  pool.on_room([&] { ++woken; });
  base::drop(parts.back());
  EXPECT_EQ(woken, 1);
  parts.back() = pool.take_part(2 * kMiB);
  EXPECT_NE(parts.back(), nullptr);
  base::drop(whole);
  for (auto* part : parts) base::drop(part);
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_FALSE(pool.scarce());
  SlabPool small(8 * kMiB);
  base::Block alone(small.take_part(6 * kMiB));
  EXPECT_TRUE(bool(alone));
  EXPECT_EQ(small.take_part(1), nullptr);
  // A slab that was a part once is none when it is taken as a whole.
  whole = pool.take(2 * kMiB);
  EXPECT_EQ(whole->capacity, 2 * kMiB);
  for (auto*& part : parts) part = pool.take_part(2 * kMiB);
  EXPECT_NE(parts.back(), nullptr);
  base::drop(whole);
  for (auto* part : parts) base::drop(part);
}

TEST(SlabPool, BytesKeepTheirSlabUntilTheLastSliceGoes) {
  SlabPool pool(kMiB);
  base::Block block(pool.take(100));
  block.append("hello", 5);
  auto bytes = block.freeze();
  auto part = bytes.slice(1, 3);
  bytes = {};
  EXPECT_EQ(part.view(), "ell");
  EXPECT_GT(pool.used(), 0u);
  part = {};
  EXPECT_EQ(pool.used(), 0u);
}

TEST(SlabPool, ASpentBudgetGivesNullAndTellsWhenThereIsRoomAgain) {
  SlabPool pool(3 * kMiB);
  int woken = 0, woken_too = 0;
  pool.on_room([&] { ++woken; });
  pool.on_room([&] { ++woken_too; });
  auto* a = pool.take(kMiB);
  auto* b = pool.take(2 * kMiB);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(pool.take(1), nullptr);
  EXPECT_EQ(woken, 0);
  base::drop(a);
  EXPECT_EQ(woken, 1);
  a = pool.take(kMiB);
  ASSERT_NE(a, nullptr);
  base::drop(a);
  base::drop(b);
  EXPECT_EQ(woken, 1) << "nobody was refused in the meantime";
  EXPECT_EQ(woken_too, 1);
}

TEST(SlabPool, ASlabLargerThanTheBudgetNeverComesAndHarmsNobody) {
  SlabPool pool(kMiB);
  EXPECT_EQ(pool.take(2 * kMiB), nullptr);
  EXPECT_EQ(pool.take(SIZE_MAX), nullptr);
  auto* slab = pool.take(kMiB);
  ASSERT_NE(slab, nullptr);
  base::drop(slab);
}

// A system that gives less than the budget says.
class Scarce final : public SlabMemory {
 public:
  explicit Scarce(size_t room) : room_(room), heap_(system_memory()) {}
  std::byte* take(size_t bytes, size_t align) override {
    if (bytes > room_) return nullptr;
    room_ -= bytes;
    return heap_->take(bytes, align);
  }
  void give(std::byte* data, size_t bytes, size_t align) override {
    room_ += bytes;
    heap_->give(data, bytes, align);
  }

 private:
  size_t room_;
  std::unique_ptr<SlabMemory> heap_;
};

TEST(SlabPool, WaitingForMemoryThatCannotComeIsRefused) {
  SlabPool pool(64 * kMiB, std::make_unique<Scarce>(8 * kMiB));
  EXPECT_FALSE(pool.hopeless(8 * kMiB)) << "it is there";
  EXPECT_EQ(pool.take(10 * kMiB), nullptr);
  EXPECT_TRUE(pool.hopeless(10 * kMiB)) << "nothing is out that could come back";
  base::Slab* six = pool.take(6 * kMiB);
  ASSERT_NE(six, nullptr);
  EXPECT_EQ(pool.take(4 * kMiB), nullptr);
  EXPECT_FALSE(pool.hopeless(4 * kMiB)) << "once the six are back there is room";
  EXPECT_EQ(pool.take(8 * kMiB), nullptr);
  EXPECT_EQ(pool.take_part(8 * kMiB), nullptr);
  EXPECT_TRUE(pool.hopeless(8 * kMiB)) << "six are not enough";
  EXPECT_EQ(pool.used(), 6 * kMiB) << "what was refused is not charged";
  { base::Block back(six); }
  {
    base::Block now(pool.take(4 * kMiB));
    EXPECT_TRUE(now);
  }
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_FALSE(pool.hopeless(8 * kMiB)) << "what is idle is no loss";
}

TEST(SlabPool, WaitingForTheBudgetIsNeverHopeless) {
  SlabPool pool(64 * kMiB);
  base::Slab* some = pool.take(30 * kMiB);
  EXPECT_EQ(pool.take(40 * kMiB), nullptr);
  EXPECT_FALSE(pool.hopeless(40 * kMiB));
  base::drop(some);
  EXPECT_FALSE(pool.hopeless(40 * kMiB)) << "it has come back since";
  EXPECT_TRUE(pool.hopeless(65 * kMiB)) << "such a slab never comes";
  EXPECT_EQ(pool.used(), 0u);
}

TEST(SlabPool, IdleMemoryIsBounded) {
  for (auto [bytes, most] : {std::pair(kMiB, 8 * kMiB), std::pair(2 * kMiB, 128 * kMiB)}) {
    SlabPool pool(uint64_t(256) * kMiB);
    std::vector<base::Slab*> slabs;
    while (auto* slab = pool.take(bytes)) slabs.push_back(slab);
    for (auto* slab : slabs) base::drop(slab);
    EXPECT_EQ(pool.used(), 0u);
    EXPECT_EQ(pool.idle(), pool.ledger()->held(base::MemoryKind::kSlabs));
    EXPECT_LE(pool.idle(), most) << bytes;
    EXPECT_GT(pool.idle(), most / 2) << bytes;
  }
}

// The system makes 100 MiB of pages more slowly than a request comes that fills them.
TEST(SlabPool, TheNextLargeRequestFindsTheLastOnesPages) {
  SlabPool pool(uint64_t(512) * kMiB);
  auto* first = pool.take(90 * kMiB);
  ASSERT_NE(first, nullptr);
  auto* data = first->data;
  base::drop(first);
  auto* second = pool.take(90 * kMiB);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->data, data);
  EXPECT_EQ(pool.idle(), 0u);
  base::drop(second);
}

TEST(SlabPool, LargeSlabsThatNobodyTakesGoBackToTheSystem) {
  SlabPool pool(uint64_t(1024) * kMiB);
  base::Block out(pool.take(90 * kMiB));
  for (auto* slab : {pool.take(100 * kMiB), pool.take(3 * kMiB), pool.take(kMiB), pool.take(200 * kMiB)}) {
    ASSERT_NE(slab, nullptr);
    base::drop(slab);
  }
  const auto all = pool.idle();
  pool.give_back_rested();
  EXPECT_EQ(pool.idle(), all) << "they have just come";
  base::drop(pool.take(3 * kMiB));
  pool.give_back_rested();
  EXPECT_EQ(pool.idle(), all - size_class(100 * kMiB).bytes) << "one is in use, and two are too much for one time";
  pool.give_back_rested();
  EXPECT_EQ(pool.idle(), size_class(kMiB).bytes + size_class(200 * kMiB).bytes);
  pool.give_back_rested();
  EXPECT_EQ(pool.idle(), size_class(kMiB).bytes) << "small ones stay";
  EXPECT_EQ(pool.idle(), pool.ledger()->held(base::MemoryKind::kSlabs) - out.capacity());
}

TEST(SlabPool, ChargesTheLedgerThatItSharesWithAllElse) {
  base::MemoryLedger ledger(64 * kMiB, 8 * kMiB);
  SlabPool pool(ledger, system_memory());
  EXPECT_EQ(pool.budget(), 56 * kMiB);
  EXPECT_EQ(pool.ledger(), &ledger);
  base::Block some(pool.take(30 * kMiB));
  ASSERT_TRUE(some);
  EXPECT_EQ(ledger.held(base::MemoryKind::kSlabs), some.capacity());
  ASSERT_TRUE(ledger.take(base::MemoryKind::kAnswers, 30 * kMiB));
  EXPECT_EQ(pool.take(10 * kMiB), nullptr) << "answers have the rest";
  int woken = 0;
  pool.on_room([&] { ++woken; });
  ledger.give(base::MemoryKind::kAnswers, 30 * kMiB);
  EXPECT_EQ(woken, 1) << "whoever gives memory back wakes whoever waits for a slab";
  EXPECT_TRUE(base::Block(pool.take(10 * kMiB)));
}

TEST(SlabPool, IdleSlabsAreWithinTheBudgetAndGivenUpForAnswers) {
  base::MemoryLedger ledger(64 * kMiB);
  SlabPool pool(ledger, system_memory());
  std::vector<base::Slab*> slabs;
  for (int i = 0; i < 32; ++i) slabs.push_back(pool.take(kMiB));
  for (auto* slab : slabs) base::drop(slab);
  ASSERT_GT(pool.idle(), 0u);
  EXPECT_EQ(ledger.held(), 0u) << "at hand for whoever asks";
  EXPECT_EQ(ledger.held(base::MemoryKind::kSlabs), pool.idle()) << "but it is resident, so it is charged";
  EXPECT_TRUE(ledger.take(base::MemoryKind::kAnswers, 64 * kMiB));
  EXPECT_EQ(pool.idle(), 0u);
  EXPECT_EQ(pool.take(1), nullptr);
}

TEST(SlabPool, WhatCannotWaitTakesWhatIsKeptForAnswers) {
  base::MemoryLedger ledger(16 * kMiB, 8 * kMiB);
  SlabPool pool(ledger, system_memory());
  base::Block all(pool.take(8 * kMiB));
  ASSERT_TRUE(all);
  EXPECT_EQ(pool.take(kMiB), nullptr);
  {
    base::Block now(base::take_now(pool, kMiB));
    ASSERT_TRUE(now);
    EXPECT_GE(now.capacity(), kMiB);
    EXPECT_EQ(ledger.held(base::MemoryKind::kDecoding), kMiB);
  }
  EXPECT_EQ(ledger.held(), 8 * kMiB);
  EXPECT_THROW(base::take_now(pool, 9 * kMiB), std::bad_alloc);
}

TEST(SlabPool, SlabsMayOutliveThePool) {
  base::Slab* slab;
  {
    SlabPool pool(kMiB);
    slab = pool.take(100);
  }
  std::memset(slab->data, 7, slab->capacity);
  base::drop(slab);
}

// Slabs are taken on one thread and dropped on another; every slab is marked by its taker and checked by its dropper.
TEST(SlabPool, ManyThreadsTakeAndDropWithoutMixingSlabsUp) {
  SlabPool pool(8 * kMiB);
  struct Channel {
    std::mutex mutex;
    std::condition_variable filled;
    std::vector<base::Slab*> slabs;
    int takers = 2;
  } channel;
  auto taker = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 20'000; ++i) {
      size_t bytes = size_t(1) << (random() % 17);
      auto* slab = pool.take(bytes);
      if (!slab) continue;
      std::memset(slab->data, int(bytes % 251), std::min<size_t>(bytes, 64));
      slab->data[0] = std::byte(slab->capacity % 251);
      std::lock_guard lock(channel.mutex);
      channel.slabs.push_back(slab);
      channel.filled.notify_one();
    }
    std::lock_guard lock(channel.mutex);
    --channel.takers;
    channel.filled.notify_all();
  };
  auto dropper = [&] {
    std::vector<base::Slab*> mine;
    for (;;) {
      {
        std::unique_lock lock(channel.mutex);
        channel.filled.wait(lock, [&] { return !channel.slabs.empty() || channel.takers == 0; });
        mine.swap(channel.slabs);
      }
      if (mine.empty()) return;
      for (auto* slab : mine) {
        ASSERT_EQ(slab->data[0], std::byte(slab->capacity % 251));
        base::drop(slab);
      }
      mine.clear();
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.emplace_back(taker, 1u), threads.emplace_back(taker, 2u);
    threads.emplace_back(dropper), threads.emplace_back(dropper);
  }
  EXPECT_EQ(pool.used(), 0u);
}

}  // namespace
}  // namespace weir::device
