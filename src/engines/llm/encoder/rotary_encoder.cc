#include "engines/llm/encoder/rotary_encoder.h"

#include <utility>

namespace weir::llm {
namespace {

// Keys and values of a layer live in blocks of a tile each, one text after the other.
class RotaryEncoder final : public HostEncoder {
 public:
  RotaryEncoder(std::unique_ptr<Transformer> transformer, const EncoderLimits& limits)
      : transformer_(std::move(transformer)), limits_(limits) {}

  base::Status reserve() { return transformer_->reserve(limits_.pack_tokens / kTile, kTile); }

  const EncoderLimits& limits() const override { return limits_; }
  base::Status run(const Pack& pack) override {
    step_.clear();
    uint32_t blocks = 0;
    for (const auto& text : pack.texts) {
      const uint32_t count = (text.count + kTile - 1) / kTile;
      step_.rows.push_back({text.first, text.count, text.count, uint32_t(step_.tables.size()), count});
      for (uint32_t i = 0; i < text.count; ++i) step_.slots.push_back(blocks * kTile + i);
      for (uint32_t i = 0; i < count; ++i) step_.tables.push_back(blocks++);
    }
    step_.ids = pack.ids, step_.positions = pack.positions;
    keep_pooled(pack);
    return transformer_->step(step_);
  }

 private:
  void state(uint32_t token, float* out) const override { transformer_->last_state(token, out); }

  std::unique_ptr<Transformer> transformer_;
  const EncoderLimits limits_;
  generation::TokenStep step_;
};

}  // namespace

base::Result<std::unique_ptr<Encoder>> make_rotary_encoder(std::unique_ptr<Transformer> transformer,
                                                           const EncoderLimits& limits) {
  auto encoder = std::make_unique<RotaryEncoder>(std::move(transformer), limits);
  if (auto s = encoder->reserve(); !s.ok()) return s;
  return std::unique_ptr<Encoder>(std::move(encoder));
}

}  // namespace weir::llm
