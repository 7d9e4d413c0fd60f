#include "engines/llm/cpu/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engines/llm/load/fp8.h"
#include "msg/half.h"

namespace weir::llm {
namespace {

// Where number `d` of the key or value of position `at` lies in a tile's keys or values (kernels.h).
size_t key_place(WeightFormat form, uint32_t d, uint32_t at) {
  return form == WeightFormat::kF32 ? size_t(d) * kTile + at : size_t(d / 2) * 2 * kTile + 2 * at + d % 2;
}
size_t value_place(WeightFormat form, uint32_t d, uint32_t at) {
  const size_t panel = size_t(d / 16) * 16 * kTile;
  return panel + (form == WeightFormat::kF32 ? at * 16 + d % 16 : (at / 2) * 32 + (d % 16) * 2 + at % 2);
}

// Gives the scale. `place(d)`: where number d goes.
template <class Place>
float write_codes(KvFormat kept, const float* x, uint32_t n, std::byte* to, Place&& place) {
  const bool int8 = kept == KvFormat::kInt8;
  float most = 0;
  bool finite = true;
  for (uint32_t d = 0; d < n; ++d) most = std::max(most, std::fabs(x[d])), finite &= std::isfinite(x[d]);
  const float scale = most / (int8 ? 127 : kMostOfFp8), steps = finite && scale > 0 ? 1 / scale : 0;
  const bool fits = finite && std::isfinite(steps);  // not of a number that is next to nothing
  for (uint32_t d = 0; d < n; ++d) {
    const float number = fits ? x[d] * steps : 0;
    to[place(d)] = std::byte(int8 ? uint8_t(int8_t(std::lrintf(number))) : fp8_from(number));
  }
  return finite ? scale : NAN;
}

}  // namespace

KvCache::KvCache(WeightFormat form, KvFormat kept, uint32_t layers, uint32_t heads, uint32_t head_dim)
    : form_(form),
      kept_(kept),
      layers_(layers),
      heads_(heads),
      padded_((head_dim + 15) / 16 * 16),
      tile_(tile_bytes(form, padded_, kept)) {}

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
  if (kept_ == KvFormat::kAsComputed)
    write_tile(form_, padded_, place, key, value, tile);
  else
    write_byte_tile(form_, kept_, padded_, place, key, value, tile);
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
  auto* k = reinterpret_cast<uint16_t*>(tile);
  for (uint32_t d = 0; d < head_dim; ++d) k[key_place(form, d, at)] = msg::bf16_from(key[d]);
  auto* v = reinterpret_cast<uint16_t*>(values);
  for (uint32_t d = 0; d < head_dim; ++d) {
    uint16_t* to = v + value_place(form, d, at);
    to[0] = msg::bf16_from(value[d]);
    if (at % 2 == 0) to[1] = 0;
  }
}

void write_byte_tile(WeightFormat form, KvFormat kept, uint32_t head_dim, uint32_t place, const float* key,
                     const float* value, std::byte* tile) {
  const uint32_t at = place % kTile;
  const size_t numbers = size_t(kTile) * head_dim;
  const float scales[2] = {
      write_codes(kept, key, head_dim, tile, [&](uint32_t d) { return key_place(form, d, at); }),
      write_codes(kept, value, head_dim, tile + numbers, [&](uint32_t d) { return value_place(form, d, at); })};
  for (uint32_t i = 0; i < 2; ++i)
    std::memcpy(tile + 2 * numbers + (i * kTile + at) * sizeof(float), &scales[i], sizeof(float));
}

}  // namespace weir::llm
