// Gpus: what the server has of devices: CUDA's, the pinned memory that requests are received into, and the watch over
// them. Made before everything that uses memory of its pool. On a machine without CUDA all of it is empty, and says
// why.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/config.h"
#include "app/service_notifier.h"
#include "base/gpu.h"
#include "device/devices.h"
#include "device/gpu_watch.h"
#include "device/pool.h"

namespace weir::app {

class Gpus {
 public:
  // Says once in the log what is there.
  explicit Gpus(const Config& config);

  device::Devices& devices() { return devices_; }
  // The budget of all that peers cause: device.pinned_pool where that is pinned, otherwise limits.slab_budget.
  uint64_t budget() const;
  // The pool for requests, batches and answers, once: pinned where there is CUDA. Where it cannot be pinned it is not:
  // models on a GPU then do not load, or have pinned memory of their own.
  std::unique_ptr<device::SlabPool> make_pool(base::MemoryLedger& ledger);

  // Any thread; empty without NVML.
  std::vector<base::Gpu> latest() const;
  enum class Names : uint8_t { kOurs, kTritonsToo };
  void write_families(std::string& out, const device::SlabPool& pool, Names names);

 private:
  void pin();

  const Config& config_;
  device::Devices devices_;
  std::unique_ptr<device::GpuWatch> watch_;            // or null
  std::unique_ptr<device::SlabMemory> pinned_memory_;  // until make_pool()
  uint64_t pinned_ = 0;                                // bytes of it; 0: nothing is pinned
};

// Whether the process ends where a GPU is lost; kAuto: where something starts it anew, a service manager or a
// container. Within a process not every fault can be mended: libraries keep state of their own in the lost context.
bool ends_on_fault(device::DeviceOptions::OnFault setting, const ServiceNotifier& service);

// One line per device, or why there is none: for `weir check`.
std::string device_table(device::Devices& devices);
// {"available":false,"why":"…"} or {"available":true,"driver":"13.0","runtime":"13.0","devices":[…]}.
std::string cuda_json(device::Devices& devices);

}  // namespace weir::app
