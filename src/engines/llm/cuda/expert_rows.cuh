// Where the weight of a product by expert (expert_kernels.h) has its rows.
#pragma once

#include "engines/llm/cuda/kernels.h"
#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {

template <ExpertMatmul::Into kInto>
constexpr uint32_t kRowsOf = kInto == ExpertMatmul::kSwiGlu ? 2 : 1;  // of a weight, for an output

// The first row of an expert.
template <ExpertMatmul::Into kInto>
__device__ uint32_t row_of_expert(const ExpertMatmul& a, uint32_t expert) {
  return min(expert, a.count - 1) * kRowsOf<kInto> * a.outputs;
}

// The row of an expert that is column `column` of a tile whose first output is `first`; kNoIndex: there is none. Rows
// of gates and of `up` lie in turns of eight, so that a thread has both of a place.
template <ExpertMatmul::Into kInto>
__device__ uint32_t row_of_column(const ExpertMatmul& a, uint32_t first, uint32_t column) {
  constexpr bool kGates = kRowsOf<kInto> == 2;
  const uint32_t output = first + (kGates ? column / 16 * 8 + column % 8 : column);
  if (output >= a.outputs) return kNoIndex;
  return output + (kGates ? column / 8 % 2 : 0) * a.outputs;
}

}  // namespace weir::llm::cuda
