#include "bus/call_durations.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weir::bus {
namespace {

using Part = CallDurations::Part;
constexpr uint64_t kUs = 1000, kNow = 1'700'000'000'000;

CallDurations::Call whole(uint64_t us) { return {us * kUs, 0, 0, 0, 0}; }

TEST(CallDurations, QuantilesAreThoseOfEachPart) {
  CallDurations all(KeptDurations::kQuantiles, {});
  for (uint64_t i = 1; i <= 1000; ++i)
    all.add({i * kUs, i * 10 * kUs, 5 * kUs, i * 1'000'000 * kUs, UINT64_MAX / 2}, kNow);
  for (const double share : {0.001, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    EXPECT_NEAR(all.quantiles(Part::kWhole, {share}, kNow)[0], share * 1000, share * 30);
    EXPECT_NEAR(all.quantiles(Part::kQueue, {share}, kNow)[0], share * 10'000, share * 300);
    EXPECT_NEAR(all.quantiles(Part::kInfer, {share}, kNow)[0], share * 1e9, share * 3e7);
  }
  EXPECT_EQ(all.quantiles(Part::kInput, {0, 0.5, 1}, kNow), (std::vector<double>{5, 5, 5}));
  EXPECT_GT(all.quantiles(Part::kOutput, {0.5}, kNow)[0], 2e11);
  EXPECT_EQ(all.quantiles(Part::kWhole, {0}, kNow)[0], 1);
}

TEST(CallDurations, QuantilesAreOfTheLastMinute) {
  CallDurations all(KeptDurations::kQuantiles, {});
  EXPECT_TRUE(std::isnan(all.quantiles(Part::kWhole, {0.5}, kNow)[0]));
  all.add(whole(10), kNow);
  all.add(whole(20), kNow + 49'000);
  EXPECT_EQ(all.quantiles(Part::kWhole, {0.5, 1}, kNow + 49'000), (std::vector<double>{10, 20}));
  EXPECT_EQ(all.quantiles(Part::kWhole, {0.5, 1}, kNow + 60'000), (std::vector<double>{20, 20}));
  all.add(whole(30), kNow + 60'000);  // in the place of the first
  EXPECT_EQ(all.quantiles(Part::kWhole, {0.5, 1}, kNow + 60'000), (std::vector<double>{20, 30}));
  EXPECT_TRUE(std::isnan(all.quantiles(Part::kWhole, {0.5}, kNow + 200'000)[0]));
  EXPECT_EQ(all.answers().count(0), 3u);
}

TEST(CallDurations, AKeptAnswerWaitedForNoModel) {
  CallDurations all(KeptDurations::kQuantiles, {});
  all.add({9 * kUs, 1 * kUs, 2 * kUs, 3 * kUs, 4 * kUs}, kNow);
  all.add_cached(1 * kUs, kNow);
  EXPECT_EQ(all.quantiles(Part::kWhole, {0.5, 1}, kNow), (std::vector<double>{1, 9}));
  EXPECT_EQ(all.quantiles(Part::kInfer, {0.5, 1}, kNow), (std::vector<double>{3, 3}));
}

TEST(CallDurations, AHistogramAloneHasBoundsOfItsOwn) {
  CallDurations all(KeptDurations::kHistogram, {1, 2.5});
  for (uint64_t ms : {1, 2, 3}) all.add(whole(ms * 1000), kNow);
  EXPECT_FALSE(all.has_quantiles());
  EXPECT_EQ(all.answers().count(0), 1u);
  EXPECT_EQ(all.answers().count(1), 1u);
  EXPECT_EQ(all.answers().count(2), 1u);
  EXPECT_TRUE(std::isnan(all.quantiles(Part::kWhole, {0.5}, kNow)[0]));
}

}  // namespace
}  // namespace weir::bus
