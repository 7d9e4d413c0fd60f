#include "net/retired.h"

#include <chrono>

namespace weir::net {

void Retired::release_some(base::Duration time) {
  constexpr size_t kPart = 32;
  const base::Time until = std::chrono::steady_clock::now() + time;
  for (size_t least = line_.size() / kPart + 1; !line_.empty(); least -= least > 0) {
    if (least == 0 && std::chrono::steady_clock::now() >= until) break;
    release_one();
  }
  free_resting();
}

void Retired::release_all() {
  while (!line_.empty()) release_one();
  free_resting();
}

void Retired::release_one() {
  released_.push_back(std::move(line_.front()));
  line_.pop_front();
  released_.back()->release();
}

void Retired::free_resting() {
  std::erase_if(released_, [](const auto& one) { return one->at_rest(); });
}

}  // namespace weir::net
