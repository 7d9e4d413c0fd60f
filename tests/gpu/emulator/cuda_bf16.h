// The emulator's: what the kernels use of CUDA's cuda_bf16.h.
#pragma once

#include "cuda_runtime.h"
#include "engines/llm/cuda/bf16.h"

struct __nv_bfloat16 {
  uint16_t bits;
};
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return {weir::llm::cuda::narrow_bf16(value)}; }
inline uint16_t __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
