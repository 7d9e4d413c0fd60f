// A CUDA device, through the table of the module. Its primary context is shared with whatever else of this process uses
// CUDA; a restart resets it.
#pragma once

#include <map>
#include <mutex>

#include "device/cuda_module.h"
#include "device/device.h"

namespace weir::device {

class CudaDevice final : public Device {
 public:
  // `api` outlives this. Errors: UNAVAILABLE.
  static base::Result<std::unique_ptr<CudaDevice>> open(const cuda::Api& api, int32_t index);

  int32_t index() const { return index_; }
  bool pinned(const void* data, size_t bytes) const override;

  // For who calls the runtime beside this (kernels): turns its code into a Status, and a sticky one into a fault.
  base::Status status(cuda::Code code);

 private:
  CudaDevice(const cuda::Api& api, int32_t index, Info info);

  base::Result<void*> do_make(Kind kind, size_t bytes, Priority priority) override;
  void do_free(Kind kind, void* raw) override;
  base::Result<Memory> do_memory() override;
  base::Status do_copy(void* stream, Way way, std::span<const Copy> copies) override;
  base::Status do_record(void* event, void* stream) override;
  base::Status do_wait(void* stream, void* event) override;
  base::Result<Progress> do_progress(void* event) override;
  base::Status do_then(void* stream, Done& done) override;
  base::Status do_run(void* stream, Work work) override;
  base::Status do_capture(void* stream) override;
  base::Result<void*> do_captured(void* stream) override;
  base::Status do_launch(void* stream, void* graph) override;
  base::Status do_pin(std::byte* data, size_t bytes) override;
  void do_unpin(std::byte* data, size_t bytes) override;
  base::Status do_restart() override;

  const cuda::Api& api_;
  const int32_t index_;
  mutable std::mutex pins_mutex_;
  std::map<std::byte*, size_t> pins_;  // under pins_mutex_
};

}  // namespace weir::device
