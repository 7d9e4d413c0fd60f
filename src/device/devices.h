// Devices: what this machine has. Made once at start, before anything that uses it; outlives the slab pool, too.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "device/buffer_pool.h"
#include "device/cuda_module.h"
#include "device/device.h"
#include "device/slab_memory.h"

namespace weir::device {

struct DeviceOptions {
  enum class Use : uint8_t { kAuto, kOff } cuda = Use::kAuto;
  std::string module;                         // path of libweir_cuda.so; empty = looked for
  uint64_t batch_memory = uint64_t(2) << 30;  // per device, of batches that are under way
};

class Devices {
 public:
  explicit Devices(const DeviceOptions& options);
  ~Devices();

  // OK, or why there is no CUDA: "no CUDA: libcuda.so.1 not found".
  const base::Status& cuda() const { return cuda_status_; }
  const CudaModule& module() const { return module_; }
  size_t cuda_count() const { return cuda_.size(); }
  Device& cuda(size_t index) { return *cuda_[index]; }

  // "cuda" (the first), "cuda:1", "host", "fake" and "fake:1" (tests; made when first asked for). Any thread. Errors:
  // FAILED_PRECONDITION where there is no CUDA, NOT_FOUND for a number beyond, INVALID_ARGUMENT for another word.
  base::Result<Device*> find(std::string_view id);

  // The memory of `device`, one of these, for its batches: of all engines together. Any thread.
  BufferPool& memory(Device& device);

  // Memory for a SlabPool of `bytes`: pinned for cuda:0, the system's where there is none. Other devices know what they
  // have pinned themselves: their engines have pools of their own. Errors:
  // RESOURCE_EXHAUSTED when it cannot be pinned: never pageable memory instead.
  base::Result<std::unique_ptr<SlabMemory>> slab_memory(uint64_t bytes);

 private:
  Device* fake(size_t index);

  base::Status cuda_status_;
  CudaModule module_;
  std::vector<std::unique_ptr<Device>> cuda_;
  std::unique_ptr<Device> host_;
  const uint64_t batch_memory_;
  std::mutex mutex_;
  std::map<size_t, std::unique_ptr<Device>> fakes_;        // under mutex_
  std::map<Device*, std::unique_ptr<BufferPool>> memory_;  // under mutex_; goes before the devices
};

}  // namespace weir::device
