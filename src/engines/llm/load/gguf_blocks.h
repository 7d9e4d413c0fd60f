// The blocks in which GGUF stores numbers of few bits (ggml's quantized types). Whatever its layout is, a number of a
// block is a small whole number times a scale, plus an offset; 16 or 32 neighbours share both.
//
//   type   bytes                                                               numbers, group
//   Q4_0   f16 d; 16 of two nibbles                                            32       d * (q - 8)
//   Q4_1   f16 d, m; 16 of two nibbles                                         32       d * q + m
//   Q5_0   f16 d; u32 fifth bits; 16 of two nibbles                            32       d * (q - 16)
//   Q5_1   f16 d, m; u32 fifth bits; 16 of two nibbles                         32       d * q + m
//   Q8_0   f16 d; 32 of i8                                                     32       d * q
//   Q2_K   16 of (scale, minimum) nibbles; 64 of four codes; f16 d, dmin       256, 16  d * s * q - dmin * m
//   Q3_K   32 of third bits; 64 of four codes; 12 of scales; f16 d             256, 16  d * (s - 32) * (q - 4)
//   Q4_K   f16 d, dmin; 12 of scales and minima; 128 of two nibbles            256, 32  d * s * q - dmin * m
//   Q5_K   f16 d, dmin; 12 of scales and minima; 32 of fifth bits; 128         256, 32  d * s * q - dmin * m
//   Q6_K   128 of two nibbles; 64 of four upper pairs; 16 of i8 scales; f16 d  256, 16  d * s * (q - 32)
//   IQ4_NL f16 d; 16 of two nibbles                                            32       d * iq4[q]
//   IQ4_XS f16 d; u16 and 4 bytes of scales; 128 of two nibbles                256, 32  d * (s - 32) * iq4[q]
//   MXFP4  u8 e; 16 of two nibbles                                             32       2^(e - 128) * e2m1[q]
//
// iq4 has 16 levels that are closer to each other near 0; e2m1 has twice the numbers of a sign, two bits of exponent
// and one of mantissa.
//
// Nibbles of a block of 32: the low ones are its first half, the high ones its second.
// https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h
#pragma once

#include <cstddef>
#include <cstdint>

#include "engines/llm/load/array.h"
#include "engines/llm/load/coding.h"

namespace weir::llm {

// Twice the numbers of E2M1.
inline constexpr int8_t kE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

struct BlockFormat {
  uint32_t numbers = 0, bytes = 0;
  uint32_t group = 0;              // neighbours that share scale and offset
  Coding coding = Coding::kWhole;  // that keeps them with nothing rounded
  bool offsets = false;            // they are not all 0
};

constexpr uint32_t kBlockNumbers = 256, kBlockGroups = 16;  // at most
// Number i is scales[i / group] * levels[i] + offsets[i / group].
struct Block {
  int8_t levels[kBlockNumbers];
  float scales[kBlockGroups], offsets[kBlockGroups];
};

// `stored` is one that is in_blocks().
BlockFormat block_format(Stored stored);
void decode(Stored stored, const std::byte* bytes, Block& out);

}  // namespace weir::llm
