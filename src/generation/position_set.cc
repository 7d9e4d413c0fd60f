#include "generation/position_set.h"

#include <algorithm>

namespace weir::generation {

using msg::PositionRange;

PositionSet::PositionSet(std::span<const PositionRange> ranges) : all_(ranges.begin(), ranges.end()) {
  msg::merge(all_);
}

void PositionSet::add(PositionRange range) {
  all_.push_back(range);
  msg::merge(all_);
}

bool PositionSet::has(uint32_t position) const {
  auto after = std::upper_bound(all_.begin(), all_.end(), position, [](uint32_t p, auto r) { return p < r.start; });
  return after != all_.begin() && std::prev(after)->has(position);
}

void PositionSet::pop_front(uint32_t count) {
  auto& first = all_.front();
  first.start += count;
  if (first.start >= first.end) all_.erase(all_.begin());
}

uint64_t PositionSet::size() const {
  uint64_t n = 0;
  for (auto range : all_) n += range.end - range.start;
  return n;
}

}  // namespace weir::generation
