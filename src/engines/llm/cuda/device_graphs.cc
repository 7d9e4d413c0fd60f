// DeviceTransformer: decode steps as graphs, and what is made ready before the first step.
#include <algorithm>
#include <chrono>
#include <numeric>
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
constexpr int kProductsShare = 4;                  // of the time for graphs, in which products are chosen

uint64_t key_of(uint32_t bucket, uint32_t parts) { return uint64_t(bucket) << 32 | parts; }

// As a graph's steps: nothing but rows of one token.
const generation::TokenStep& plain_step() {
  static const generation::TokenStep step;
  return step;
}

// A prompt as requests bring them, with draws of every kind, a penalty and logprobs.
struct WarmPrompt {
  WarmPrompt(uint32_t count, uint32_t block_size) {
    greedy.sampling.temperature = 0;
    penalised.sampling.presence_penalty = 1, penalised.sampling.top_k = 1;
    random.sampling.top_p = 0.9f, random.sampling.min_p = 0.01f;
    step.rows.push_back({0, count, count, 0, (count + block_size - 1) / block_size});
    step.ids.assign(count, 0), step.positions.resize(count), step.tables.resize(step.rows[0].blocks);
    std::iota(step.positions.begin(), step.positions.end(), 0u);
    std::iota(step.tables.begin(), step.tables.end(), 0u);
    step.slots = step.positions;
    uint32_t token = count - std::min(count, 3u);
    for (const auto* params : {&greedy, &penalised, &random}) {
      if (token == count) break;
      step.logits_requests.push_back(
          {.token = token++, .params = params, .sequence = step.ids, .wants_logprob = true, .top = 1});
    }
  }
  msg::Generation greedy, penalised, random;
  generation::TokenStep step;
};

// Each kernel is loaded when it is launched first.
Status load_kernels(generation::TokenEngine& engine, uint32_t tokens, uint32_t block_size, const Readouts& readouts) {
  if (tokens == 0) return {};
  WarmPrompt prompt(tokens, block_size);
  if (!readouts.layers.empty()) prompt.step.readouts.push_back({tokens - 1, {}});
  prompt.step.pools.push_back({0, {}});
  return engine.step(prompt.step);
}

// For each of its buckets of rows the library chooses, and loads, an algorithm.
Status choose_products(generation::TokenEngine& engine, uint32_t longest, uint32_t block_size,
                       std::chrono::nanoseconds time) {
  const auto until = Clock::now() + time;
  for (uint32_t size : prompt_sizes(longest)) {
    if (Clock::now() >= until) break;
    WarmPrompt prompt(size, block_size);
    if (auto s = engine.step(prompt.step); !s.ok()) return s;
  }
  return {};
}

}  // namespace

// All up to the logits, as a graph of the bucket where there is one.
Status DeviceTransformer::decode(uint32_t bucket) {
  return graphs_.run(key_of(bucket, layout_.parts), [&] { return decode_once(bucket); });
}

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
  auto status = each([&] { return load_kernels(*this, std::min(longest, kFirstPrompt), block, model_.readouts); },
                     [&] { return warm_graphs(); },
                     [&] { return choose_products(*this, longest, block, options_.capture_time / kProductsShare); });
  base::log::verbose("decode steps are graphs",
                     {{"device", queue_.device().info().id}, {"graphs", uint64_t(graphs_.size())}});
  return status.ok() ? queue_.drain() : status;
}

// The smallest buckets come first: they are what most steps are. What does not fit is left until it is wanted.
Status DeviceTransformer::warm_graphs() {
  const auto until = Clock::now() + options_.capture_time;
  for (uint32_t bucket : buckets_) {
    if (!graphs_.wanted() || Clock::now() >= until) break;
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
  bool loaded = false;
  for (uint32_t parts : part_counts(longest, model_.text->max_length)) {
    if (part_memory(bucket, shape_.heads, shape_.head_dim, parts).bytes > kPartsAtLoad || !graphs_.wanted()) break;
    if (auto s = forward_.fit_parts(bucket, parts); !s.ok()) return s;
    layout_.parts = parts;
    if (!std::exchange(loaded, true))
      if (auto s = decode_once(bucket); !s.ok()) return s;
    if (auto s = graphs_.make(key_of(bucket, parts), [&] { return decode_once(bucket); }); !s.ok()) return s;
  }
  return queue_.drain();  // the next bucket's arguments take the place of these
}

}  // namespace weir::llm::cuda
