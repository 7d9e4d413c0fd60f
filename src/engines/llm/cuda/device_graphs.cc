// DeviceTransformer: decode steps as graphs, and what is made ready before the first step.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <utility>

#include "base/log.h"
#include "engines/llm/cuda/device_transformer.h"
#include "engines/llm/cuda/launches.h"

namespace weir::llm::cuda {
namespace {

using base::Status;
using Clock = std::chrono::steady_clock;

constexpr size_t kPartsAtLoad = size_t(64) << 20;  // bytes: larger batches of longer texts wait until they are there
constexpr uint32_t kFirstPrompt = 512;             // tokens
constexpr uint32_t kAlwaysChosen = 2048;           // tokens of a step
constexpr int kProductsShare = 4;  // of the time for graphs, in which products of larger steps are chosen

uint64_t key_of(uint32_t bucket, uint32_t parts) { return uint64_t(bucket) << 32 | parts; }

// As a graph's steps: nothing but rows of one token.
const generation::TokenStep& plain_step() {
  static const generation::TokenStep step;
  return step;
}

// Prompts as requests bring them, with draws of every kind, a penalty and logprobs.
struct WarmPrompts {
  // `tokens` in prompts of at most `longest`, which share the first blocks of the cache: nothing is in it yet. So many
  // of the last tokens have their logits wanted.
  WarmPrompts(uint32_t tokens, uint32_t longest, uint32_t block_size, uint32_t wanted) {
    greedy.sampling.temperature = 0;
    penalised.sampling.presence_penalty = 1, penalised.sampling.top_k = 1;
    random.sampling.top_p = 0.9f, random.sampling.min_p = 0.01f;
    step.ids.assign(tokens, 0), step.tables.resize((std::min(tokens, longest) + block_size - 1) / block_size);
    std::iota(step.tables.begin(), step.tables.end(), 0u);
    for (uint32_t first = 0; first < tokens; first += longest) {
      const uint32_t count = std::min(longest, tokens - first);
      step.rows.push_back({first, count, count, 0, (count + block_size - 1) / block_size});
      for (uint32_t at = 0; at < count; ++at) step.positions.push_back(at), step.slots.push_back(at);
    }
    for (uint32_t token = tokens - wanted; token < tokens; ++token) {
      const uint32_t kind = token - (tokens - wanted);
      const auto* params = kind == 1 ? &penalised : kind == 2 ? &random : &greedy;
      step.logits_requests.push_back({.token = token,
                                      .row = token / longest,
                                      .params = params,
                                      .sequence = step.ids,
                                      .wants_logprob = kind < 3,
                                      .top = kind < 3 ? 1u : 0u});
    }
  }
  msg::Generation greedy, penalised, random;
  generation::TokenStep step;
};

// A step that uses each kernel, before graphs are made of some.
Status use_kernels(generation::TokenEngine& engine, uint32_t tokens, uint32_t block_size, const Readouts& readouts) {
  if (tokens == 0) return {};
  WarmPrompts prompts(tokens, tokens, block_size, std::min(tokens, 3u));
  if (!readouts.layers.empty()) prompts.step.readouts.push_back({tokens - 1, {}});
  prompts.step.pools.push_back({0, {}});
  return engine.step(prompts.step);
}

// Steps of prompts, of which products are chosen.
struct StepSizes {
  uint32_t tokens, prompt, block, wanted;  // of a step at most; of a prompt and of a block; whose logits are wanted
};

// For each of its buckets of rows the library chooses, and loads, an algorithm of every product, the logits' too. Steps
// of usual sizes are made ready however long that takes: what is left would be late when a request waits.
Status choose_products(generation::TokenEngine& engine, const StepSizes& most, std::chrono::nanoseconds time) {
  if (most.prompt == 0) return {};
  const auto until = Clock::now() + time;
  for (uint32_t size : prompt_sizes(most.tokens)) {
    if (size > kAlwaysChosen && Clock::now() >= until) break;
    WarmPrompts prompts(size, most.prompt, most.block, std::min(size, most.wanted));
    if (auto s = engine.step(prompts.step); !s.ok()) return s;
  }
  return {};
}

}  // namespace

Status DeviceTransformer::forward(const Step& step, uint32_t bucket) {
  const RankStep others{step, layout_, next_step().sampling, (first_ + submitted_) % kStepsInFlight};
  if (bucket == 0)
    return ranks_.together([&] { return forward_.run(queued(step)); },
                           [&](RankWorker& rank) { return rank.queue(others, {}); });
  const uint64_t key = key_of(bucket, layout_.parts);
  if (ranks_.several() && !ranks_.have_graph(key)) return forward_and_capture(others, bucket, key);
  return ranks_.together([&] { return graphs_.run(key, [&] { return decode_once(bucket); }); },
                         [&](RankWorker& rank) { return rank.queue(others, key); });
}

// Where several devices compute together, all of them launch a graph or none does: it is captured behind a step, for
// the next one, and a device that has failed to keeps all of them without graphs from then on.
Status DeviceTransformer::forward_and_capture(const RankStep& others, uint32_t bucket, uint64_t key) {
  auto status =
      ranks_.together([&] { return decode_once(bucket); }, [&](RankWorker& rank) { return rank.queue(others, {}); });
  if (!status.ok() || !graphs_.wanted_again(key)) return status;
  return ranks_.together([&] { return graphs_.make(key, [&] { return decode_once(bucket); }); },
                         [&](RankWorker& rank) { return rank.make_graph(others, key); });
}

// All up to the logits.
Status DeviceTransformer::decode_once(uint32_t bucket) {
  const QueuedStep step = queued(plain_step());
  auto status = forward_.run(step);
  return status.ok() ? forward_.compute_logits(step, {0, bucket}) : status;
}

// Nothing is in the cache yet.
Status DeviceTransformer::warm() {
  if (options_.capture_time.count() == 0) return {};
  const uint32_t block = cache_.block_size(),
                 longest =
                     uint32_t(std::min<uint64_t>({options_.step_tokens, model_.text->max_length, cache_.slots()}));
  auto status = each([&] { return use_kernels(*this, std::min(longest, kFirstPrompt), block, model_.readouts); },
                     [&] {
                       return ranks_.time_products([&] {
                         return choose_products(*this, {options_.step_tokens, longest, block, logits_at_once_},
                                                options_.capture_time / kProductsShare);
                       });
                     },
                     [&] { return warm_graphs(); });
  base::log::verbose("decode steps are graphs",
                     {{"device", queue_.device().info().id}, {"graphs", uint64_t(graphs_.size())}});
  return status.ok() ? queue_.drain() : status;
}

// The smallest buckets come first: they are what most steps are. What does not fit is left until it is wanted.
Status DeviceTransformer::warm_graphs() {
  const auto until = Clock::now() + options_.capture_time;
  for (uint32_t bucket : buckets_) {
    if (!graphs_.wanted() || !ranks_.graphs_wanted() || Clock::now() >= until) break;
    auto s = warm_bucket(bucket);
    if (s.code == base::Code::kResourceExhausted) break;
    if (!s.ok()) return s;
  }
  return {};
}

// Idle rows alone. The kernels that it takes are the same for all numbers of parts: one run loads them.
Status DeviceTransformer::warm_bucket(uint32_t bucket) {
  StepInFlight& next = next_step();
  plan_step(plain_step(), layout_.plan), plan_trim(plain_step(), layout_.plan, layout_.trim);
  pad(layout_.plan, bucket), layout_.which.assign(bucket, 0);
  next.sampling.plan({});
  if (auto s = arguments_.upload(queue_, plain_step(), layout_, next.sampling, next.in); !s.ok()) return s;
  const auto longest = uint32_t(std::min<uint64_t>(cache_.slots(), model_.text->max_length));
  const RankStep others{plain_step(), layout_, next.sampling, (first_ + submitted_) % kStepsInFlight};
  bool loaded = false;
  for (uint32_t parts : part_counts(longest, model_.text->max_length)) {
    if (part_memory(bucket, shape_.heads, shape_.head_dim, parts).bytes > kPartsAtLoad || !graphs_.wanted()) break;
    layout_.parts = parts;
    const uint64_t key = key_of(bucket, parts);
    auto status = std::exchange(loaded, true)
                      ? Status()
                      : ranks_.together([&] { return decode_once(bucket); },
                                        [&](RankWorker& rank) { return rank.queue(others, {}); });
    if (!status.ok()) return status;
    status = ranks_.together([&] { return graphs_.make(key, [&] { return decode_once(bucket); }); },
                             [&](RankWorker& rank) { return rank.make_graph(others, key); });
    if (!status.ok()) return status;
  }
  return queue_.drain();  // the next bucket's arguments take the place of these
}

}  // namespace weir::llm::cuda
