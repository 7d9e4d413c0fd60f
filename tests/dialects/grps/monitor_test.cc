#include <gtest/gtest.h>

#include "bench.h"

namespace weir::grps {
namespace {

using std::chrono_literals::operator""s;

TEST(GrpsMonitor, CountersBecomeTrendsSecondBySecond) {
  Bench bench;
  auto& ok = bench.metrics.counter("weir_requests_total", "", {{"code", "OK"}, {"protocol", "oip-rest"}});
  auto& bad = bench.metrics.counter("weir_requests_total", "", {{"code", "INTERNAL"}, {"protocol", "grps-rest"}});
  auto& probes = bench.metrics.counter("weir_requests_total", "", {{"code", "OK"}, {"protocol", "health"}});
  auto& took = bench.metrics.histogram("weir_model_request_duration_seconds", "", base::Histogram::Scale::kSeconds,
                                       {{"model", "digits"}});
  ok.add(3), bad.add(1), probes.add(100);
  for (int i = 0; i < 4; ++i) took.record_ns(2'000'000);
  bench.wire.env.advance(1s);
  auto series = [&](std::string name) { return bench.rest("GET", "/grps/v1/monitor/series?name=" + name).body; };
  EXPECT_TRUE(series("*qps").starts_with(R"({"label":"trend","data":[[0,0.0],[1,0.0])"));
  EXPECT_TRUE(series("*qps").ends_with("[172,0.0],[173,4.0]]}")) << series("*qps");
  EXPECT_TRUE(series("*fail_rate(%25)").ends_with("[173,25.0]]}"));
  EXPECT_TRUE(series("*mem_usage(MIB)").ends_with("[173,64.0]]}"));
  EXPECT_TRUE(series("*mem_usage(%25)").ends_with("[173,25.0]]}"));
  EXPECT_TRUE(series("*mem_usage(%)").ends_with("[173,25.0]]}")) << "as the reference server's page asks";
  EXPECT_TRUE(series("digits_qps").ends_with("[173,4.0]]}"));
  EXPECT_TRUE(series("digits_latency_avg(ms)").ends_with("[173,2.0]]}"));
  EXPECT_TRUE(series("digits_latency_cdf(ms)").starts_with(R"({"label":"cdf","data":[[10,)"));
  EXPECT_NE(series("digits_latency_cdf(ms)").find(",[90,"), std::string::npos);
  EXPECT_NE(series("digits_latency_cdf(ms)").find(",[101,"), std::string::npos);
  bench.wire.env.advance(1s);
  EXPECT_TRUE(series("*qps").ends_with("[172,4.0],[173,0.0]]}"));
  EXPECT_EQ(bench.rest("GET", "/grps/v1/monitor/series?name=nothing").status, 404);
}

TEST(GrpsMonitor, TheSeriesOfAModelEndWithItAndBeginAnew) {
  constexpr auto kName = "weir_model_request_duration_seconds";
  base::Metrics metrics;
  const base::Metrics::Labels label{{"model", "m"}};
  Monitor monitor(metrics, [] { return Monitor::Usage{}; });
  auto& first = metrics.histogram(kName, "", base::Histogram::Scale::kSeconds, label);
  for (int i = 0; i < 5; ++i) first.record_ns(1'000'000);
  monitor.tick(base::Time(1s));
  EXPECT_TRUE(monitor.series("m_qps")->ends_with(",5.0]]}"));
  metrics.drop(kName, label, first);
  auto& second = metrics.histogram(kName, "", base::Histogram::Scale::kSeconds, label);
  second.record_ns(1'000'000);
  monitor.tick(base::Time(2s));
  EXPECT_TRUE(monitor.series("m_qps")->ends_with(",1.0]]}")) << *monitor.series("m_qps");
  metrics.drop(kName, label, second);
  monitor.tick(base::Time(3s));
  for (const char* name : {"m_qps", "m_latency_avg(ms)", "m_latency_cdf(ms)"})
    EXPECT_FALSE(monitor.series(name)) << name;
  EXPECT_TRUE(monitor.series("*qps"));
}

TEST(GrpsMonitor, GpusHaveSeriesWhereThereAreSome) {
  base::Metrics metrics;
  Monitor monitor(metrics, [] {
    base::Gpu gpu, mute;
    gpu.utilization = 0.25, gpu.memory_used = 3 << 20;
    mute.index = 1;
    return Monitor::Usage{0, 0, 0, {gpu, mute}};
  });
  monitor.tick(base::Time(1s));
  EXPECT_TRUE(monitor.series("*gpu0_usage(%)")->ends_with("[173,25.0]]}"));
  EXPECT_TRUE(monitor.series("*gpu0_mem_usage(MIB)")->ends_with("[173,3.0]]}"));
  EXPECT_FALSE(monitor.series("*gpu1_usage(%)"));
  EXPECT_FALSE(monitor.series("*mem_usage(%)")) << "of a machine whose memory is not known";
}

TEST(GrpsMonitor, ThePageListsWhatThereIs) {
  Bench bench;
  auto page = bench.rest("GET", "/grps/v1/monitor/metrics");
  EXPECT_EQ(page.type, "text/html; charset=utf-8");
  EXPECT_NE(page.body.find("<a href=\"series?name=%2Aqps\">*qps</a>"), std::string::npos) << page.body;
  auto json = bench.rest("GET", "/grps/v1/monitor/metrics", "", {{"accept", "application/json"}});
  EXPECT_NE(json.body.find("\"*qps\":0.0"), std::string::npos) << json.body;
}

}  // namespace
}  // namespace weir::grps
