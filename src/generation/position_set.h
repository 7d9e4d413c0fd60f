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

  void add(msg::PositionRange range);  // an empty range adds nothing
  bool empty() const { return all_.empty(); }
  bool has(uint32_t position) const;
  std::span<const msg::PositionRange> all() const { return all_; }

  // The first range; and removes its first `count` positions. The set must not be empty.
  msg::PositionRange front() const { return all_.front(); }
  void pop_front(uint32_t count);
  uint64_t size() const;  // positions

 private:
  std::vector<msg::PositionRange> all_;
};

}  // namespace weir::generation
