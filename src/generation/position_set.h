// PositionSet: a set of positions, as merged ascending ranges.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "msg/generate.h"

namespace weir::generation {

class PositionSet {
 public:
  PositionSet() = default;
  explicit PositionSet(std::span<const msg::PositionRange> ranges);

  void add(msg::PositionRange range);  // nothing when it is empty
  bool empty() const { return all_.empty(); }
  bool has(uint32_t position) const;
  std::span<const msg::PositionRange> all() const { return all_; }

  // As a queue of positions: the first range, and taking `count` positions off its front.
  msg::PositionRange front() const { return all_.front(); }
  void take(uint32_t count);
  uint64_t size() const;  // positions

 private:
  std::vector<msg::PositionRange> all_;
};

}  // namespace weir::generation
