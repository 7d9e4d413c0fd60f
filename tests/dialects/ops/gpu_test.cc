#include <gtest/gtest.h>

#include "dialects/ops/gpu_metrics.h"

namespace weir::ops {
namespace {

std::vector<base::Gpu> two() {
  base::Gpu full, poor;
  full.uuid = "GPU-a", full.name = "H\"100";
  full.utilization = 0.5, full.memory_utilization = 0.25;
  full.memory_used = 1024, full.memory_total = 85'899'345'920;
  full.power = 123.456, full.power_limit = 700, full.energy = 5000.5;
  poor.index = 1, poor.uuid = "GPU-b", poor.name = "T4";
  poor.utilization = 0;
  return {full, poor};
}

TEST(OpsGpuMetrics, AFamilyHasARowPerGpuThatTellsIt) {
  std::string out;
  append_gpus(out, two());
  EXPECT_NE(out.find("# TYPE weir_gpu_utilization_ratio gauge\n"
                     "weir_gpu_utilization_ratio{gpu=\"0\",uuid=\"GPU-a\",name=\"H\\\"100\"} 0.5\n"
                     "weir_gpu_utilization_ratio{gpu=\"1\",uuid=\"GPU-b\",name=\"T4\"} 0\n"),
            std::string::npos)
      << out;
  EXPECT_NE(out.find("weir_gpu_memory_total_bytes{gpu=\"0\",uuid=\"GPU-a\",name=\"H\\\"100\"} 85899345920\n"),
            std::string::npos)
      << out;
  EXPECT_NE(out.find("# TYPE weir_gpu_energy_joules_total counter\n"), std::string::npos);
  EXPECT_EQ(out.find("weir_gpu_power_watts{gpu=\"1\""), std::string::npos);
}

TEST(OpsGpuMetrics, TritonsDashboardsFindTheirNames) {
  std::string out;
  append_gpus_triton(out, two());
  append_pinned_triton(out, {100, 200});
  for (const char* line :
       {"nv_gpu_utilization{gpu_uuid=\"GPU-a\"} 0.5\n", "nv_gpu_memory_used_bytes{gpu_uuid=\"GPU-a\"} 1024\n",
        "nv_gpu_power_usage{gpu_uuid=\"GPU-a\"} 123.456\n", "nv_energy_consumption{gpu_uuid=\"GPU-a\"} 5000.5\n",
        "nv_pinned_memory_pool_total_bytes 200\n", "nv_pinned_memory_pool_used_bytes 100\n"})
    EXPECT_NE(out.find(line), std::string::npos) << line << out;
}

TEST(OpsGpuMetrics, WithoutGpusThereIsNothing) {
  std::string out;
  append_gpus(out, {});
  append_gpus_triton(out, {});
  append_devices(out, {});
  EXPECT_EQ(out, "");
}

TEST(OpsGpuMetrics, CopiesAreCountedPerDeviceAndDirection) {
  std::string out;
  const DeviceCopies copies[] = {{"cuda:0", 10, 20, 3}};
  append_devices(out, copies);
  append_pinned(out, {1, 2});
  EXPECT_NE(out.find("weir_device_copy_bytes_total{device=\"cuda:0\",direction=\"to_device\"} 10\n"),
            std::string::npos);
  EXPECT_NE(out.find("weir_device_copy_bytes_total{device=\"cuda:0\",direction=\"to_host\"} 20\n"), std::string::npos);
  EXPECT_NE(out.find("weir_device_copies_total{device=\"cuda:0\"} 3\n"), std::string::npos);
  EXPECT_NE(out.find("weir_pinned_total_bytes 2\n"), std::string::npos);
}

}  // namespace
}  // namespace weir::ops
