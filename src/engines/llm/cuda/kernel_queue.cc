#include "engines/llm/cuda/kernel_queue.h"

#include <bit>
#include <memory>
#include <utility>

namespace weir::llm::cuda {

using base::Status;

KernelQueue::KernelQueue(device::Device& device, const Kernels& kernels, std::chrono::nanoseconds patience)
    : device_(device), kernels_(kernels), patience_(patience), epoch_(device.epoch()), index_(device.info().index) {}

Status KernelQueue::open(device::Device::Priority priority) {
  auto stream = device_.stream(priority);
  if (!stream) return stream.error();
  stream_ = std::move(*stream);
  auto event = device_.event();
  if (!event) return event.error();
  idle_ = std::move(*event);
  auto status = device_.run(stream_, [this](void*) { return kernels_.load(index_); });
  return status.ok() ? drain() : status;
}

Status KernelQueue::open_products(std::byte* workspace) {
  auto code = std::make_shared<Code>(0);
  auto opened = device_.run(
      stream_, [this, code, workspace](void*) { return *code = kernels_.matmul_open(index_, workspace, &matmuls_); });
  if (opened.ok()) opened = drain();
  if (*code != Code(kNoLibrary)) return opened;
  return base::failure(base::Code::kFailedPrecondition,
                       "libcublasLt.so is not there, or of another version than this build's");
}

void KernelQueue::close() {
  if (lost() || !stream_ || !drain().ok() || !matmuls_) return;
  kernels_.matmul_close(std::exchange(matmuls_, nullptr));
}

Status KernelQueue::multiply(const Bf16* x, uint32_t rows, const DeviceMatrix& weight, const float* bias,
                             uint32_t outputs, uint32_t inputs, void* out, Matmul::Into into, float scale) {
  Matmul a{x, weight, bias, out, rows, outputs, inputs, into, timed_, scale};
  return device_.run(stream_, [kernel = kernels_.matmul, matmuls = matmuls_, a, index = index_](void* stream) {
    return kernel({index, stream}, matmuls, a);
  });
}

Status KernelQueue::drain() {
  auto status = record(idle_);
  return status.ok() ? await(idle_) : status;
}

Status KernelQueue::fit(device::DeviceBuffer& buffer, size_t bytes) {
  if (bytes <= buffer.size()) return {};
  if (auto s = drain(); !s.ok()) return s;
  buffer = device::DeviceBuffer();
  auto larger = device_.buffer(std::bit_ceil(bytes));
  if (!larger) return larger.error();
  buffer = std::move(*larger);
  return {};
}

Status KernelQueue::fit(device::PinnedBlock& block, size_t bytes) {
  if (bytes <= block.size()) return {};
  auto larger = device_.pin(std::bit_ceil(bytes));
  if (!larger) return larger.error();
  block = std::move(*larger);
  return {};
}

}  // namespace weir::llm::cuda
