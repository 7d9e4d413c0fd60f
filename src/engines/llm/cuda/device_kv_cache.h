// DeviceKvCache: keys and values of all layers on a device, in blocks: of a layer [slots][kv_heads][dim] each, keys
// first. As codes (KvCodes) they take a byte each, and behind all layers are their scales: of a layer
// [slots][kv_heads][2].
#pragma once

#include <cstdint>

#include "engines/llm/cuda/kernel_queue.h"
#include "engines/llm/load/shape.h"

namespace weir::llm::cuda {

class DeviceKvCache {
 public:
  DeviceKvCache(const Shape& shape, KvCodes codes)
      : codes_(codes),
        layers_(shape.layers),
        slot_(size_t(shape.kv_heads) * shape.head_dim * (codes == KvCodes::kNone ? sizeof(Bf16) : 1)),
        scales_(codes == KvCodes::kNone ? 0 : size_t(shape.kv_heads) * 2 * sizeof(float)) {}

  size_t bytes(size_t positions) const { return positions * layers_ * (2 * slot_ + scales_); }
  // Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE.
  base::Status reserve(device::Device& device, uint32_t blocks, uint32_t block_size);
  // The first `positions` of a block.
  base::Status copy_block(KernelQueue& queue, uint32_t from, uint32_t to, uint32_t positions);

  KvCodes codes() const { return codes_; }
  // Those of one layer; codes are a byte for each number.
  Bf16* keys(uint32_t layer) const { return at<Bf16>(size_t(2) * layer * slot_); }
  Bf16* values(uint32_t layer) const { return at<Bf16>((size_t(2) * layer + 1) * slot_); }
  float* scales(uint32_t layer) const { return at<float>(size_t(2) * layers_ * slot_ + layer * scales_); }
  uint32_t blocks() const { return blocks_; }
  uint32_t block_size() const { return block_size_; }
  uint64_t slots() const { return uint64_t(blocks_) * block_size_; }

 private:
  // Behind so many bytes of each slot.
  template <class T>
  T* at(size_t before) const {
    return reinterpret_cast<T*>(memory_.data() + slots() * before);
  }

  const KvCodes codes_;
  const uint32_t layers_;
  const size_t slot_, scales_;  // bytes of a slot's keys in one layer; of the scales of its keys and values
  uint32_t blocks_ = 0, block_size_ = 0;
  device::DeviceBuffer memory_;
};

}  // namespace weir::llm::cuda
