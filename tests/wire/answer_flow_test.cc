#include "wire/answer_flow.h"

#include <gtest/gtest.h>

#include "support/fake_wire.h"

namespace weir::wire {
namespace {

using namespace std::chrono_literals;
using base::Bytes;
using base::MemoryKind;

// Lines of nine characters and an end.
struct Lines final : TextSource {
  explicit Lines(int n) : left(n) {}
  bool write(std::string& out, size_t target) override {
    for (; left > 0 && out.size() < target; --left) out += "123456789\n";
    return left > 0;
  }
  uint64_t held() const override { return 7; }
  int left;
};

TEST(PiecewiseAnswer, WhatFitsAMebibyteIsOneAnswerWithItsLength) {
  support::FakeExchange x("GET", "/");
  PiecewiseAnswer answer(x);
  EXPECT_TRUE(answer.start("a/b", Exchange::Compress::kNever, std::make_unique<Lines>(100'000)).ok());
  EXPECT_EQ(x.response.status, 200);
  EXPECT_EQ(x.response.fields.find("content-type"), "a/b");
  EXPECT_TRUE(x.ended);
  EXPECT_EQ(x.sent.size(), 1'000'000u);
  EXPECT_EQ(answer.held(), 0u) << "all has been written";
}

TEST(PiecewiseAnswer, MoreIsMadeAsThePeerTakesIt) {
  support::FakeExchange x("GET", "/");
  PiecewiseAnswer answer(x);
  x.fake_backlog = 10 << 20;  // the peer takes nothing
  EXPECT_TRUE(answer.start("a/b", Exchange::Compress::kNever, std::make_unique<Lines>(200'000)).ok());
  EXPECT_EQ(x.response.status, 200);
  EXPECT_FALSE(x.ended);
  EXPECT_GE(x.sent.size(), size_t(1) << 20);
  EXPECT_LT(x.sent.size(), 1'100'000u);
  EXPECT_EQ(answer.held(), 7u);
}

TEST(DrainFloor, IsHigherAndLookedAtSoonerWhereMemoryIsScarce) {
  struct Slabs final : base::SlabSource {
    base::Slab* take(size_t) override { return nullptr; }
    bool scarce() const override { return full; }
    bool full = true;
  } slabs;
  Limits limits;
  limits.min_drain_rate = 1000, limits.grace = 10s;
  auto scarce = drain_floor(limits, 60 * 1001, slabs);
  EXPECT_EQ(scarce.rate, 1001u);
  EXPECT_EQ(scarce.grace, 2s);
  auto little = drain_floor(limits, 60 * 1000, slabs);
  EXPECT_EQ(little.rate, 1000u);
  EXPECT_EQ(little.grace, 10s);
  limits.grace = 1s;
  EXPECT_EQ(drain_floor(limits, 60 * 1001, slabs).grace, 1s) << "no later than always";
  slabs.full = false;
  EXPECT_EQ(drain_floor(limits, 60 * 1001, slabs).rate, 1000u);
}

TEST(SmallPieces, AreChargedInStepsOf64KibibytesOfWhichTheFirstIsFree) {
  base::MemoryLedger ledger(200'000);
  SmallPieces small;
  auto held = [&] { return ledger.held(MemoryKind::kAnswers); };
  EXPECT_TRUE(small.add(&ledger, 65'535));
  EXPECT_EQ(held(), 0u);
  EXPECT_TRUE(small.add(&ledger, 1));
  EXPECT_EQ(held(), 65'536u);
  EXPECT_TRUE(small.add(&ledger, 65'535));
  EXPECT_EQ(held(), 65'536u);
  EXPECT_TRUE(small.add(&ledger, 1));
  EXPECT_EQ(held(), 131'072u);
  small.fit(200'000);
  EXPECT_EQ(held(), 131'072u) << "no less is left than that";
  small.fit(70'000);
  EXPECT_EQ(held(), 65'536u);
  EXPECT_FALSE(small.add(&ledger, 200'000)) << "there is no room";
  small.fit(0);
  EXPECT_EQ(held(), 0u);
  SmallPieces uncounted;
  EXPECT_TRUE(uncounted.add(nullptr, 1 << 20));
}

TEST(SmallPieces, APieceOf4KibibytesIsChargedByItselfAndGoesOutIfItIsNotLarge) {
  base::MemoryLedger ledger(100'000);
  SmallPieces small;
  Bytes brief = Bytes::adopt(std::string(4095, 'x')), piece = Bytes::adopt(std::string(4096, 'x'));
  EXPECT_TRUE(charge_piece(&ledger, brief, small));
  EXPECT_EQ(ledger.held(MemoryKind::kAnswers), 0u);
  EXPECT_TRUE(charge_piece(&ledger, piece, small));
  EXPECT_GE(ledger.held(MemoryKind::kAnswers), 4096u);
  ASSERT_TRUE(ledger.take(MemoryKind::kInput, 90'000));
  Bytes fits = Bytes::adopt(std::string(65'536, 'x')), large = Bytes::adopt(std::string(65'537, 'x'));
  EXPECT_TRUE(charge_piece(&ledger, fits, small)) << "without a charge";
  EXPECT_FALSE(charge_piece(&ledger, large, small));
}

}  // namespace
}  // namespace weir::wire
