#include "piece_map.h"

#include <bit>
#include <cstring>

namespace tokenizers {

namespace {

uint64_t mix(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(a) * b;
  return uint64_t(product) ^ uint64_t(product >> 64);
}

}  // namespace

uint64_t PieceMap::hash(std::string_view key) {
  constexpr uint64_t kA = 0x9E3779B97F4A7C15u, kB = 0xD6E8FEB86659FD93u;
  uint64_t h = key.size() * kA;
  const char* p = key.data();
  size_t left = key.size();
  for (uint64_t word; left >= 8; left -= 8, p += 8) {
    std::memcpy(&word, p, 8);
    h = mix(h ^ word, kB);
  }
  uint64_t tail = 0;
  for (size_t i = 0; i < left; ++i) tail |= uint64_t(static_cast<unsigned char>(p[i])) << (8 * i);
  return mix(h ^ tail, kA);
}

void PieceMap::reserve(size_t entries, size_t bytes) {
  text_.reserve(bytes);
  size_t want = std::bit_ceil(entries * 2 + 16);
  while (slots_.size() < want) grow();
}

void PieceMap::grow() {
  std::vector<Slot> old(slots_.empty() ? 16 : slots_.size() * 2);
  old.swap(slots_);
  size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.size == kFree) continue;
    size_t i = slot.hash & mask;
    while (slots_[i].size != kFree) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

void PieceMap::put(std::string_view key, uint32_t value) {
  if ((used_ + 1) * 2 > slots_.size()) grow();
  auto h = uint32_t(hash(key));
  size_t mask = slots_.size() - 1, i = h & mask;
  for (; slots_[i].size != kFree; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.hash != h || std::string_view(text_).substr(slot.at, slot.size) != key) continue;
    slot.value = value;
    return;
  }
  slots_[i] = {uint32_t(text_.size()), uint32_t(key.size()), h, value};
  text_ += key;
  ++used_;
  if (key.size() > longest_) longest_ = key.size();
}

const uint32_t* PieceMap::find(std::string_view key) const {
  if (key.size() > longest_ || slots_.empty()) return nullptr;
  auto h = uint32_t(hash(key));
  size_t mask = slots_.size() - 1;
  for (size_t i = h & mask; slots_[i].size != kFree; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.hash == h && slot.size == key.size() && std::memcmp(text_.data() + slot.at, key.data(), key.size()) == 0)
      return &slot.value;
  }
  return nullptr;
}

}  // namespace tokenizers
