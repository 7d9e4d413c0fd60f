#include "models/model_waits.h"

namespace weir::models {

std::shared_ptr<const void> ModelWaits::begin(const std::string& model, const std::string& other) const {
  Waits::iterator wait;
  {
    std::lock_guard lock(noted_->mutex);
    wait = noted_->waits.emplace(model, other);
  }
  return {&*wait, [noted = noted_, wait](const void*) {
            std::lock_guard lock(noted->mutex);
            noted->waits.erase(wait);
          }};
}

ModelWaits::Waits ModelWaits::now() const {
  std::lock_guard lock(noted_->mutex);
  return noted_->waits;
}

}  // namespace weir::models
