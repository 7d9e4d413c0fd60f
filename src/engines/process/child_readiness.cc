#include "engines/process/child_readiness.h"

#include <utility>

#include "base/encoding.h"

namespace weir::process {

void ChildReadiness::ask(Done done) {
  std::string why;
  {
    std::lock_guard lock(mutex_);
    if (!over_.empty())
      why = over_;
    else if (waiting_.size() >= kMostWaiting)
      why = "too many ask whether model '" + model_ + "' is ready";
    else if (!under_way_ && !send_(number_ + 1))
      why = "the process of model '" + model_ + "' does not read what it is asked";
    if (why.empty()) {
      if (!std::exchange(under_way_, true)) ++number_;
      waiting_.push_back(std::move(done));
      return;
    }
  }
  done(std::move(why));
}

void ChildReadiness::answered(uint64_t number, bool ready, std::string_view why_not) {
  Waiting waiting;
  {
    std::lock_guard lock(mutex_);
    if (!under_way_ || number != number_) return;
    under_way_ = false;
    waiting.swap(waiting_);
  }
  why_not = base::cut_text(why_not, kLongestWhy);
  tell(waiting,
       ready ? "" : "model '" + model_ + "' is not ready" + (why_not.empty() ? "" : ": ") + std::string(why_not));
}

void ChildReadiness::end(std::string_view why) {
  Waiting waiting;
  std::string text;
  {
    std::lock_guard lock(mutex_);
    if (over_.empty()) over_ = why;
    under_way_ = false;
    waiting.swap(waiting_);
    text = over_;
  }
  tell(waiting, text);
}

void ChildReadiness::tell(const Waiting& waiting, const std::string& why_not) {
  for (const Done& done : waiting) done(why_not);
}

}  // namespace weir::process
