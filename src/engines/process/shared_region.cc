#include "engines/process/shared_region.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace weir::process {

base::Status SharedRegion::make(Child& child, uint64_t bytes) {
  auto made = Region::make(std::max({bytes, used_, kFirst}), ledger_);
  if (!made) return made.error();
  region_ = std::move(*made);
  return child.send({.type = type_, .size = region_.size()}, region_.fd());
}

// Sizes are powers of two.
void SharedRegion::shrink(Child& child) {
  const uint64_t used = std::max(std::exchange(used_, 0), kFirst);
  if (std::bit_ceil(used) < region_.size()) (void)make(child, used);
}

}  // namespace weir::process
