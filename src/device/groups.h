// Groups: which devices compute a model together with others. A device is in one group at a time: operations in which
// two groups meet on the same devices would have to reach all of these in one order, or each waits for the other.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"

namespace weir::device {

class Groups {
 public:
  // Takes the devices for a group of `model` until the result is destroyed, before this is; null for one alone, which
  // is no group. Errors, where one of them is taken: RESOURCE_EXHAUSTED, worth another try, by the same model, which
  // may be on its way out; FAILED_PRECONDITION by another.
  base::Result<std::shared_ptr<void>> take(const std::vector<Device*>& devices, const std::string& model);

 private:
  std::mutex mutex_;
  std::map<const Device*, std::string> taken_;  // by which model; under mutex_
};

}  // namespace weir::device
