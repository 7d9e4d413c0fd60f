#include "device/groups.h"

namespace weir::device {

base::Result<std::shared_ptr<void>> Groups::take(const std::vector<Device*>& devices, const std::string& model) {
  if (devices.size() < 2) return std::shared_ptr<void>();
  std::lock_guard lock(mutex_);
  for (const Device* device : devices) {
    auto taken = taken_.find(device);
    if (taken == taken_.end()) continue;
    const std::string text = device->info().id + " computes model '" + taken->second +
                             "' together with other devices: it can be in one such group at a time";
    return taken->second == model ? base::try_again(base::Code::kResourceExhausted, text)
                                  : base::failure(base::Code::kFailedPrecondition, text);
  }
  for (const Device* device : devices) taken_.emplace(device, model);
  return std::shared_ptr<void>(nullptr, [this, devices](void*) {
    std::lock_guard lock(mutex_);
    for (const Device* device : devices) taken_.erase(device);
  });
}

}  // namespace weir::device
