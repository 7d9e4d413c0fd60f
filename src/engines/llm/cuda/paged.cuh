// The parts that both attentions share: where keys and values of a position are, in blocks, which a sequence's table
// names, and in shared memory; and scores.
#pragma once

#include <cfloat>

#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {

constexpr float kNone = -FLT_MAX;  // the highest score where nothing was seen
constexpr float kLog2E = 1.44269504088896340736f;

// Element 8 * chunk of a row in shared memory. Pieces of 16 bytes change places by row, so that eight rows of one
// column lie in different banks; rows of 96 and 32 begin half a line apart already, those of 48 three quarters, and
// have no eight pieces at their end to change.
template <uint32_t kRow>
__device__ inline uint32_t swizzled(uint32_t row, uint32_t chunk) {
  return row * kRow + (chunk ^ (kRow == 96 || kRow == 32 ? row >> 1 & 3 : kRow == 48 ? row >> 2 & 1 : row & 7)) * 8;
}

// cap * tanh(x), of 2 x in units of log 2, which to_cap() makes of a score: the tangent is 1 - 2 / (1 + e^2x), also
// where that is 0 or endless.
__device__ inline float capped(float doubled, float cap) { return cap * (1.f - 2.f / (1.f + exp2f(doubled))); }
__device__ inline float to_cap(float scale, float cap) { return 2 * kLog2E * scale / cap; }

// The weight of a head's sink, where it has one, relative to `highest`.
__device__ inline float sink_weight(const float* sinks, uint32_t head, float highest) {
  return sinks ? exp2f(sinks[head] * kLog2E - highest) : 0.f;
}

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
