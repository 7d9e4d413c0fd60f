#include "engines/llm/encoder/encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace weir::llm {

void Pack::clear() { texts.clear(), ids.clear(), positions.clear(), types.clear(); }

Pack::Text Pack::pooled(const Text& text) const {
  if (pooling == Pooling::kFirst) return {text.first, 1};
  if (pooling == Pooling::kLast) return {text.first + text.count - 1, 1};
  return text;
}

void HostEncoder::keep_pooled(const Pack& pack) {
  pooled_.clear();
  for (const auto& text : pack.texts) pooled_.push_back(pack.pooled(text));
}

void HostEncoder::sum(size_t text, float* out) const {
  const uint32_t hidden = limits().hidden;
  std::vector<float> one((hidden + 15) / 16 * 16);
  std::fill_n(out, hidden, 0.0f);
  for (uint32_t i = 0; i < pooled_[text].count; ++i) {
    state(pooled_[text].first + i, one.data());
    for (uint32_t d = 0; d < hidden; ++d) out[d] += one[d];
  }
}

void embed(const Encoder& encoder, const Pack& pack, size_t text, Scale scale, float* out) {
  const uint32_t hidden = encoder.limits().hidden, count = pack.pooled(pack.texts[text]).count;
  encoder.sum(text, out);
  if (count > 1)
    for (uint32_t d = 0; d < hidden; ++d) out[d] /= float(count);
  if (scale == Scale::kAsItIs) return;
  double squares = 0;
  for (uint32_t d = 0; d < hidden; ++d) squares += double(out[d]) * out[d];
  const auto length = float(std::max(std::sqrt(squares), 1e-12));
  for (uint32_t d = 0; d < hidden; ++d) out[d] /= length;
}

}  // namespace weir::llm
