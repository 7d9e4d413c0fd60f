// Size classes of slabs: 64, 128, 192, 256 bytes, then four steps per doubling, so that no more than a fifth of a slab
// is lost; from 2 MiB on whole huge pages.
#pragma once

#include <bit>
#include <cstddef>

namespace weir::device {

inline constexpr size_t kHugePage = size_t(2) << 20;
inline constexpr size_t kLargestSlab = size_t(1) << 40;

struct SizeClass {
  size_t index;
  size_t bytes;
};

constexpr SizeClass size_class(size_t bytes) {
  if (bytes <= 256) {
    size_t steps = bytes == 0 ? 1 : (bytes + 63) / 64;
    return {steps - 1, steps * 64};
  }
  if (bytes > kHugePage) bytes = (bytes + kHugePage - 1) & ~(kHugePage - 1);
  int doubling = std::bit_width(bytes - 1) - 1;  // 2^doubling < bytes <= 2^(doubling + 1)
  size_t step = size_t(1) << (doubling - 2);
  size_t steps = (bytes - (size_t(1) << doubling) + step - 1) / step;  // 1 … 4
  return {size_t(doubling - 8) * 4 + 3 + steps, (size_t(1) << doubling) + steps * step};
}

inline constexpr size_t kSizeClasses = size_class(kLargestSlab).index + 1;

}  // namespace weir::device
