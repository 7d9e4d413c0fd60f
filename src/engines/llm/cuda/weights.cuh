// How a warp reads rows of a weight for products with few rows: a lane takes eight inputs at a time, 16 bytes, and
// several steps are on their way together. Warps that share a row's inputs join their sums.
#pragma once

#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {

constexpr uint32_t kPer = 8, kStep = kPer * kWarp;  // the inputs of a lane in a step, and of its warp

// Input `i` of each row and what the next kAtOnce - 1 steps take of it; what is past `inputs` is left as it is. They are
// read once.
template <uint32_t kAtOnce, uint32_t kOutputs>
__device__ void load_weights(uint4 (&to)[kAtOnce][kOutputs], const Bf16* const (&weight)[kOutputs], uint32_t i,
                             uint32_t inputs) {
#pragma unroll
  for (uint32_t s = 0; s < kAtOnce; ++s)
#pragma unroll
    for (uint32_t o = 0; o < kOutputs; ++o)
      if (i + s * kStep < inputs) to[s][o] = __ldcs(reinterpret_cast<const uint4*>(weight[o] + i + s * kStep));
}

// The sums of a team, kSplit of a block's kWarps, become one, in order, in each of its warps. Lane l of each has sum l.
template <uint32_t kWarps, uint32_t kSplit, uint32_t kSums>
__device__ float join_team(float mine) {
  if constexpr (kSplit == 1) {
    return mine;
  } else {
    __shared__ float sums[kWarps][kSums];
    uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    if (lane < kSums) sums[warp][lane] = mine;
    __syncthreads();
    float all = 0;
    for (uint32_t i = 0; i < kSplit && lane < kSums; ++i) all += sums[warp / kSplit * kSplit + i][lane];
    return all;
  }
}

}  // namespace weir::llm::cuda
