// Types that the structs of all kernels name.
#pragma once

#include <cstdint>

namespace weir::llm::cuda {

using Bf16 = uint16_t;
using Code = int32_t;

// The curves that products of a gate and of `up` go through together: silu(gate) * up; gate * Φ(gate) * up, Φ
// approximated with the hyperbolic tangent; gate * sigmoid(kGateSlope * gate) * (up + 1), the gate at most kGateLimit
// and `up` so far from 0 at most (gpt-oss).
enum class Gate : uint32_t { kSilu, kGeluTanh, kClamped };
inline constexpr float kGateSlope = 1.702f, kGateLimit = 7;

// How keys and values are kept (attention_kernels.h): as bfloat16, or as codes of a byte, whose largest number
// is one of these.
enum class KvCodes : uint32_t { kNone, kInt8, kFp8 };
inline constexpr float kMostInt8 = 127, kMostFp8 = 448;

struct Launch {
  int32_t device = 0;
  void* stream = nullptr;
};

}  // namespace weir::llm::cuda
