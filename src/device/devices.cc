#include "device/devices.h"

#include <algorithm>
#include <charconv>

#include "device/cuda_device.h"
#include "device/fake_device.h"
#include "device/host_device.h"

namespace weir::device {

using base::Code;
using base::failure;

namespace {

constexpr size_t kMostFakes = 16;

}  // namespace

Devices::Devices(const DeviceOptions& options)
    : host_(std::make_unique<HostDevice>()), batch_memory_(options.batch_memory), memory_share_(options.memory_share) {
  if (options.cuda == DeviceOptions::Use::kOff) {
    cuda_status_ = failure(Code::kFailedPrecondition, "no CUDA: it is switched off");
    return;
  }
  auto module = open_cuda(module_places(options.module));
  if (!module) {
    cuda_status_ = module.error();
    return;
  }
  module_ = *module;
  for (int32_t i = 0; i < module_.devices; ++i) {
    auto device = CudaDevice::open(*module_.api, i);
    if (!device) {
      cuda_status_ = device.error();
      cuda_.clear();
      return;
    }
    cuda_.push_back(std::move(*device));
  }
}

Devices::~Devices() = default;

void Devices::on_fault(const std::function<void(const base::Status&)>& told) {
  for (auto& device : cuda_) device->on_fault(told);
}

base::Result<Device*> Devices::find(std::string_view id) {
  if (id == "host") return host_.get();
  auto colon = std::min(id.find(':'), id.size());
  auto kind = id.substr(0, colon), number = id.substr(colon);
  size_t index = 0;
  if (!number.empty()) {
    number.remove_prefix(1);
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (number.empty() || error != std::errc() || end != number.data() + number.size()) kind = {};
  }
  if (kind == "fake" && index < kMostFakes) return fake(index);
  if (kind != "cuda") return base::invalid("device \"" + std::string(id) + "\": expected cuda, cuda:N or host");
  if (!cuda_status_.ok()) return cuda_status_;
  if (index >= cuda_.size())
    return failure(Code::kNotFound,
                   "there is no device " + std::string(id) + ": the last is cuda:" + std::to_string(cuda_.size() - 1));
  return cuda_[index].get();
}

Device* Devices::fake(size_t index) {
  std::lock_guard lock(mutex_);
  auto& fake = fakes_[index];
  if (!fake) fake = std::make_unique<FakeDevice>(FakeDevice::Drive::kThread, uint64_t(1) << 30, index);
  return fake.get();
}

BufferPool& Devices::memory(Device& device) {
  std::lock_guard lock(mutex_);
  auto& pool = memory_[&device];
  if (!pool) pool = std::make_unique<BufferPool>(device, batch_memory_);
  return *pool;
}

base::Result<std::unique_ptr<SlabMemory>> Devices::slab_memory(uint64_t bytes) {
  if (cuda_.empty()) return system_memory();
  auto block = cuda_.front()->pin(bytes);
  if (!block) return block.error();
  return block_memory(std::move(*block));
}

}  // namespace weir::device
