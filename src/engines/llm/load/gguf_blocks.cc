#include "engines/llm/load/gguf_blocks.h"

#include <cmath>
#include <cstring>

#include "msg/half.h"

namespace weir::llm {
namespace {

const uint8_t* bytes_at(const std::byte* p) { return reinterpret_cast<const uint8_t*>(p); }

float half_at(const std::byte* p) {
  uint16_t half;
  std::memcpy(&half, p, 2);
  return msg::fp16_to_float(half);
}

// 32 numbers: nibbles, and perhaps a fifth bit of each.
void nibbles(const std::byte* bytes, uint32_t fifth, int less, int8_t* out) {
  for (uint32_t i = 0; i < 16; ++i) {
    const uint8_t b = bytes_at(bytes)[i];
    out[i] = int8_t(int((b & 15) | (fifth >> i & 1) << 4) - less);
    out[i + 16] = int8_t(int((b >> 4) | (fifth >> (i + 16) & 1) << 4) - less);
  }
}

// Q4_0, Q4_1, Q5_0 and Q5_1.
void block_of_32(Stored stored, const std::byte* bytes, Block& out) {
  const bool fifth = stored == Stored::kQ5_0 || stored == Stored::kQ5_1;
  const bool offset = stored == Stored::kQ4_1 || stored == Stored::kQ5_1;
  const std::byte* codes = bytes + (offset ? 4 : 2);
  uint32_t bits = 0;
  if (fifth) std::memcpy(&bits, codes, 4), codes += 4;
  out.scales[0] = half_at(bytes), out.offsets[0] = offset ? half_at(bytes + 2) : 0;
  nibbles(codes, bits, offset ? 0 : fifth ? 16 : 8, out.levels);
}

void q8_0(const std::byte* bytes, Block& out) {
  out.scales[0] = half_at(bytes), out.offsets[0] = 0;
  std::memcpy(out.levels, bytes + 2, 32);
}

// Two halves of 128; of each the four codes of byte i are numbers i, i + 32, i + 64 and i + 96.
uint32_t pair_of(const uint8_t* codes, uint32_t i) { return codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3u; }

void q2_k(const std::byte* bytes, Block& out) {
  const float d = half_at(bytes + 80), least = half_at(bytes + 82);
  for (uint32_t g = 0; g < 16; ++g) {
    const uint8_t scale = bytes_at(bytes)[g];
    out.scales[g] = d * float(scale & 15), out.offsets[g] = -(least * float(scale >> 4));
  }
  for (uint32_t i = 0; i < 256; ++i) out.levels[i] = int8_t(pair_of(bytes_at(bytes + 16), i));
}

// The 16 scales have 6 bits each: the lower four in bytes 0 to 7, the upper two in bytes 8 to 11.
void q3_k(const std::byte* bytes, Block& out) {
  const uint8_t *third = bytes_at(bytes), *scales = bytes_at(bytes + 96);
  const float d = half_at(bytes + 108);
  for (uint32_t g = 0; g < 16; ++g) {
    const uint32_t low = scales[g % 8] >> (g / 8 * 4) & 15u, high = scales[8 + g % 4] >> (g / 4 * 2) & 3u;
    out.scales[g] = d * float(int(low | high << 4) - 32), out.offsets[g] = 0;
  }
  for (uint32_t i = 0; i < 256; ++i)
    out.levels[i] = int8_t(int(pair_of(bytes_at(bytes + 32), i)) - ((third[i % 32] >> (i / 32) & 1) != 0 ? 0 : 4));
}

// Eight scales and eight minima of 6 bits: those of the first four groups in bytes of their own, whose upper two bits
// are the upper ones of the other four.
void scales_and_minima(const std::byte* bytes, Block& out) {
  const float d = half_at(bytes), least = half_at(bytes + 2);
  const uint8_t* packed = bytes_at(bytes + 4);
  for (uint32_t g = 0; g < 8; ++g) {
    const uint32_t k = g % 4;
    const uint32_t scale = g < 4 ? packed[k] & 63u : (packed[k + 8] & 15u) | (packed[k] >> 6) << 4;
    const uint32_t minimum = g < 4 ? packed[k + 4] & 63u : (packed[k + 8] >> 4u) | (packed[k + 4] >> 6) << 4;
    out.scales[g] = d * float(scale), out.offsets[g] = -(least * float(minimum));
  }
}

// The low nibbles of 32 bytes are the first half of 64 numbers, the high ones the second.
uint32_t nibble_of(const uint8_t* codes, uint32_t i) { return codes[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15u; }

void q4_k(const std::byte* bytes, Block& out) {
  scales_and_minima(bytes, out);
  for (uint32_t i = 0; i < 256; ++i) out.levels[i] = int8_t(nibble_of(bytes_at(bytes + 16), i));
}

void q5_k(const std::byte* bytes, Block& out) {
  scales_and_minima(bytes, out);
  const uint8_t* fifth = bytes_at(bytes + 16);
  for (uint32_t i = 0; i < 256; ++i)
    out.levels[i] = int8_t(nibble_of(bytes_at(bytes + 48), i) | (fifth[i % 32] >> (i / 32) & 1u) << 4);
}

// Two halves of 128: of each 64 bytes of nibbles, whose low ones are its first 64, and 32 bytes of upper pairs.
void q6_k(const std::byte* bytes, Block& out) {
  const uint8_t *low = bytes_at(bytes), *high = bytes_at(bytes + 128);
  const float d = half_at(bytes + 208);
  for (uint32_t g = 0; g < 16; ++g) out.scales[g] = d * float(int8_t(bytes_at(bytes + 192)[g])), out.offsets[g] = 0;
  for (uint32_t i = 0; i < 256; ++i) {
    const uint32_t nibble = low[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15u;
    out.levels[i] = int8_t(int(nibble | pair_of(high, i) << 4) - 32);
  }
}

constexpr int8_t kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

void levels_of_32(const std::byte* bytes, const int8_t (&levels)[16], int8_t* out) {
  for (uint32_t i = 0; i < 16; ++i) {
    const uint8_t b = bytes_at(bytes)[i];
    out[i] = levels[b & 15], out[i + 16] = levels[b >> 4];
  }
}

void iq4_nl(const std::byte* bytes, Block& out) {
  out.scales[0] = half_at(bytes), out.offsets[0] = 0;
  levels_of_32(bytes + 2, kIq4, out.levels);
}

// The eight scales have 6 bits each: two of the upper ones after the other, then the lower nibbles.
void iq4_xs(const std::byte* bytes, Block& out) {
  const float d = half_at(bytes);
  uint16_t high;
  std::memcpy(&high, bytes + 2, 2);
  for (uint32_t g = 0; g < 8; ++g) {
    const uint32_t low = bytes_at(bytes + 4)[g / 2] >> (g % 2 * 4) & 15u;
    out.scales[g] = d * float(int(low | (high >> 2 * g & 3u) << 4) - 32), out.offsets[g] = 0;
    levels_of_32(bytes + 8 + g * 16, kIq4, out.levels + g * 32);
  }
}

void mxfp4(const std::byte* bytes, Block& out) {
  out.scales[0] = std::ldexp(1.0f, int(bytes_at(bytes)[0]) - 128), out.offsets[0] = 0;
  levels_of_32(bytes + 1, kE2m1, out.levels);
}

}  // namespace

BlockFormat block_format(Stored stored) {
  switch (stored) {
    case Stored::kQ4_0: return {32, 18, 32, Coding::kInt4};
    case Stored::kQ4_1: return {32, 20, 32, Coding::kInt4, true};
    case Stored::kQ5_0: return {32, 22, 32, Coding::kInt8};
    case Stored::kQ5_1: return {32, 24, 32, Coding::kInt8, true};
    case Stored::kQ8_0: return {32, 34, 32, Coding::kInt8};
    case Stored::kQ2K: return {256, 84, 16, Coding::kInt4, true};
    case Stored::kQ3K: return {256, 110, 16, Coding::kInt4};
    case Stored::kQ4K: return {256, 144, 32, Coding::kInt4, true};
    case Stored::kQ5K: return {256, 176, 32, Coding::kInt8, true};
    case Stored::kQ6K: return {256, 210, 16, Coding::kInt8};
    case Stored::kIq4Nl: return {32, 18, 32, Coding::kInt8};
    case Stored::kIq4Xs: return {256, 136, 32, Coding::kInt8};
    case Stored::kMxfp4: return {32, 17, 32, Coding::kInt8};
    default: return {};
  }
}

void decode(Stored stored, const std::byte* bytes, Block& out) {
  switch (stored) {
    case Stored::kQ4_0:
    case Stored::kQ4_1:
    case Stored::kQ5_0:
    case Stored::kQ5_1: return block_of_32(stored, bytes, out);
    case Stored::kQ8_0: return q8_0(bytes, out);
    case Stored::kQ2K: return q2_k(bytes, out);
    case Stored::kQ3K: return q3_k(bytes, out);
    case Stored::kQ4K: return q4_k(bytes, out);
    case Stored::kQ5K: return q5_k(bytes, out);
    case Stored::kQ6K: return q6_k(bytes, out);
    case Stored::kIq4Nl: return iq4_nl(bytes, out);
    case Stored::kIq4Xs: return iq4_xs(bytes, out);
    case Stored::kMxfp4: return mxfp4(bytes, out);
    default: return;
  }
}

}  // namespace weir::llm
