#include "marshal/md5.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/encoding.h"

namespace weir::marshal {
namespace {

// T of the specification: 2^32 times the sine of 1 to 64.
std::array<uint32_t, 64> make_sines() {
  std::array<uint32_t, 64> out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = uint32_t(std::floor(std::fabs(std::sin(double(i + 1))) * 0x1p32));
  return out;
}

constexpr int kTurns[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

// Numbers are little-endian.
uint32_t word_at(const char* at) {
  uint32_t out = 0;
  for (int i = 3; i >= 0; --i) out = out << 8 | uint8_t(at[i]);
  return out;
}
void put_little_endian(uint64_t value, size_t bytes, char* at) {
  for (size_t i = 0; i < bytes; ++i) at[i] = char(uint8_t(value >> 8 * i));
}

}  // namespace

void Md5::take(const char* block) {
  static const std::array<uint32_t, 64> kSines = make_sines();
  auto [a, b, c, d] = state_;
  for (size_t i = 0; i < 64; ++i) {
    const size_t round = i / 16;
    uint32_t mixed = 0;
    size_t word = i;
    if (round == 0) mixed = (b & c) | (~b & d);
    if (round == 1) mixed = (d & b) | (~d & c), word = 5 * i + 1;
    if (round == 2) mixed = b ^ c ^ d, word = 3 * i + 5;
    if (round == 3) mixed = c ^ (b | ~d), word = 7 * i;
    const uint32_t sum = a + mixed + kSines[i] + word_at(block + word % 16 * 4);
    a = d, d = c, c = b;
    b += std::rotl(sum, kTurns[round][i % 4]);
  }
  state_[0] += a, state_[1] += b, state_[2] += c, state_[3] += d;
}

void Md5::add(std::string_view bytes) {
  const size_t held = bytes_ % kBlock;
  bytes_ += bytes.size();
  if (held > 0) {
    const size_t more = std::min(kBlock - held, bytes.size());
    std::memcpy(rest_.data() + held, bytes.data(), more);
    bytes.remove_prefix(more);
    if (held + more < kBlock) return;
    take(rest_.data());
  }
  for (; bytes.size() >= kBlock; bytes.remove_prefix(kBlock)) take(bytes.data());
  if (!bytes.empty()) std::memcpy(rest_.data(), bytes.data(), bytes.size());
}

std::string Md5::hex() const {
  char length[8];
  put_little_endian(bytes_ * 8, sizeof length, length);
  Md5 end = *this;
  end.add("\x80");
  while (end.bytes_ % kBlock != kBlock - sizeof length) end.add(std::string_view("\0", 1));
  end.add({length, sizeof length});
  char digest[16];
  for (size_t i = 0; i < 4; ++i) put_little_endian(end.state_[i], 4, digest + 4 * i);
  return base::hex({digest, sizeof digest});
}

}  // namespace weir::marshal
