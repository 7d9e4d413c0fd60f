#include "engines/llm/cuda/device_kv_cache.h"

#include <string>
#include <utility>
#include <vector>

namespace weir::llm::cuda {

base::Status DeviceKvCache::reserve(device::Device& device, uint32_t blocks, uint32_t block_size) {
  const uint64_t slots = uint64_t(blocks) * block_size;
  if (slots >= kNoSlot) return base::invalid("too many blocks of keys and values");
  auto buffer = device.buffer(bytes(slots));
  if (!buffer)
    return base::failure(buffer.error().code,
                         std::to_string(bytes(slots)) + " bytes of kv_cache: " + buffer.error().text);
  memory_ = std::move(*buffer);
  blocks_ = blocks, block_size_ = block_size;
  return {};
}

base::Status DeviceKvCache::copy_block(KernelQueue& queue, uint32_t from, uint32_t to, uint32_t positions) {
  std::vector<device::Copy> copies;
  auto add = [&](void* of, size_t slot) {
    auto* base = static_cast<std::byte*>(of);
    copies.push_back({base + to * block_size_ * slot, base + from * block_size_ * slot, positions * slot});
  };
  for (uint32_t layer = 0; layer < layers_; ++layer) {
    add(keys(layer), slot_), add(values(layer), slot_);
    if (scales_ > 0) add(scales(layer), scales_);
  }
  return queue.copy(device::Way::kOnDevice, copies);
}

}  // namespace weir::llm::cuda
