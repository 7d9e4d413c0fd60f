#include "msg/generate.h"

#include <algorithm>

namespace weir::msg {

void merge(std::vector<PositionRange>& ranges) {
  std::erase_if(ranges, [](auto range) { return range.start >= range.end; });
  std::sort(ranges.begin(), ranges.end(), [](auto a, auto b) { return a.start < b.start; });
  size_t kept = 0;
  for (auto range : ranges)
    if (kept > 0 && range.start <= ranges[kept - 1].end)
      ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
    else
      ranges[kept++] = range;
  ranges.resize(kept);
}

}  // namespace weir::msg
