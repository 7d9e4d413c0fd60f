// Arena: which parts of one fixed block are taken. Pure bookkeeping of offsets; who owns the block is not its business.
//
// Ranges that are free and touch are one. Small things go to the low end and large ones to the high end, so that a few
// small ones that stay for long do not cut the block into pieces that nothing large fits into. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace weir::device {

class Arena {
 public:
  enum class End : uint8_t { kLow, kHigh };

  explicit Arena(uint64_t bytes);

  // The offset of `bytes` (not 0) bytes, a multiple of `align` (a power of two). Nothing when no free range holds them.
  std::optional<uint64_t> take(uint64_t bytes, uint64_t align, End end);
  // A range that take() gave, whole.
  void give(uint64_t offset, uint64_t bytes);

  uint64_t size() const { return size_; }
  uint64_t taken() const { return taken_; }
  uint64_t largest() const;  // of the free ranges

 private:
  using Ranges = std::map<uint64_t, uint64_t>;  // offset -> bytes
  void cut(Ranges::iterator range, uint64_t offset, uint64_t bytes);

  uint64_t size_;
  uint64_t taken_ = 0;
  Ranges free_;
};

}  // namespace weir::device
