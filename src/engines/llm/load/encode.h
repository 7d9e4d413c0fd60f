// Numbers as codes (coding.h), for matrices that are quantized here: the same on the CPU and on devices.
#pragma once

#include <cstdint>

#include "engines/llm/load/coding.h"

namespace weir::llm {

// Inputs that share a scale, where we choose.
inline constexpr uint32_t kInt8Group = 128, kInt4Group = 32;

// The codes of one output (Weight::Codes): `inputs` of them, and a scale and a zero point for each `group` of them. The
// number that is furthest from 0 becomes the last code of its side; what rounds to more than the other side has is cut
// off. `coding`: kInt8 or kInt4.
void encode(Coding coding, uint32_t group, uint32_t inputs, const float* row, uint8_t* codes, float* scales,
            uint8_t* zeros);

}  // namespace weir::llm
