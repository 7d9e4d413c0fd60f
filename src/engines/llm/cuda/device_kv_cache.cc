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
  const size_t slot = slot_ * sizeof(Bf16), block = block_size_ * slot;
  std::vector<device::Copy> copies;
  for (size_t i = 0; i < size_t(2) * layers_; ++i) {
    std::byte* base = memory_.data() + i * blocks_ * block;
    copies.push_back({base + to * block, base + from * block, positions * slot});
  }
  return queue.copy(device::Way::kOnDevice, copies);
}

}  // namespace weir::llm::cuda
