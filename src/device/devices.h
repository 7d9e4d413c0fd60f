// Devices: the devices of this machine. Made once at start; outlives all that uses them, the slab pool included.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "device/buffer_pool.h"
#include "device/cuda_module.h"
#include "device/device.h"
#include "device/groups.h"
#include "device/slab_memory.h"

namespace weir::device {

struct DeviceOptions {
  enum class Use : uint8_t { kAuto, kOff } cuda = Use::kAuto;
  std::string module;                         // path of libweir_cuda.so; empty = looked for
  uint64_t batch_memory = uint64_t(2) << 30;  // per device, for the batches that run there
  // The server's answer to a lost device. kAuto: kExit where somebody starts it again (a service manager that it
  // tells of its state, or a container's: it is process 1), else kReload.
  enum class OnFault : uint8_t { kAuto, kExit, kReload } on_fault = OnFault::kAuto;
  uint32_t memory_share = 50;  // % of what is free, that a token model's keys and values take
};

class Devices {
 public:
  explicit Devices(const DeviceOptions& options);
  ~Devices();

  // OK, or why there is no CUDA: "no CUDA: libcuda.so.1 not found".
  const base::Status& cuda() const { return cuda_status_; }
  const CudaModule& module() const { return module_; }
  // Device::on_fault() of each CUDA device.
  void on_fault(const std::function<void(const base::Status&)>& told);
  size_t cuda_count() const { return cuda_.size(); }
  Device& cuda(size_t index) { return *cuda_[index]; }

  // `id`: "cuda" (the first), "cuda:1", "host"; for tests "fake" and "fake:1", which are made when first asked for. Any
  // thread. Errors: FAILED_PRECONDITION where there is no CUDA, NOT_FOUND for a number that no device has,
  // INVALID_ARGUMENT for any other word.
  base::Result<Device*> find(std::string_view id);

  // DeviceOptions::memory_share.
  uint32_t memory_share() const { return memory_share_; }

  // Those of these devices. Any thread.
  Groups& groups() { return groups_; }

  // The pool from which all engines on `device` (one of these) take the memory of their batches. Any thread.
  BufferPool& memory(Device& device);

  // Memory for a SlabPool of `bytes`: pinned for cuda:0 where there is CUDA, the system's otherwise. To another device
  // that memory is not pinned, so engines there have pinned pools of their own. Errors: RESOURCE_EXHAUSTED when it
  // cannot be pinned; pageable memory does not take its place.
  base::Result<std::unique_ptr<SlabMemory>> slab_memory(uint64_t bytes);

 private:
  Device* fake(size_t index);

  base::Status cuda_status_;
  CudaModule module_;
  std::vector<std::unique_ptr<Device>> cuda_;
  std::unique_ptr<Device> host_;
  const uint64_t batch_memory_;
  const uint32_t memory_share_;
  Groups groups_;
  std::mutex mutex_;
  std::map<size_t, std::unique_ptr<Device>> fakes_;        // under mutex_
  std::map<Device*, std::unique_ptr<BufferPool>> memory_;  // under mutex_; destroyed before the devices
};

}  // namespace weir::device
