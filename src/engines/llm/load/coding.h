// Coding: how the numbers of a matrix are kept. Apart from whole ones each is a code of a few bits, and neighbours
// along the inputs share a scale, and perhaps an offset: a number is its code times the scale, plus the offset. Codes
// are exact in bfloat16.
#pragma once

#include <cstdint>

namespace weir::llm {

enum class Coding : uint8_t {
  kWhole,
  kInt8,
  kInt4,  // 0 to 15, less the zero point of those that share the scale
  kFp8,   // E4M3
};

// How the matrices of a model's layers are kept.
enum class Keep : uint8_t {
  kAsStored,  // coded where the checkpoint's are
  kWhole,
  kInt8,  // 128 neighbours share a scale
  kInt4,  // 32 do, and 16 levels
};

}  // namespace weir::llm
