// An engine on a device with given weights, and sequences that are stepped through it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/llm/cuda/device_transformer.h"
#include "model.h"

namespace weir::gpu {

using Step = generation::TokenStep;

struct Made {
  std::unique_ptr<llm::cuda::DeviceTransformer> engine;
  std::string error;
};

inline Made make(device::Device& device, const llm::cuda::Kernels& kernels, const llm::Shape& shape,
                 base::Result<llm::cuda::DeviceWeights> weights, uint32_t blocks, llm::cuda::DeviceOptions options) {
  if (!weights) return {nullptr, weights.error().text};
  llm::cuda::DeviceModel model;
  model.shape = shape, model.weights = std::move(*weights);
  auto text = std::make_shared<msg::TextSpec>();
  text->vocabulary = shape.vocabulary, text->max_length = shape.max_length, text->eos_ids = shape.eos_ids;
  model.text = text;
  auto engine = llm::cuda::DeviceTransformer::make(device, kernels, std::move(model), std::move(options));
  if (!engine) return {nullptr, engine.error().text};
  if (auto s = (*engine)->reserve(blocks, 16); !s.ok()) return {nullptr, s.text};
  return {std::move(*engine), ""};
}

// Sequences that are stepped together; sequence i has blocks of its own.
struct Sequences {
  Sequences(uint32_t count, uint32_t blocks_each) : length(count, 0), each(blocks_each) {}

  // A row for sequence `i`: `ids` at its end, and a greedy draw after them.
  void add(Step& step, uint32_t i, const std::vector<uint32_t>& ids) {
    const auto first = uint32_t(step.ids.size()), n = uint32_t(ids.size());
    step.rows.push_back({first, n, length[i] + n, uint32_t(step.tables.size()), each});
    for (uint32_t b = 0; b < each; ++b) step.tables.push_back(i * each + b);
    for (uint32_t k = 0; k < n; ++k) {
      step.ids.push_back(ids[k]), step.positions.push_back(length[i] + k);
      step.slots.push_back(i * each * 16 + length[i] + k);
    }
    step.logits_requests.push_back({.token = first + n - 1, .row = uint32_t(step.rows.size()) - 1, .params = &params});
    length[i] += n;
  }
  // Each one's next token, which its look of the step before has drawn.
  void add_next(Step& step) {
    for (uint32_t i = 0; i < length.size(); ++i) add(step, i, {Step::kSampled | i});
  }

  msg::Generation params = [] {
    msg::Generation g;
    g.sampling.temperature = 0;
    return g;
  }();
  std::vector<uint32_t> length;
  uint32_t each;
};

inline std::vector<uint32_t> prompt(uint32_t n, uint32_t below, uint32_t seed) {
  std::vector<uint32_t> out(n);
  for (uint32_t i = 0; i < n; ++i) out[i] = (i * 7919 + seed * 104729 + 13) % below;
  return out;
}

}  // namespace weir::gpu
