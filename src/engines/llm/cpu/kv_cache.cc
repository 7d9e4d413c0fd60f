#include "engines/llm/cpu/kv_cache.h"

#include <cstring>

#include "msg/half.h"

namespace weir::llm {

KvCache::KvCache(WeightFormat form, uint32_t layers, uint32_t heads, uint32_t head_dim)
    : form_(form),
      layers_(layers),
      heads_(heads),
      padded_((head_dim + 15) / 16 * 16),
      tile_(tile_bytes(form, padded_)) {}

size_t KvCache::bytes(size_t positions) const { return (positions + kTile - 1) / kTile * tile_ * heads_ * layers_; }

base::Status KvCache::reserve(uint32_t blocks, uint32_t block_size) {
  if (block_size == 0 || block_size % kTile != 0)
    return base::invalid("block_size is " + std::to_string(block_size) + "; it must be a multiple of 16");
  block_size_ = block_size, block_bytes_ = bytes(block_size);
  size_t total;
  if (!__builtin_mul_overflow(block_bytes_, size_t(blocks), &total)) memory_ = Memory(total);
  if (!memory_) return base::failure(base::Code::kResourceExhausted, "no memory for keys and values");
  blocks_ = blocks;
  return {};
}

// Whole tiles: what lies beyond `positions` is never looked at before it is written.
void KvCache::copy(uint32_t from, uint32_t to, uint32_t positions) {
  size_t n = (positions + kTile - 1) / kTile * tile_;
  for (uint32_t layer = 0; layer < layers_; ++layer)
    for (uint32_t head = 0; head < heads_; ++head)
      std::memcpy(memory_.data() + to * block_bytes_ + offset(layer, head),
                  memory_.data() + from * block_bytes_ + offset(layer, head), n);
}

void KvCache::write(uint32_t layer, uint32_t head, uint32_t slot, const float* key, const float* value) {
  const uint32_t place = slot % block_size_;
  std::byte* tile = memory_.data() + (slot / block_size_) * block_bytes_ + offset(layer, head) + place / kTile * tile_;
  write_tile(form_, padded_, place, key, value, tile);
}

void write_tile(WeightFormat form, uint32_t head_dim, uint32_t place, const float* key, const float* value,
                std::byte* tile) {
  const uint32_t at = place % kTile;
  std::byte* values = tile + tile_bytes(form, head_dim) / 2;
  if (form == WeightFormat::kF32) {
    auto* k = reinterpret_cast<float*>(tile) + at;
    for (uint32_t d = 0; d < head_dim; ++d) k[size_t(d) * kTile] = key[d];
    auto* v = reinterpret_cast<float*>(values);
    for (uint32_t d = 0; d < head_dim; d += 16) std::memcpy(v + size_t(d) * kTile + at * 16, value + d, 64);
    return;
  }
  auto* k = reinterpret_cast<uint16_t*>(tile) + 2 * at;
  for (uint32_t d = 0; d < head_dim; ++d) k[size_t(d / 2) * 2 * kTile + d % 2] = msg::bf16_from(key[d]);
  auto* v = reinterpret_cast<uint16_t*>(values) + (at / 2) * 32 + at % 2;
  for (uint32_t d = 0; d < head_dim; ++d) {
    uint16_t* to = v + size_t(d / 16) * 16 * kTile + (d % 16) * 2;
    to[0] = msg::bf16_from(value[d]);
    if (at % 2 == 0) to[1] = 0;
  }
}

}  // namespace weir::llm
