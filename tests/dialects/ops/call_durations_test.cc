#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "bus/call_durations.h"
#include "dialects/ops/metrics.h"

namespace weir::ops {
namespace {

TEST(ModelMetrics, ModelsThatAnswerOnceHaveDurationsWhereTheyAreKept) {
  bus::Catalog catalog;
  for (const auto& [name, kept] :
       {std::pair("all", bus::KeptDurations::kQuantiles), std::pair("some", bus::KeptDurations::kHistogram)}) {
    auto served = std::make_shared<bus::Served>();
    served->stats.durations = std::make_unique<bus::CallDurations>(kept, std::vector<double>{1, 10});
    served->stats.ran({.at_ms = base::unix_ms(), .whole_ns = 5'000'000, .queue_ns = 7000, .infer_ns = 40'000});
    catalog.models[name].versions["1"] = served;
  }
  std::string text;
  append_triton(text, catalog, {"0.5", "0.99"});
  const std::string labels = "{model=\"all\",version=\"1\"", histogram = "nv_inference_first_response_histogram_ms";
  for (const std::string& line :
       {histogram + "_bucket" + labels + ",le=\"1\"} 0\n", histogram + "_bucket" + labels + ",le=\"10\"} 1\n",
        histogram + "_sum{model=\"some\",version=\"1\"} 5\n",
        "nv_inference_queue_summary_us" + labels + ",quantile=\"0.5\"} 7\n",
        "nv_inference_compute_infer_summary_us" + labels + ",quantile=\"0.99\"} 40\n",
        "nv_inference_compute_infer_summary_us_sum" + labels + "} 40\n",
        "nv_inference_request_summary_us_count" + labels + "} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_EQ(text.find("nv_inference_request_summary_us_count{model=\"some\""), std::string::npos);
}

}  // namespace
}  // namespace weir::ops
