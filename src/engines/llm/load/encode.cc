#include "engines/llm/load/encode.h"

#include <algorithm>
#include <cmath>

namespace weir::llm {

void encode(Coding coding, uint32_t group, uint32_t inputs, const float* row, uint8_t* codes, float* scales,
            uint8_t* zeros) {
  const float low = coding == Coding::kInt4 ? -8 : -127, high = coding == Coding::kInt4 ? 7 : 127;
  const uint32_t zero = coding == Coding::kInt4 ? 8 : 0;
  for (uint32_t g = 0, from = 0; from < inputs; ++g, from += group) {
    const uint32_t n = std::min(group, inputs - from);
    float furthest = 0;
    for (uint32_t i = from; i < from + n; ++i)
      if (std::abs(row[i]) > std::abs(furthest)) furthest = row[i];
    const float scale = furthest / low, times = 1 / scale;
    scales[g] = scale, zeros[g] = uint8_t(zero);
    for (uint32_t i = from; i < from + n; ++i) {
      const float level = std::nearbyint(row[i] * times);  // no number where all are nothing, or next to it
      codes[i] = uint8_t((std::isfinite(level) ? int(std::clamp(level, low, high)) : 0) + int(zero));
    }
  }
}

}  // namespace weir::llm
