#include "engines/llm/encoder/encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace weir::llm {

void Pack::clear() { texts.clear(), ids.clear(), positions.clear(), types.clear(); }

void embed(const Encoder& encoder, const Pack::Text& text, Pooling pooling, Scale scale, float* out) {
  const uint32_t hidden = encoder.limits().hidden;
  std::vector<float> state((hidden + 15) / 16 * 16);
  std::fill_n(out, hidden, 0.0f);
  const uint32_t from = pooling == Pooling::kLast ? text.count - 1 : 0,
                 to = pooling == Pooling::kFirst ? 1 : text.count;
  for (uint32_t i = from; i < to; ++i) {
    encoder.state(text.first + i, state.data());
    for (uint32_t d = 0; d < hidden; ++d) out[d] += state[d];
  }
  if (to - from > 1)
    for (uint32_t d = 0; d < hidden; ++d) out[d] /= float(to - from);
  if (scale == Scale::kAsItIs) return;
  double squares = 0;
  for (uint32_t d = 0; d < hidden; ++d) squares += double(out[d]) * out[d];
  const auto length = float(std::max(std::sqrt(squares), 1e-12));
  for (uint32_t d = 0; d < hidden; ++d) out[d] /= length;
}

}  // namespace weir::llm
