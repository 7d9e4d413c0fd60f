#include "device/arena.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace weir::device {

Arena::Arena(uint64_t bytes) : size_(bytes) {
  if (bytes > 0) free_.emplace(0, bytes);
}

std::optional<uint64_t> Arena::take(uint64_t bytes, uint64_t align, End end) {
  if (bytes == 0 || bytes > size_) return std::nullopt;
  if (end == End::kLow) {
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      uint64_t at = (range->first + align - 1) & ~(align - 1);
      if (at < range->first || at - range->first > range->second || range->second - (at - range->first) < bytes)
        continue;
      cut(range, at, bytes);
      return at;
    }
    return std::nullopt;
  }
  for (auto range = free_.rbegin(); range != free_.rend(); ++range) {
    if (range->second < bytes) continue;
    uint64_t at = (range->first + range->second - bytes) & ~(align - 1);
    if (at < range->first) continue;
    cut(std::prev(range.base()), at, bytes);
    return at;
  }
  return std::nullopt;
}

void Arena::cut(Ranges::iterator range, uint64_t offset, uint64_t bytes) {
  auto [from, size] = *range;
  free_.erase(range);
  if (offset > from) free_.emplace(from, offset - from);
  if (uint64_t end = offset + bytes, last = from + size; last > end) free_.emplace(end, last - end);
  taken_ += bytes;
}

void Arena::give(uint64_t offset, uint64_t bytes) {
  base::check(bytes > 0 && bytes <= taken_ && offset <= size_ - bytes, "a range goes back to the arena it came from");
  auto after = free_.lower_bound(offset);
  base::check(after == free_.end() || offset + bytes <= after->first, "a range comes back once");
  taken_ -= bytes;
  if (after != free_.end() && offset + bytes == after->first) {
    bytes += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    auto before = std::prev(after);
    base::check(before->first + before->second <= offset, "a range comes back once");
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(offset, bytes);
}

uint64_t Arena::largest() const {
  uint64_t most = 0;
  for (const auto& [offset, bytes] : free_) most = std::max(most, bytes);
  return most;
}

}  // namespace weir::device
