// GrowingBlock: a slab that is being filled, and that moves into a larger one a part at a time, so that no turn of a
// loop copies for long. Memory that nobody has touched is made while it is copied to, which costs more than the copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/bytes.h"

namespace weir::wire {

// How many bytes move in one turn of a loop: 0.3 to 1 ms. One huge page, the memory that the system makes at a time.
inline constexpr size_t kMovedSlice = size_t(2) << 20;

class GrowingBlock {
 public:
  explicit operator bool() const { return bool(block_); }
  // Where the next byte goes: elsewhere once move() has ended.
  std::byte* end() { return block_.data() + block_.size(); }
  void append(const void* from, size_t n) { block_.append(from, n); }
  void filled(size_t n) { block_.resize(block_.size() + n); }
  base::Bytes freeze() { return block_.freeze(); }

  size_t size() const { return block_.size(); }
  size_t room() const { return block_.room(); }
  // The slab that is being filled.
  size_t capacity() const { return block_.capacity(); }
  // All memory that is held.
  size_t held() const { return block_.capacity() + wider_.capacity(); }

  // Begins to move into `slab`, which is larger; move() does it.
  void widen(base::Slab* slab) { wider_ = base::Block(slab); }
  bool moving() const { return bool(wider_); }
  // Copies up to `most` bytes and says how many it has copied. It is no longer moving() once all are there.
  size_t move(size_t most) {
    const size_t n = std::min(most, block_.size() - wider_.size());
    if (n > 0) wider_.append(block_.data() + wider_.size(), n);
    if (wider_.size() == block_.size()) block_ = std::exchange(wider_, {});
    return n;
  }
  void clear() { block_ = {}, wider_ = {}; }

 private:
  base::Block block_;
  base::Block wider_;  // with the first bytes of block_; empty unless moving()
};

}  // namespace weir::wire
