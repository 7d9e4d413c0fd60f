#include "base/open_metrics.h"

#include <gtest/gtest.h>

#include "base/metrics.h"

namespace weir::base {
namespace {

TEST(OpenMetrics, FamiliesOfCountersLoseTheirSuffixAndSamplesKeepIt) {
  EXPECT_EQ(open_metrics("# HELP a_total All.\n# TYPE a_total counter\na_total{x=\"y\"} 3\n"),
            "# HELP a All.\n# TYPE a counter\na_total{x=\"y\"} 3\n# EOF\n");
}

TEST(OpenMetrics, ACounterWithoutTheSuffixIsOfUnknownType) {
  EXPECT_EQ(open_metrics("# HELP nv_count C.\n# TYPE nv_count counter\nnv_count 3\n"),
            "# HELP nv_count C.\n# TYPE nv_count unknown\nnv_count 3\n# EOF\n");
}

TEST(OpenMetrics, ACounterWithTheNameOfAGaugeIsOfUnknownType) {
  EXPECT_EQ(open_metrics("# HELP c C.\n# TYPE c gauge\nc 1\n# HELP c_total C.\n# TYPE c_total counter\nc_total 3\n"),
            "# HELP c C.\n# TYPE c gauge\nc 1\n# HELP c_total C.\n# TYPE c_total unknown\nc_total 3\n# EOF\n");
}

TEST(OpenMetrics, AHistogramKeepsANameThatEndsLikeACounters) {
  EXPECT_EQ(open_metrics("# HELP i_total I.\n# TYPE i_total histogram\ni_total_bucket{le=\"1\"} 0\n"),
            "# HELP i_total I.\n# TYPE i_total histogram\ni_total_bucket{le=\"1.0\"} 0\n# EOF\n");
}

TEST(OpenMetrics, BoundsAreFloatingPointNumbers) {
  for (auto [from, to] : {std::pair("5", "5.0"), {"0.5", "0.5"}, {"1e-05", "1e-05"}, {"+Inf", "+Inf"}})
    EXPECT_EQ(open_metrics("b{m=\"x\",le=\"" + std::string(from) + "\"} 1\n"),
              "b{m=\"x\",le=\"" + std::string(to) + "\"} 1\n# EOF\n");
  EXPECT_EQ(open_metrics("b{scale=\"5\"} 1\n"), "b{scale=\"5\"} 1\n# EOF\n");
}

TEST(OpenMetrics, TheLatestTracedRequestIsTheExemplarOfItsBucket) {
  Metrics metrics;
  auto& one = metrics.histogram("weir_t_seconds", "T.", Histogram::Scale::kSeconds);
  auto& other = metrics.histogram("weir_t_seconds", "T.", Histogram::Scale::kSeconds);
  auto at = [](int64_t ms) { return WallTime(std::chrono::milliseconds(ms)); };
  for (auto* h : {&one, &other}) h->record_ns(1'500'000);
  one.set_exemplar({"0123456789abcdef0123456789abcdef", 1'500'000, at(1'700'000'000'250)});
  other.set_exemplar({"ffffffffffffffffffffffffffffffff", 1'600'000, at(1'700'000'000'050)});
  std::string text = metrics.text(Metrics::Form::kOpenMetrics);
  EXPECT_NE(text.find("weir_t_seconds_bucket{le=\"0.002\"} 2 # {trace_id=\"0123456789abcdef0123456789abcdef\"} 0.0015 "
                      "1700000000.250\n"),
            text.npos)
      << text;
  EXPECT_EQ(text.find("ffff"), text.npos);
  EXPECT_EQ(metrics.text().find(" # {"), std::string::npos) << "Prometheus' own form has none";
}

}  // namespace
}  // namespace weir::base
