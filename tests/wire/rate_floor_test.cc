#include "wire/rate_floor.h"

#include <gtest/gtest.h>

namespace weir::wire {
namespace {

using namespace std::chrono_literals;

constexpr base::Time kBegin = base::Time(1000s);

TEST(RateFloor, IsNotFooledByDrips) {
  RateFloor floor;
  EXPECT_FALSE(floor.below(kBegin, 1024, 10s));
  floor.start(kBegin);
  base::Time now = kBegin;
  bool below = false;
  for (int i = 0; i < 12 && !below; ++i) {
    floor.add(1);
    floor.start(now);  // starting again is nothing new
    below = floor.below(now, 1024, 10s);
    now += 1s;
  }
  EXPECT_TRUE(below);
  EXPECT_EQ(now, kBegin + 11s);
  RateFloor good;
  good.start(kBegin);
  for (now = kBegin; now < kBegin + 100s; now += 1s) {
    EXPECT_FALSE(good.below(now, 1024, 10s));
    good.add(1100);
  }
  RateFloor off;
  off.start(kBegin);
  EXPECT_FALSE(off.below(kBegin + 100s, 0, 10s));
}

TEST(RateFloor, WhereMemoryIsScarceABodyHasAMinuteToFillItsOwn) {
  struct Slabs final : base::SlabSource {
    base::Slab* take(size_t) override { return nullptr; }
    bool scarce() const override { return full; }
    bool full = true;
  } slabs;
  EXPECT_EQ(floor_rate(1024, 60 * 5000, slabs), 5000u);
  EXPECT_EQ(floor_rate(1024, 60 * 1024 + 60, slabs), 1025u);
  EXPECT_EQ(floor_rate(1024, 60 * 1024 + 59, slabs), 1024u);
  EXPECT_EQ(floor_rate(1024, 60, slabs), 1024u) << "no less than always";
  EXPECT_EQ(floor_rate(1, UINT64_MAX, slabs), UINT32_MAX);
  EXPECT_EQ(floor_rate(0, 60 * 5000, slabs), 0u) << "no floor";
  slabs.full = false;
  EXPECT_EQ(floor_rate(1024, 60 * 5000, slabs), 1024u);
}

}  // namespace
}  // namespace weir::wire
