// KvCache: keys and values of all layers, in blocks.
//
// A block holds block_size positions of every layer and head: [layer][key head][tile], a tile being 16 positions' keys
// and values (kernels.h). So one block is one piece of memory, and copying or freeing it touches nothing else.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "engines/llm/cpu/kernels.h"
#include "engines/llm/cpu/memory.h"

namespace weir::llm {

// Keys and values of one position (`head_dim` floats each, a multiple of 16) into a tile; `place` counts modulo 16. In
// ascending order: the first of two neighbours clears the second's value, which an earlier owner may have left
// infinite.
void write_tile(WeightFormat form, uint32_t head_dim, uint32_t place, const float* key, const float* value,
                std::byte* tile);

// The same as bytes (KvFormat::kInt8 or kFp8), in any order. A vector is rounded to 127 steps of its largest number, or
// to E4M3 whose largest is that number; one that is not finite has a scale that is none either.
void write_byte_tile(WeightFormat form, KvFormat kept, uint32_t head_dim, uint32_t place, const float* key,
                     const float* value, std::byte* tile);

class KvCache {
 public:
  // `form`: that of the activations which attend to it.
  KvCache(WeightFormat form, KvFormat kept, uint32_t layers, uint32_t heads, uint32_t head_dim);

  // Bytes of `positions` positions, up to the next whole tile.
  size_t bytes(size_t positions) const;
  // Errors: INVALID_ARGUMENT (block_size is no multiple of 16), RESOURCE_EXHAUSTED.
  base::Status reserve(uint32_t blocks, uint32_t block_size);
  void copy(uint32_t from, uint32_t to, uint32_t positions);

  // Keys and values of one head at one slot; padded_dim() floats each. In ascending order within a sequence.
  void write(uint32_t layer, uint32_t head, uint32_t slot, const float* key, const float* value);

  KvFormat kept() const { return kept_; }
  uint32_t padded_dim() const { return padded_; }
  uint32_t block_size() const { return block_size_; }
  uint32_t blocks() const { return blocks_; }
  size_t block_bytes() const { return block_bytes_; }
  std::span<const std::byte> memory() const { return {memory_.data(), memory_.size()}; }
  const std::byte* of(uint32_t layer, uint32_t head) const { return memory_.data() + offset(layer, head); }

 private:
  size_t offset(uint32_t layer, uint32_t head) const {
    return (size_t(layer) * heads_ + head) * (block_size_ / kTile) * tile_;
  }

  WeightFormat form_;
  KvFormat kept_;
  uint32_t layers_, heads_, padded_, blocks_ = 0, block_size_ = 0;
  size_t tile_, block_bytes_ = 0;
  Memory memory_;
};

}  // namespace weir::llm
