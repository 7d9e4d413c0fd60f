// A copy between host and device. Standard library only: .cu files see this too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::device {

enum class Way : int32_t { kToDevice, kToHost, kOnDevice };

struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
};

}  // namespace weir::device
