// A model of tokens in the memory of a device, or of several that compute it together.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/units.h"
#include "engines/llm/cpu/thread_team.h"
#include "engines/llm/cuda/choice.h"
#include "engines/llm/cuda/device_transformer.h"
#include "engines/llm/loading.h"
#include "engines/llm/turn.h"
#include "generation/kv_budget.h"

namespace weir::llm {
namespace {

// A model leaves one part in so many of all of a device's memory alone: for graphs, libraries and batches.
constexpr uint64_t kLeftAlone = 16;

// The devices of a model: one for each rank.
using Ranks = std::vector<device::Device*>;

// The bytes that a device has free, less what is left alone; UINT64_MAX where nobody knows.
base::Result<uint64_t> free_for_kv(device::Device& device) {
  auto memory = device.memory();
  if (!memory) return memory.error();
  if (memory->free == UINT64_MAX) return UINT64_MAX;
  return memory->free - std::min(memory->free, memory->total / kLeftAlone);
}

// How much the keys and values take: what was asked for, or the model's share of what is free; on each of its devices,
// so that the fullest one decides.
base::Status size_kv(Loading& l, const Ranks& ranks, const Place& place, const generation::TokenEngine& engine) {
  if (l.options.kv_cache) return {};
  uint64_t free = UINT64_MAX;
  for (device::Device* device : ranks) {
    auto own = free_for_kv(*device);
    if (!own) return own.error();
    free = std::min(free, *own);
  }
  if (free == UINT64_MAX) return {};
  auto& policy = l.options.policy;
  const uint32_t percent = l.options.memory_share.value_or(place.devices ? place.devices->memory_share() : 100);
  policy.kv_bytes = free / 100 * percent;
  if (generation::kv_blocks(engine, policy, l.text->max_length) >= 2) return {};
  return base::failure(base::Code::kResourceExhausted, std::to_string(percent) + " % (memory_share) of " +
                                                           base::show_size(free) +
                                                           " are too little for keys and values");
}

// Where other models hold the memory now, the error says that the load is worth another try.
base::Status no_memory(const base::Status& why, const Ranks& ranks) {
  if (why.code != base::Code::kResourceExhausted) return why;
  std::string text = why.text;
  bool others = false;
  for (device::Device* device : ranks) {
    auto memory = device->memory();
    if (!memory) return why;
    text += "; of " + base::show_size(memory->total) + " of " + device->info().id + ' ' +
            base::show_size(memory->free) + " are free";
    others = others || memory->free < memory->total - memory->total / 8;
  }
  return others ? base::try_again(why.code, text) : base::failure(why.code, text);
}

constexpr uint32_t kRunningOnDevice = 256, kStepOnDevice = 2048, kPromptSteps = 4;  // sequences, tokens, steps

// A GPU has room for more at once than a CPU, where nobody says how much.
void use_defaults_of(const device::Device& device, Loading& l) {
  if (device.info().index < 0) return;
  auto& policy = l.options.policy;
  if (!l.wanted.parameters.contains("max_running")) policy.max_running = kRunningOnDevice;
  if (!l.wanted.parameters.contains("step_tokens")) policy.step_tokens = kStepOnDevice;
  if (!l.wanted.parameters.contains("prompt_steps")) policy.prompt_steps = kPromptSteps;
  policy.step_tokens = std::max(policy.step_tokens, policy.max_running);
  if (std::exchange(policy.draft_tokens, 0) > 0)  // its steps are laid out before the tokens of the last one are known
    base::log::warning("draft_tokens is for the CPU", {{"model", l.wanted.name}});
}

// A rank's weights. What is wrong names the device where there are several.
base::Result<cuda::DeviceWeights> load_weights_of(const Loading& l, const Store& store, device::Device& device,
                                                  const cuda::TensorSplit& split) {
  auto weights = cuda::load_device_weights(l.model.shape, l.model.readouts, store, device, split,
                                           {l.options.keep, l.options.threads});
  if (weights || split.ranks == 1) return weights;
  return base::failure(weights.error().code, device.info().id + ": " + weights.error().text);
}

// Whether all of them can compute their part. Returns the kernels.
base::Result<const cuda::Kernels*> check_ranks(const Loading& l, const Ranks& ranks, const Place& place) {
  const auto count = uint32_t(ranks.size());
  if (auto s = cuda::check_split(l.model.shape, count); !s.ok()) return s;
  const Shape part = cuda::split_shape(l.model.shape, count);
  base::Result<const cuda::Kernels*> kernels = nullptr;
  for (device::Device* device : ranks) {
    kernels = cuda::open_kernels(*device, *place.devices);
    if (!kernels) return kernels;
    if (auto s = cuda::DeviceTransformer::check(part, *device, **kernels); !s.ok()) return s;
  }
  return kernels;
}

base::Result<cuda::DeviceModel> read_device_model(Loading& l, const Ranks& ranks, const Place& place) {
  auto store = open_store(l, place);
  if (!store) return store.error();
  const Shape& shape = l.model.shape;
  const auto count = uint32_t(ranks.size());
  cuda::DeviceModel model{cuda::split_shape(shape, count), l.model.readouts, {}, nullptr, l.text};
  for (uint32_t rank = 0; rank < count; ++rank) {
    auto weights = load_weights_of(l, *store, *ranks[rank], {rank, count});
    if (!weights) return weights.error();
    if (rank == 0)
      model.weights = std::move(*weights);
    else
      model.others.push_back({ranks[rank], std::move(*weights)});
  }
  if (!shape.vision) return model;
  auto team = std::make_unique<ThreadTeam>(l.options.threads, l.options.cores);
  auto vision_encoder = read_vision_encoder(l, *store, WeightFormat::kBf16, *team);
  if (!vision_encoder) return vision_encoder.error();
  model.vision = std::make_unique<VisionWorker>(shape, *l.options.kernels, std::move(team), std::move(*vision_encoder));
  return model;
}

base::Result<generation::TokenModel> load_into_devices(Loading& l, const Ranks& ranks, const Place& place,
                                                       std::shared_ptr<void> group) {
  auto kernels = check_ranks(l, ranks, place);
  if (!kernels) return kernels.error();
  auto model = read_device_model(l, ranks, place);
  if (!model) return model.error();
  model->group = std::move(group);
  device::Device& device = *ranks.front();
  use_defaults_of(device, l);
  auto& policy = l.options.policy;
  auto engine = cuda::DeviceTransformer::make(device, **kernels, std::move(*model),
                                              {.step_tokens = policy.step_tokens,
                                               .max_running = policy.max_running,
                                               .broken = place.broken,
                                               .graphs = l.options.graphs,
                                               .wgmma = l.options.wgmma,
                                               .kv_codes = cuda::codes_of(l.options.kv_format),
                                               .capture_time = cuda::capture_time(device)});
  if (!engine) return engine.error();
  if (auto s = size_kv(l, ranks, place, **engine); !s.ok()) return s;
  // Here, where another place may still be chosen if it fails.
  const generation::TokenPolicy clamped = policy.clamped();
  const uint32_t blocks = generation::kv_blocks(**engine, clamped, l.text->max_length);
  if (auto s = (*engine)->reserve(blocks, clamped.block_size); !s.ok()) return s;
  auto made = text_model(l, std::move(*engine));
  made.place = device.info().id;
  for (size_t rank = 1; rank < ranks.size(); ++rank) made.other_places.push_back(ranks[rank]->info().id);
  return made;
}

}  // namespace

base::Result<generation::TokenModel> load_on_device(Loading& l, device::Device& device, const Place& place) {
  auto ranks = cuda::choose_ranks(device, *place.devices, l.options.tensor_parallel);
  if (!ranks) return ranks.error();
  auto group = place.devices->groups().take(*ranks, l.wanted.name);
  if (!group) return group.error();
  std::vector<std::shared_ptr<void>> turns;  // in the devices' order, as all take them: none waits in a circle
  for (device::Device* each : *ranks) {
    auto turn = take_turn(place, *each);
    if (!turn) return turn.error();
    turns.push_back(std::move(*turn));
    if (auto s = each->restart(); !s.ok()) return s;
  }
  auto model = load_into_devices(l, *ranks, place, std::move(*group));
  if (!model) return no_memory(model.error(), *ranks);
  return model;
}

}  // namespace weir::llm
