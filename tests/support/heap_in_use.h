// Bytes that this process has from malloc, where malloc is the C library's own: a sanitizer's says 0, and finds leaks
// by itself.
#pragma once

#include <malloc.h>

#include <cstddef>

namespace weir::support {

inline size_t heap_in_use() {
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace weir::support
