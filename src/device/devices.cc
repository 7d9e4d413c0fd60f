#include "device/devices.h"

#include <charconv>

#include "device/cuda_device.h"
#include "device/fake_device.h"
#include "device/host_device.h"

namespace weir::device {

using base::Code;
using base::failure;

Devices::Devices(const DeviceOptions& options) : host_(std::make_unique<HostDevice>()) {
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

base::Result<Device*> Devices::find(std::string_view id) {
  if (id == "host") return host_.get();
  if (id == "fake") {
    std::lock_guard lock(mutex_);
    if (!fake_) fake_ = std::make_unique<FakeDevice>(FakeDevice::Drive::kThread, uint64_t(1) << 30);
    return fake_.get();
  }
  size_t index = 0;
  if (id != "cuda") {
    auto number = id.starts_with("cuda:") ? id.substr(5) : std::string_view();
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (number.empty() || error != std::errc() || end != number.data() + number.size())
      return base::invalid("device \"" + std::string(id) + "\": expected cuda, cuda:N or host");
  }
  if (!cuda_status_.ok()) return cuda_status_;
  if (index >= cuda_.size())
    return failure(Code::kNotFound,
                   "there is no device " + std::string(id) + ": the last is cuda:" + std::to_string(cuda_.size() - 1));
  return cuda_[index].get();
}

base::Result<std::unique_ptr<SlabMemory>> Devices::slab_memory(uint64_t bytes) {
  if (cuda_.empty()) return system_memory();
  auto block = cuda_.front()->pin(bytes);
  if (!block) return block.error();
  return block_memory(std::move(*block));
}

}  // namespace weir::device
