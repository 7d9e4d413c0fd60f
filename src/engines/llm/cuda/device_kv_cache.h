// DeviceKvCache: keys and values of all layers on a device, in blocks: of a layer [slots][kv_heads][dim] each, keys
// first.
#pragma once

#include <cstdint>

#include "engines/llm/cuda/kernel_queue.h"
#include "engines/llm/load/shape.h"

namespace weir::llm::cuda {

class DeviceKvCache {
 public:
  explicit DeviceKvCache(const Shape& shape) : layers_(shape.layers), slot_(size_t(shape.kv_heads) * shape.head_dim) {}

  size_t bytes(size_t positions) const { return positions * layers_ * 2 * slot_ * sizeof(Bf16); }
  // Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE.
  base::Status reserve(device::Device& device, uint32_t blocks, uint32_t block_size);
  // The first `positions` of a block.
  base::Status copy_block(KernelQueue& queue, uint32_t from, uint32_t to, uint32_t positions);

  Bf16* keys(uint32_t layer) const { return reinterpret_cast<Bf16*>(memory_.data()) + size_t(2) * layer * cache(); }
  Bf16* values(uint32_t layer) const { return keys(layer) + cache(); }
  uint32_t blocks() const { return blocks_; }
  uint32_t block_size() const { return block_size_; }
  uint64_t slots() const { return uint64_t(blocks_) * block_size_; }

 private:
  size_t cache() const { return size_t(slots()) * slot_; }

  const uint32_t layers_;
  const size_t slot_;  // elements of a slot's keys
  uint32_t blocks_ = 0, block_size_ = 0;
  device::DeviceBuffer memory_;
};

}  // namespace weir::llm::cuda
