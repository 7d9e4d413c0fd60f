#include "engines/process/custom_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

namespace weir::process {
namespace {

using base::Code;

struct CustomMetricsTest : testing::Test {
  std::string text() const {
    std::string out;
    all->write(out);
    return out;
  }
  uint64_t family(const std::string& name, MetricKind kind = MetricKind::kCounter) {
    return model.add_family(name, "h", kind).value();
  }
  base::MemoryLedger ledger{64 << 20};
  std::shared_ptr<CustomMetrics> all = std::make_shared<CustomMetrics>(&ledger);
  ModelMetrics model{all}, other{all};
};

TEST_F(CustomMetricsTest, ModelsThatNameTheSameMetricShareIt) {
  const auto mine = model.add_metric(family("x_total"), {{"b", "1"}, {"a", "2"}}, {}).value();
  const auto their_family = other.add_family("x_total", "another text", MetricKind::kCounter).value();
  const auto theirs = other.add_metric(their_family, {{"a", "2"}, {"b", "1"}}, {}).value();
  model.increment(mine, 1), other.increment(theirs, 2);
  EXPECT_EQ(3, model.value(mine).value());
  EXPECT_EQ("# HELP x_total h\n# TYPE x_total counter\nx_total{a=\"2\",b=\"1\"} 3\n", text());
  model.clear();
  EXPECT_EQ(3, other.value(theirs).value());
  EXPECT_EQ(Code::kNotFound, model.value(mine).error().code);
  other.remove_family(their_family);
  EXPECT_EQ("", text());
  EXPECT_EQ(0u, ledger.held());
}

TEST_F(CustomMetricsTest, AKindTakesWhatFitsIt) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const auto counter = model.add_metric(family("c"), {}, {}).value();
  const auto gauge = model.add_metric(family("g", MetricKind::kGauge), {}, {}).value();
  const auto histogram = model.add_metric(family("h", MetricKind::kHistogram), {}, {1, 2}).value();
  for (double value : {nan, infinity, -1.0}) model.increment(counter, value);
  model.set(counter, 5), model.observe(counter, 5), model.observe(gauge, 5), model.set(histogram, 5);
  model.increment(histogram, 5), model.increment(99, 5), model.set(99, 5), model.observe(99, 5);
  for (double value : {nan, infinity, -infinity}) model.observe(histogram, value);
  for (double value : {1.0, 1.5, 3.0}) model.observe(histogram, value);
  EXPECT_EQ(0, model.value(counter).value());
  EXPECT_EQ(0, model.value(gauge).value());
  EXPECT_EQ(Code::kUnimplemented, model.value(histogram).error().code);
  EXPECT_NE(std::string::npos, text().find("h_bucket{le=\"1\"} 1\nh_bucket{le=\"2\"} 2\nh_bucket{le=\"+Inf\"} 3\n"
                                           "h_sum 5.5\nh_count 3\n"));
  model.set(gauge, nan);
  EXPECT_NE(std::string::npos, text().find("\ng NaN\n"));
}

TEST_F(CustomMetricsTest, NamesThatWouldMixWithOthersAreRefused) {
  family("size", MetricKind::kHistogram), family("plain_count");
  auto refused = [&](const std::string& name, MetricKind kind = MetricKind::kCounter) {
    auto made = other.add_family(name, "", kind);
    return made ? Code::kOk : made.error().code;
  };
  for (const char* name : {"weir_x", "nv_x", "vllm:x", "process_x", "size_sum", "size_bucket", "size_count"})
    EXPECT_EQ(Code::kAlreadyExists, refused(name)) << name;
  EXPECT_EQ(Code::kAlreadyExists, refused("plain", MetricKind::kHistogram));
  EXPECT_EQ(Code::kAlreadyExists, refused("size", MetricKind::kGauge));
  for (const char* name : {"", "1x", "a b", "a\nb", "\xc3\xa4"})
    EXPECT_EQ(Code::kInvalidArgument, refused(name)) << name;
  EXPECT_EQ(Code::kInvalidArgument, refused(std::string(201, 'x')));
  EXPECT_EQ(Code::kOk, refused("plain"));
  EXPECT_FALSE(other.add_family("y", std::string("\xff"), MetricKind::kGauge));
  EXPECT_FALSE(other.add_family("y", std::string(1001, 'x'), MetricKind::kGauge));
}

TEST_F(CustomMetricsTest, LabelsAndBucketsThatCannotBeShownAreRefused) {
  const auto gauge = family("g", MetricKind::kGauge), histogram = family("h", MetricKind::kHistogram);
  const double nan = std::nan("");
  for (const MetricLabels& labels : {MetricLabels{{"", "x"}},
                                     {{"a-b", "x"}},
                                     {{"__a", "x"}},
                                     {{"a", "\xff"}},
                                     {{"a", "1"}, {"a", "2"}},
                                     {{"a", std::string(1001, 'x')}},
                                     MetricLabels(33)})
    EXPECT_FALSE(model.add_metric(gauge, labels, {}));
  EXPECT_FALSE(model.add_metric(histogram, {{"le", "1"}}, {1}));
  EXPECT_FALSE(model.add_metric(gauge, {}, {1}));
  for (const std::vector<double>& bounds : {std::vector<double>{2, 1}, {1, 1}, {nan}, std::vector<double>(101)})
    EXPECT_FALSE(model.add_metric(histogram, {}, bounds));
  EXPECT_EQ(Code::kNotFound, model.add_metric(99, {}, {}).error().code);
  EXPECT_EQ("", text());
}

TEST_F(CustomMetricsTest, WhatAModelAndAllOfThemHaveIsBounded) {
  std::vector<std::unique_ptr<ModelMetrics>> models;
  uint64_t made = 0;
  for (int m = 0; m < 20; ++m) {
    auto& one = *models.emplace_back(std::make_unique<ModelMetrics>(all));
    const auto family = one.add_family("f" + std::to_string(m), "", MetricKind::kGauge);
    uint64_t mine = 0;
    for (int i = 0; family && i < 3000; ++i)
      mine += one.add_metric(*family, {{"i", std::to_string(i)}}, {}).has_value();
    EXPECT_LE(mine, CustomMetrics::kMostOfOne.lines);
    made += mine;
  }
  EXPECT_GT(made, 4'000u);
  EXPECT_LE(made, CustomMetrics::kMostOfAll.lines);
  EXPECT_LE(text().size(), CustomMetrics::kMostOfAll.bytes * 2);
  EXPECT_GE(ledger.held(), text().size());
  models.clear();
  EXPECT_EQ(0u, ledger.held());
  EXPECT_TRUE(model.add_family("again", "", MetricKind::kGauge));
}

TEST_F(CustomMetricsTest, WithoutMemoryThereIsNoMetric) {
  base::MemoryLedger small{2000};
  ModelMetrics poor{std::make_shared<CustomMetrics>(&small)};
  const auto family = poor.add_family("f", "", MetricKind::kGauge).value();
  int made = 0;
  while (made < 100 && poor.add_metric(family, {{"i", std::to_string(made)}}, {})) ++made;
  EXPECT_LT(made, 10);
  EXPECT_LE(small.held(), 1000u);
}

TEST_F(CustomMetricsTest, TheSameLabelsAreTheSameMetricAgain) {
  const auto number = family("x");
  const auto first = model.add_metric(number, {{"a", "1"}}, {}).value();
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(first, model.add_metric(number, {{"a", "1"}}, {}).value());
}

TEST_F(CustomMetricsTest, ThreadsCountWhileOthersRead) {
  const auto metric = model.add_metric(family("x"), {}, {}).value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) model.increment(metric, 1), (void)text();
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(4000, model.value(metric).value());
}

}  // namespace
}  // namespace weir::process
