// Types that the structs of all kernels name.
#pragma once

#include <cstdint>

namespace weir::llm::cuda {

using Bf16 = uint16_t;
using Code = int32_t;

struct Launch {
  int32_t device = 0;
  void* stream = nullptr;
};

}  // namespace weir::llm::cuda
