#include "generation/lane_masks.h"

#include "base/attempt.h"

namespace weir::generation {

void LaneMasks::begin(const TokenStep& step) {
  (void)base::attempt("masks of a step", [&] {
    constraints_.clear();
    for (const auto& request : step.logits_requests)
      if (request.kind == TokenStep::LogitsRequest::Kind::kSample && request.params->constraint)
        constraints_.push_back(request.params->constraint.get());
    if (constraints_.empty()) return;
    if (!worker_) worker_ = std::make_unique<base::Workers>(1);
    worker_->post([this] { find_all(); });
    std::lock_guard lock(mutex_);
    ++running_;
  });
}

void LaneMasks::find_all() {
  for (auto* constraint : constraints_) (void)base::attempt("a mask", [constraint] { constraint->prepare(); });
  std::lock_guard lock(mutex_);
  --running_;
  done_.notify_one();
}

void LaneMasks::end() {
  if (constraints_.empty()) return;  // as ever where no form is asked for
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
}

}  // namespace weir::generation
