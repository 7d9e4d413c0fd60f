// GPUs, pinned memory and copies to devices in /metrics.
//
//   weir_gpu_utilization_ratio, weir_gpu_memory_utilization_ratio, weir_gpu_memory_{used,total}_bytes,
//   weir_gpu_power_watts, weir_gpu_power_limit_watts, weir_gpu_energy_joules_total {gpu,uuid,name}
//   weir_pinned_{used,total}_bytes; weir_device_copy_bytes_total{device,direction}, weir_device_copies_total{device}
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/gpu.h"

namespace weir::ops {

struct DeviceCopies {
  std::string device;                               // "cuda:0"
  uint64_t to_device = 0, to_host = 0, copies = 0;  // bytes, bytes, operations
};
struct PinnedPool {
  uint64_t used = 0, total = 0;  // bytes
};

// Families without a value are left out.
void append_gpus(std::string& out, std::span<const base::Gpu> gpus);
void append_devices(std::string& out, std::span<const DeviceCopies> devices);
void append_pinned(std::string& out, const PinnedPool& pool);
// The same under the names of Triton's metrics: nv_gpu_…, nv_energy_consumption, nv_pinned_memory_pool_…
void append_gpus_triton(std::string& out, std::span<const base::Gpu> gpus);
void append_pinned_triton(std::string& out, const PinnedPool& pool);

}  // namespace weir::ops
