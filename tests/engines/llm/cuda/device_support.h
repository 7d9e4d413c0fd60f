// Helpers for tests of the transformer on a device: loading it, and sequences that are drawn together.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/llm/cuda/device_transformer.h"
#include "engines/llm/cuda/reference.h"
#include "support.h"

namespace weir::llm {

using cuda::DeviceTransformer;
using Wanted = Stepper::Wanted;
using DeviceStepper = BasicStepper<DeviceTransformer>;
using LogitsRequest = generation::TokenStep::LogitsRequest;

inline constexpr const char* kChat = WEIR_ROOT "/conf/models/chat/1";

struct ModelLimits {
  uint32_t max_length = UINT32_MAX;
};

inline base::Result<std::unique_ptr<DeviceTransformer>> try_device(
    const std::string& path, device::Device& device, cuda::DeviceOptions options = {},
    const cuda::Kernels& kernels = cuda::reference::table(), ModelLimits limits = {},
    const cuda::WeightOptions& weight_options = {}) {
  auto folder = Folder::open(path);
  auto shape = parse_shape(folder->read("config.json", 1 << 20).value());
  auto store = Store::open(*folder);
  cuda::DeviceModel model;
  model.shape = *shape;
  model.readouts = load_readouts(*shape, *folder).value();
  auto weights = cuda::load_device_weights(*shape, model.readouts, *store, device, {}, weight_options);
  if (!weights) return weights.error();
  model.weights = std::move(*weights);
  auto text = std::make_shared<msg::TextSpec>();
  text->vocabulary = shape->vocabulary, text->eos_ids = shape->eos_ids;
  text->max_length = std::min(shape->max_length, limits.max_length);
  model.text = text;
  auto out = DeviceTransformer::make(device, kernels, std::move(model), std::move(options));
  if (out)
    if (auto s = (*out)->reserve(256, 16); !s.ok()) return s;
  return out;
}

inline std::unique_ptr<DeviceTransformer> on_device(const std::string& path, device::Device& device,
                                                    cuda::DeviceOptions options = {}) {
  auto out = try_device(path, device, std::move(options));
  EXPECT_TRUE(bool(out)) << (out ? "" : out.error().text);
  return out ? std::move(*out) : nullptr;
}

using Ranks = std::vector<device::Device*>;

// The same, of several that compute it together.
inline base::Result<std::unique_ptr<DeviceTransformer>> on_ranks(
    const std::string& path, const Ranks& ranks, cuda::DeviceOptions options = {},
    const cuda::Kernels& kernels = cuda::reference::table(), const cuda::WeightOptions& weight_options = {}) {
  auto folder = Folder::open(path);
  auto shape = parse_shape(folder->read("config.json", 1 << 20).value());
  auto store = Store::open(*folder);
  const auto count = uint32_t(ranks.size());
  if (auto s = cuda::check_split(*shape, count); !s.ok()) return s;
  cuda::DeviceModel model;
  model.shape = cuda::split_shape(*shape, count);
  model.readouts = load_readouts(*shape, *folder).value();
  for (uint32_t rank = 0; rank < count; ++rank) {
    auto weights =
        cuda::load_device_weights(*shape, model.readouts, *store, *ranks[rank], {rank, count}, weight_options);
    if (!weights) return weights.error();
    if (rank == 0)
      model.weights = std::move(*weights);
    else
      model.others.push_back({ranks[rank], std::move(*weights)});
  }
  auto text = std::make_shared<msg::TextSpec>();
  text->vocabulary = shape->vocabulary, text->eos_ids = shape->eos_ids, text->max_length = shape->max_length;
  model.text = text;
  auto out = DeviceTransformer::make(*ranks[0], kernels, std::move(model), std::move(options));
  if (out)
    if (auto s = (*out)->reserve(256, 16); !s.ok()) return s;
  return out;
}

// A sequence with a copy of another one's last block goes on as that one.
inline void expect_fork(DeviceTransformer& engine, const std::vector<uint32_t>& ids) {
  DeviceStepper stepper(engine);
  Sequence s{{ids.begin(), ids.begin() + 40}, {}};
  stepper.add(s, 39, Wanted::kNone);
  stepper.run();
  Sequence fork = s;
  stepper.add(s, 1, Wanted::kLast);
  const auto first = stepper.run();
  engine.copy_block(fork.blocks.back(), 200, 39 % 16);
  fork.blocks.back() = 200;
  stepper.add(fork, 1, Wanted::kLast);
  EXPECT_EQ(stepper.run(), first);
}

struct Talk {
  std::vector<std::vector<uint32_t>> tokens;
  std::vector<std::vector<float>> readouts;
};

inline msg::Generation greedy() {
  msg::Generation params;
  params.sampling.temperature = 0;
  return params;
}

// `count` tokens after each prompt, drawn as `params` says; all sequences in one batch.
template <class Engine>
Talk talk(Engine& engine, const std::vector<std::vector<uint32_t>>& prompts, uint32_t count,
          const msg::Generation& params) {
  Talk out;
  std::vector<Sequence> all;
  for (const auto& prompt : prompts) all.push_back({prompt, {}});
  out.tokens.resize(all.size());
  BasicStepper<Engine> stepper(engine);
  for (uint32_t n = 0; n < count; ++n) {
    for (uint32_t i = 0; i < all.size(); ++i) {
      auto& s = all[i];
      stepper.add(s, uint32_t(s.ids.size()) - s.stored, Wanted::kNone);
      LogitsRequest request;
      request.token = uint32_t(stepper.step.ids.size()) - 1, request.row = i, request.params = &params;
      request.sequence = s.ids, request.prompt = uint32_t(prompts[i].size()), request.draw = n, request.seed = 11 + i;
      request.wants_logprob = true, request.top = 3;
      stepper.step.logits_requests.push_back(request);
      if (n == 0) stepper.step.readouts.push_back({request.token, {}});
    }
    auto status = engine.step(stepper.step);
    EXPECT_TRUE(status.ok()) << status.text;
    if (!status.ok()) return out;
    for (uint32_t i = 0; i < all.size(); ++i) {
      const auto& request = stepper.step.logits_requests[i];
      EXPECT_EQ(request.best.size(), 3u);
      if (params.sampling.temperature == 0 && request.best.size() == 3) {
        EXPECT_EQ(request.best[0].id, request.id);
        EXPECT_EQ(request.best[0].logprob, request.logprob);
      }
      all[i].ids.push_back(request.id);
      out.tokens[i].push_back(request.id);
    }
    for (const auto& r : stepper.step.readouts) out.readouts.push_back(r.values);
    stepper.step.clear();
  }
  return out;
}

inline std::vector<std::vector<uint32_t>> prompts() {
  std::vector<std::vector<uint32_t>> out(3);
  for (uint32_t i = 0; i < 3; ++i)
    for (uint32_t t = 0; t < 9 + 8 * i; ++t) out[i].push_back((t * 97 + i * 31 + 5) % 3000);
  return out;
}

}  // namespace weir::llm
