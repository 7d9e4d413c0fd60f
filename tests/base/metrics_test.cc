#include "base/metrics.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace weir::base {
namespace {

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Metrics, CellsOfOneSeriesAreSummed) {
  Metrics metrics;
  auto& one = metrics.counter("weir_requests_total", "Requests.", {{"protocol", "grpc"}});
  auto& two = metrics.counter("weir_requests_total", "ignored", {{"protocol", "grpc"}});
  auto& other = metrics.counter("weir_requests_total", "Requests.", {{"protocol", "rest"}});
  one.add(2), two.add(3), other.add();
  auto text = metrics.text();
  EXPECT_TRUE(has_line(text, "# HELP weir_requests_total Requests.")) << text;
  EXPECT_TRUE(has_line(text, "# TYPE weir_requests_total counter"));
  EXPECT_TRUE(has_line(text, "weir_requests_total{protocol=\"grpc\"} 5"));
  EXPECT_TRUE(has_line(text, "weir_requests_total{protocol=\"rest\"} 1"));
}

TEST(Metrics, ASeriesEndsWithItsLastCell) {
  Metrics metrics;
  const Metrics::Labels m{{"model", "m"}}, other{{"model", "other"}};
  auto& one = metrics.histogram("weir_seconds", "Time.", Histogram::Scale::kSeconds, m);
  auto& two = metrics.histogram("weir_seconds", "Time.", Histogram::Scale::kSeconds, m);
  metrics.histogram("weir_seconds", "Time.", Histogram::Scale::kSeconds, other).record_ns(1);
  one.record_ns(1), two.record_ns(1);
  metrics.drop("weir_seconds", m, one);
  EXPECT_TRUE(has_line(metrics.text(), "weir_seconds_count{model=\"m\"} 1")) << metrics.text();
  metrics.drop("weir_seconds", m, two);
  EXPECT_EQ(metrics.text().find("model=\"m\""), std::string::npos) << metrics.text();
  EXPECT_TRUE(has_line(metrics.text(), "weir_seconds_count{model=\"other\"} 1"));
  size_t series = 0;
  metrics.each([&](const Metrics::Reading&) { ++series; });
  EXPECT_EQ(series, 1u);
  metrics.histogram("weir_seconds", "Time.", Histogram::Scale::kSeconds, m);
  EXPECT_TRUE(has_line(metrics.text(), "weir_seconds_count{model=\"m\"} 0")) << "it begins anew";
}

// A reader that holds the registry's lock would have those wait who count in a new series: shards.
TEST(Metrics, WhoReadsKeepsNobodyFromAskingForACell) {
  Metrics metrics;
  auto& dropped = metrics.histogram("weir_seconds", "Time.", Histogram::Scale::kSeconds, {{"m", "x"}});
  dropped.record_ns(1);
  size_t read = 0;
  metrics.each([&](const Metrics::Reading& reading) {
    metrics.counter("weir_x_total", "X.").add();
    metrics.drop("weir_seconds", {{"m", "x"}}, dropped);
    read += reading.buckets[0];
  });
  EXPECT_EQ(read, 1u);
}

TEST(Metrics, GaugesGoUpAndDown) {
  Metrics metrics;
  auto& gauge = metrics.gauge("weir_connections", "Open.");
  gauge.add(3), gauge.add(-5);
  EXPECT_TRUE(has_line(metrics.text(), "weir_connections -2"));
  gauge.set(7);
  EXPECT_TRUE(has_line(metrics.text(), "weir_connections 7"));
}

TEST(Metrics, HistogramsAreCumulativeAndInSeconds) {
  Metrics metrics;
  auto& h = metrics.histogram("weir_seconds", "Time.", Histogram::Scale::kSeconds, {{"m", "x"}});
  h.record_ns(10'000), h.record_ns(10'001), h.record_ns(3'000'000'000'000);
  auto text = metrics.text();
  EXPECT_TRUE(has_line(text, "weir_seconds_bucket{m=\"x\",le=\"1e-05\"} 1")) << text;
  EXPECT_TRUE(has_line(text, "weir_seconds_bucket{m=\"x\",le=\"2e-05\"} 2"));
  EXPECT_TRUE(has_line(text, "weir_seconds_bucket{m=\"x\",le=\"100\"} 2"));
  EXPECT_TRUE(has_line(text, "weir_seconds_bucket{m=\"x\",le=\"+Inf\"} 3"));
  EXPECT_TRUE(has_line(text, "weir_seconds_sum{m=\"x\"} 3000.00002"));
  EXPECT_TRUE(has_line(text, "weir_seconds_count{m=\"x\"} 3"));
}

TEST(Metrics, SizesFallIntoPowersOfTwo) {
  Histogram h(Histogram::Scale::kSize);
  for (uint64_t n : {0, 1, 2, 3, 4, 5}) h.record_size(n);
  EXPECT_EQ(h.bucket(0), 2u);
  EXPECT_EQ(h.bucket(1), 1u);
  EXPECT_EQ(h.bucket(2), 2u);
  EXPECT_EQ(h.bucket(3), 1u);
  h.record_size(UINT64_MAX);
  EXPECT_EQ(h.bucket(Histogram::kBuckets), 1u);
}

TEST(Metrics, LabelValuesAreEscaped) {
  EXPECT_EQ(escape_label("a\\b\"c\nd"), "a\\\\b\\\"c\\nd");
  Metrics metrics;
  metrics.counter("c", "h", {{"l", "x\"y\nz"}});
  EXPECT_TRUE(has_line(metrics.text(), "c{l=\"x\\\"y\\nz\"} 0"));
}

TEST(Metrics, CollectorsAppendTheirOwnFamilies) {
  Metrics metrics;
  metrics.collect([](std::string& out) { out += "weir_up 1\n"; });
  EXPECT_TRUE(has_line(metrics.text(), "weir_up 1"));
}

TEST(Metrics, ManyThreadsCountInTheirOwnCellsWhileSomebodyReads) {
  Metrics metrics;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        auto& cell = metrics.counter("c", "h");
        auto& seconds = metrics.histogram("s", "h", Histogram::Scale::kSeconds);
        for (int n = 0; n < 10'000; ++n) cell.add(), seconds.record_ns(uint64_t(n));
      });
    for (int n = 0; n < 20; ++n) metrics.text();
  }
  EXPECT_TRUE(has_line(metrics.text(), "c 40000"));
  EXPECT_TRUE(has_line(metrics.text(), "s_count 40000"));
}

}  // namespace
}  // namespace weir::base
