#include "dialects/grps/time_series.h"

#include <gtest/gtest.h>

namespace weir::grps {
namespace {

TEST(Series, SecondsRollUpByTheRule) {
  for (auto [rule, minute, hour] :
       {std::tuple{Series::Rule::kMax, 60.0, 60.0}, std::tuple{Series::Rule::kMin, 1.0, 1.0},
        std::tuple{Series::Rule::kAvg, 30.5, 30.5}, std::tuple{Series::Rule::kSum, 1830.0, 1830.0 * 60}}) {
    Series s(rule);
    for (int m = 0; m < 60; ++m)
      for (int i = 1; i <= 60; ++i) s.push(i);
    auto t = s.trend();
    ASSERT_EQ(t.size(), 174u);
    EXPECT_EQ(t[173], 60);
    EXPECT_EQ(t[114], 1);
    EXPECT_EQ(t[113], minute);
    EXPECT_EQ(t[53], hour);
    EXPECT_EQ(t[52], 0);
    for (int h = 1; h < 24; ++h)
      for (int i = 0; i < 3600; ++i) s.push(i % 60 + 1);
    EXPECT_EQ(s.trend()[29], rule == Series::Rule::kSum ? hour * 24 : hour);
    EXPECT_EQ(s.last(), 60);
  }
}

TEST(RecentQuantiles, CoverTheLastMinuteOnly) {
  base::Histogram h(base::Histogram::Scale::kSeconds);
  RecentQuantiles q;
  auto push = [&] {
    RecentQuantiles::Buckets b{};
    for (size_t i = 0; i < b.size(); ++i) b[i] = h.bucket(i);
    q.push(b);
  };
  EXPECT_EQ(q.at(0.5), 0);
  for (int i = 0; i < 90; ++i) h.record_ns(900'000);     // in the bucket from 0.5 to 1 ms
  for (int i = 0; i < 10; ++i) h.record_ns(90'000'000);  // from 50 to 100 ms
  push();
  EXPECT_EQ(q.count(), 100u);
  EXPECT_GT(q.at(0.5), 0.5e-3);
  EXPECT_LE(q.at(0.9), 1e-3 + 1e-9);
  EXPECT_GT(q.at(0.91), 50e-3);
  EXPECT_DOUBLE_EQ(q.slowest(), 0.1);
  EXPECT_DOUBLE_EQ(q.fastest(), 0.5e-3);
  for (int i = 0; i < 60; ++i) push();
  EXPECT_EQ(q.count(), 0u);
  EXPECT_EQ(q.slowest(), 0);
}

}  // namespace
}  // namespace weir::grps
