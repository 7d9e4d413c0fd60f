// How many bytes one connection may write in one turn of its shard's loop, so that one large response does not delay
// the small ones of other connections.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

namespace weir::net {

inline constexpr size_t kWrittenPerTurn = 512 << 10;  // bytes

// Cuts the first `count` of `pieces` to `budget` bytes, and `count` to those that are left. Returns their bytes.
inline size_t cut_to(std::span<iovec> pieces, size_t budget, size_t& count) {
  size_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    if (total + pieces[i].iov_len >= budget) {
      pieces[i].iov_len = budget - total;
      count = i + 1;
      return budget;
    }
    total += pieces[i].iov_len;
  }
  return total;
}

}  // namespace weir::net
