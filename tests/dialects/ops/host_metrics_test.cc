// The machine as Triton's dashboards read it.
#include "dialects/ops/host_metrics.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace weir::ops {
namespace {

struct Proc {
  Proc() { std::filesystem::create_directories(root + "/proc"); }
  ~Proc() { std::filesystem::remove_all(root); }
  void write(const char* name, const std::string& text) const { std::ofstream(root + "/proc/" + name) << text; }
  std::string made = (std::filesystem::temp_directory_path() / "weir-host-XXXXXX").string();
  const std::string root = ::mkdtemp(made.data());
};

std::string told(HostLoad& load) {
  std::string out;
  load.append_triton(out);
  return out;
}

TEST(OpsHostMetrics, UtilizationIsThatSinceTheLastScrape) {
  Proc proc;
  proc.write("stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 2 3\n");
  proc.write("meminfo", "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    250 kB\n");
  HostLoad load(proc.root);
  proc.write("stat", "cpu  130 10 110 840 10 0 0 0 0 0\n");
  EXPECT_EQ(told(load),
            "# HELP nv_cpu_utilization CPU utilization rate [0.0 - 1.0]\n# TYPE nv_cpu_utilization gauge\n"
            "nv_cpu_utilization 0.500000\n"
            "# HELP nv_cpu_memory_total_bytes CPU total memory (RAM), in bytes\n"
            "# TYPE nv_cpu_memory_total_bytes gauge\nnv_cpu_memory_total_bytes 1024000\n"
            "# HELP nv_cpu_memory_used_bytes CPU used memory (RAM), in bytes\n"
            "# TYPE nv_cpu_memory_used_bytes gauge\nnv_cpu_memory_used_bytes 768000\n");
  EXPECT_NE(told(load).find("nv_cpu_utilization 0.500000\n"), std::string::npos) << "no tick has passed";
  proc.write("stat", "cpu  130 10 110 940 10 0 0 0 0 0\n");
  EXPECT_NE(told(load).find("nv_cpu_utilization 0.000000\n"), std::string::npos);
}

TEST(OpsHostMetrics, WhatTheSystemDoesNotTellIsLeftOut) {
  Proc proc;
  HostLoad load(proc.root);
  EXPECT_EQ(told(load), "");
  proc.write("stat", "intr 5\n");
  proc.write("meminfo", "MemTotal: many\nMemAvailable: 3 kB\n");
  EXPECT_EQ(told(load), "");
}

}  // namespace
}  // namespace weir::ops
