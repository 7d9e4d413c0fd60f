// Where keys and values of a position are: in blocks, which a sequence's table names.
#pragma once

#include <cfloat>

#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {

constexpr float kNone = -FLT_MAX;  // the highest score where nothing was seen
constexpr float kLog2E = 1.44269504088896340736f;

struct Pages {
  const uint32_t* table;
  uint32_t size, shift;  // shift: where the size is a power of two

  __device__ Pages(const uint32_t* entries, uint32_t block_size) : table(entries), size(block_size) {
    shift = size & (size - 1) ? 32 : 31 - __clz(int(size));
  }

  __device__ size_t slot(uint32_t position) const {
    if (shift < 32) return (size_t(table[position >> shift]) << shift) + (position & (size - 1));
    return size_t(table[position / size]) * size + position % size;
  }
};

}  // namespace weir::llm::cuda
