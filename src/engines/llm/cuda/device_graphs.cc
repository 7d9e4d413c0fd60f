// DeviceTransformer: decode steps as graphs, and what is made ready before the first step.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/log.h"
#include "engines/llm/cuda/device_transformer.h"

namespace weir::llm::cuda {
namespace {

using base::Status;
using Clock = std::chrono::steady_clock;

constexpr size_t kPartsAtLoad = size_t(64) << 20;  // bytes: larger batches of longer texts wait until they are there
constexpr uint32_t kFirstPrompt = 512;             // tokens

uint64_t key_of(uint32_t bucket, uint32_t parts) { return uint64_t(bucket) << 32 | parts; }

// As a graph's steps: nothing but rows of one token.
const generation::TokenStep& plain_step() {
  static const generation::TokenStep step;
  return step;
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

// Nothing is in the cache yet. The smallest buckets come first: they are what most steps are. What does not fit is left
// until it is wanted.
Status DeviceTransformer::warm() {
  if (!graphs_.wanted() || options_.capture_time.count() == 0) return {};
  const auto until = Clock::now() + options_.capture_time;
  if (auto s = warm_prompt(); !s.ok()) return s;
  for (uint32_t bucket : buckets_) {
    if (!graphs_.wanted() || Clock::now() >= until) break;
    auto s = warm_bucket(bucket);
    if (s.code == base::Code::kResourceExhausted) break;
    if (!s.ok()) return s;
  }
  base::log::verbose("decode steps are graphs",
                     {{"device", queue_.device().info().id}, {"graphs", uint64_t(graphs_.size())}});
  return queue_.drain();
}

// A step as requests bring them, with a penalty, a draw and a logprob: it loads what these take.
Status DeviceTransformer::warm_prompt() {
  const auto count =
      uint32_t(std::min<uint64_t>({options_.step_tokens, model_.text->max_length, kFirstPrompt, cache_.slots()}));
  if (count == 0) return {};
  msg::Generation params;
  params.sampling.presence_penalty = 1, params.sampling.top_k = 1;
  Step step;
  step.rows.push_back({0, count, count, 0, (count + cache_.block_size() - 1) / cache_.block_size()});
  step.ids.assign(count, 0), step.positions.resize(count), step.tables.resize(step.rows[0].blocks);
  std::iota(step.positions.begin(), step.positions.end(), 0u);
  std::iota(step.tables.begin(), step.tables.end(), 0u);
  step.slots = step.positions;
  step.logits_requests.push_back(
      {.token = count - 1, .params = &params, .sequence = step.ids, .wants_logprob = true, .top = 1});
  return this->step(step);
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
