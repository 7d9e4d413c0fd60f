// A TokenEngine that computes nothing: every draw is the next of a row of printable ids. For benches of what is around
// an engine; with `pace` a step takes at least that long, as a device's would.
#pragma once

#include <chrono>
#include <thread>
#include <utility>

#include "generation/engine.h"

namespace weir::bench {

class MockTokens final : public generation::TokenEngine {
 public:
  explicit MockTokens(const msg::TextSpec& text, std::chrono::microseconds pace = {}) : text_(text), pace_(pace) {}

  const msg::TextSpec& text() const override { return text_; }
  size_t kv_bytes(size_t positions) const override { return positions; }
  base::Status reserve(uint32_t, uint32_t) override { return {}; }
  base::Status step(generation::TokenStep& step) override {
    for (auto& request : step.logits_requests)
      if (request.kind == generation::TokenStep::LogitsRequest::Kind::kSample)
        request.id = uint32_t((request.seed + request.draw) % text_.vocabulary);
    for (auto& pool : step.pools) pool.sum.assign(text_.hidden_size, 0);
    for (auto& readout : step.readouts) readout.values.assign(text_.concepts.size() * text_.readout_layers.size(), 0);
    if (pace_.count() > 0) std::this_thread::sleep_for(pace_);
    return {};
  }
  void copy_block(uint32_t, uint32_t, uint32_t) override {}
  base::Result<generation::ImageFeatures> encode_image(const msg::Image&) override {
    return base::failure(base::Code::kUnimplemented, "the mock does not see");
  }

 private:
  const msg::TextSpec& text_;
  const std::chrono::microseconds pace_;
};

}  // namespace weir::bench
