// Gpu: what a GPU says of itself now, as metrics and monitors show it. Plain data; device/gpu_watch.h reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weir::base {

// A figure that the GPU does not report (a laptop's has no power meter) is empty.
struct Gpu {
  uint32_t index = 0;  // as the driver counts
  std::string uuid;    // "GPU-…"
  std::string name;
  std::optional<double> utilization;                  // 0 … 1: share of the last period in which something ran
  std::optional<double> memory_utilization;           // 0 … 1: share in which its memory was read or written
  std::optional<uint64_t> memory_used, memory_total;  // bytes
  std::optional<double> power, power_limit;           // watts
  std::optional<double> energy;                       // joules since the driver was loaded
};

}  // namespace weir::base
