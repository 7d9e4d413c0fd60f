// Reports of origins on their load, and what they do to the choice between origins.
#include "engines/forward/load_report.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "engines/forward/hedge.h"
#include "engines/forward/origin.h"

namespace weir::forward {
namespace {

using namespace std::chrono_literals;

TEST(ForwardLoadReport, BothFormsOfOrcaAreRead) {
  for (const char* field :
       {"TEXT cpu_utilization=0.3, mem_utilization=0.8, rps_fractional=10.0, named_metrics.num_requests_waiting=4",
        R"(JSON {"cpu_utilization": 0.3, "mem_utilization":0.8, "named_metrics": {"num_requests_waiting": 4.0}})",
        "named_metrics.kv_cache_usage_perc=0.8,named_metrics.num_requests_waiting=4"}) {
    const LoadReport report = parse_orca(field);
    EXPECT_EQ(report.utilization, 0.8) << field;
    EXPECT_EQ(report.waiting, 4) << field;
  }
}

TEST(ForwardLoadReport, WhatIsNoReportSaysNothing) {
  for (const char* field : {"", "TEXT", "BIN CAESAw==", "JSON {", "TEXT cpu_utilization=", "TEXT cpu_utilization=nan",
                            "TEXT =0.4", "TEXT utilization=0.4", "JSON {\"cpu_utilization\": {\"a\": 1}}"})
    EXPECT_TRUE(parse_orca(field).empty()) << field;
  EXPECT_EQ(parse_orca("TEXT cpu_utilization=-3").utilization, 0);
  EXPECT_EQ(parse_orca("TEXT cpu_utilization=7e99").utilization, 1);
}

TEST(ForwardLoadReport, MetricsOfVllmAndTritonAreRead) {
  const std::string vllm = R"(# HELP vllm:num_requests_waiting Number
vllm:num_requests_running{engine="0",model_name="m"} 9.0
vllm:num_requests_waiting{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="1",model_name="m"} 2.0
vllm:num_requests_waiting{engine="0",model_name="other"} 100.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
)";
  EXPECT_EQ(parse_metrics(vllm, "m").waiting, 5);
  EXPECT_EQ(parse_metrics(vllm, "m").utilization, 0.25);
  const std::string triton = R"(nv_gpu_utilization{gpu_uuid="GPU-1"} 0.75
nv_inference_pending_request_count{model="m",version="1"} 8
nv_inference_pending_request_count{model="n",version="1"} 80
)";
  EXPECT_EQ(parse_metrics(triton, "m").waiting, 8);
  EXPECT_EQ(parse_metrics(triton, "m").utilization, 0.75);
}

TEST(ForwardLoadReport, LongRowsAndTooManyArePassedOver) {
  const std::string known = "vllm:num_requests_waiting";
  EXPECT_TRUE(parse_metrics(known + '{' + std::string(4 << 20, 'm') + "} 1\n", "m").empty());
  EXPECT_EQ(parse_metrics(known + '{' + std::string(4 << 20, 'm') + "} 1\n" + known + " 2\n", "m").waiting, 2);
  std::string many;
  for (int i = 0; i < 5000; ++i) many += known + " 1\n";
  EXPECT_EQ(parse_metrics(many, "m").waiting, 4096);
  EXPECT_TRUE(parse_metrics(std::string(1 << 20, '\n') + many, "m").empty());
}

TEST(ForwardLoadReport, AnyBytesAreRead) {
  std::mt19937 random(3);
  const std::string orca = R"(JSON {"cpu_utilization": 0.3, "named_metrics": {"num_requests_waiting": 4}})";
  const std::string metrics = "vllm:num_requests_waiting{model_name=\"m\"} 3.0\nnv_gpu_utilization{} 1\n";
  for (int i = 0; i < 20000; ++i)
    for (std::string text : {orca, metrics}) {
      text.resize(random() % (text.size() + 1));
      for (char& c : text)
        if (random() % 8 == 0) c = char(random());
      (void)parse_orca(text);
      (void)parse_metrics(text, "m");
    }
}

TEST(ForwardLoadReport, AReportCountsForTenSeconds) {
  Origin origin(*net::parse_url("http://127.0.0.1:1"), 0, {});
  const base::Time now = base::Time() + 1h;
  EXPECT_EQ(origin.load(now), 1);
  origin.report({.utilization = 0.5, .waiting = 3}, now);
  EXPECT_EQ(origin.load(now), 8);
  origin.report({}, now + 5s);
  EXPECT_EQ(origin.load(now + 9s), 8);
  EXPECT_EQ(origin.load(now + 11s), 1);
}

TEST(ForwardHedge, AQuantileIsFoundOfWhateverScale) {
  for (const auto scale : {1us, 50us, 20000us}) {
    Quantile quantile(0.95);
    std::mt19937 random(5);
    for (int i = 0; i < 63; ++i) quantile.add(scale);
    EXPECT_EQ(quantile.value(), base::Duration(0));
    for (int i = 0; i < 20000; ++i) quantile.add(scale * (random() % 1000));
    EXPECT_GT(quantile.value(), scale * 800);
    EXPECT_LT(quantile.value(), scale * 1200);
  }
}

}  // namespace
}  // namespace weir::forward
