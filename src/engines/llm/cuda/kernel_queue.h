// KernelQueue: a stream of a device. Kernels, matrix products and copies are queued on it, and waited for. Used by one
// thread at a time.
//
// Nothing is waited for on a device that has a fault; its work may still write to its memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "device/await.h"
#include "device/device.h"
#include "engines/llm/cuda/kernels.h"

namespace weir::llm::cuda {

class KernelQueue {
 public:
  // `device` and `kernels` outlive it. `patience`: how long the device may take before it counts as hung.
  KernelQueue(device::Device& device, const Kernels& kernels, std::chrono::nanoseconds patience = device::kPatience);
  KernelQueue(const KernelQueue&) = delete;

  // Makes the stream, and loads the kernels.
  base::Status open(device::Device::Priority priority);
  // Opens the library for products of matrices; `workspace` has kWorkspace bytes on the device. Errors: also
  // FAILED_PRECONDITION (no such library).
  base::Status open_products(std::byte* workspace);
  // Waits for what is queued, before the memory that it writes to is freed.
  void close();

  template <class A>
  base::Status launch(Code (*kernel)(const Launch&, const A&), const A& a) {
    return device_.run(stream_, [kernel, a, index = index_](void* stream) { return kernel({index, stream}, a); });
  }
  // out = scale * x * weight^T + bias: x [rows][inputs], weight [outputs][inputs].
  base::Status multiply(const Bf16* x, uint32_t rows, const DeviceMatrix& weight, const float* bias, uint32_t outputs,
                        uint32_t inputs, void* out, Matmul::Into into, float scale = 1);
  // Calls `work`, whose products are `timed` (kernels.h): while a model loads.
  template <class Work>
  base::Status time_products(Work work) {
    timed_ = true;
    auto status = work();
    timed_ = false;
    return status;
  }
  base::Status copy(device::Way way, std::span<const device::Copy> copies) {
    return device_.copy(stream_, way, copies);
  }
  base::Status copy(device::Way way, const device::Copy& one) { return copy(way, {&one, 1}); }

  // The collectives of the device's rank, where several compute a model together; null: it computes one alone, and they
  // do nothing.
  void join(Communicator* communicator, uint32_t rank) { communicator_ = communicator, rank_ = rank; }
  bool is_first_rank() const { return rank_ == 0; }
  base::Status all_reduce(float* values, size_t count) {
    return communicator_ ? collective(kernels_.collectives->all_reduce, values, count) : base::Status();
  }
  base::Status broadcast(float* values, size_t count) {
    return communicator_ ? collective(kernels_.collectives->broadcast, values, count) : base::Status();
  }

  base::Status record(device::Event& event) { return device_.record(event, stream_); }
  base::Status await(const device::Event& event) { return device::await(device_, event, patience_); }
  // Waits until all that is queued is done.
  base::Status drain();

  // Grows it to at least so many bytes, a power of two; what was in it is lost. A buffer that grows drains the queue
  // first.
  base::Status fit(device::DeviceBuffer& buffer, size_t bytes);
  base::Status fit(device::PinnedBlock& block, size_t bytes);

  // The device has a fault, or was restarted since this was made.
  bool lost() const { return !device_.fault().ok() || device_.epoch() != epoch_; }
  device::Device& device() { return device_; }
  const device::Stream& stream() const { return stream_; }
  const Kernels& kernels() const { return kernels_; }

 private:
  using Collective = Code (*)(const Launch&, Communicator*, float* values, size_t count);
  base::Status collective(Collective what, float* values, size_t count) {
    return device_.run(stream_, [what, with = communicator_, values, count, index = index_](void* stream) {
      return what({index, stream}, with, values, count);
    });
  }

  device::Device& device_;
  const Kernels& kernels_;
  const std::chrono::nanoseconds patience_;
  const uint32_t epoch_;
  const int index_;  // of the device
  device::Stream stream_;
  device::Event idle_;
  Matmuls* matmuls_ = nullptr;
  Communicator* communicator_ = nullptr;
  uint32_t rank_ = 0;
  bool timed_ = false;
};

}  // namespace weir::llm::cuda
