// The third part of DeviceTransformer: decode steps as graphs, and what is made ready before the first step.
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

}  // namespace

// What a graph of a bucket does: all up to the logits.
Status DeviceTransformer::decode(uint32_t bucket) {
  static const Step kPlain;
  auto status = forward(kPlain);
  return status.ok() ? compute_logits({0, bucket}) : status;
}

Status DeviceTransformer::forward_as_graph(uint32_t bucket) {
  return graphs_.run(key_of(bucket, part_count_), [&] { return decode(bucket); });
}

// Nothing is in the cache yet. The smallest buckets come first: they are what most steps are. What does not fit is left
// until it is wanted.
Status DeviceTransformer::warm() {
  const auto until = Clock::now() + options_.graph_time;
  if (auto s = warm_prompt(); !s.ok()) return s;
  for (uint32_t bucket : buckets_) {
    if (!graphs_.wanted() || Clock::now() >= until) break;
    auto s = warm_bucket(bucket);
    if (s.code == base::Code::kResourceExhausted) break;
    if (!s.ok()) return s;
  }
  base::log::verbose("decode steps are graphs", {{"device", device_.info().id}, {"graphs", uint64_t(graphs_.size())}});
  return drain();
}

// A step as requests bring them, with a penalty, a draw and a logprob: it loads what these take.
Status DeviceTransformer::warm_prompt() {
  const auto count = uint32_t(std::min<uint64_t>(
      {options_.step_tokens, model_.text->max_length, kFirstPrompt, uint64_t(blocks_) * block_size_}));
  if (count == 0) return {};
  msg::Generation params;
  params.sampling.presence_penalty = 1, params.sampling.top_k = 1;
  Step step;
  step.rows.push_back({0, count, count, 0, (count + block_size_ - 1) / block_size_});
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
  static const Step kPlain;
  auto& flight = flights_[next_flight()];
  plan_step(kPlain, plan_), plan_trim(kPlain, plan_, trim_);
  pad(plan_, bucket), which_.assign(bucket, 0);
  flight.logits_requests.plan({});
  if (auto s = bring(kPlain, flight); !s.ok()) return s;
  const auto longest = uint32_t(std::min<uint64_t>(uint64_t(blocks_) * block_size_, model_.text->max_length));
  bool loaded = false;
  for (uint32_t parts : part_counts(longest, model_.text->max_length)) {
    const size_t memory = part_memory(bucket, shape_.heads, shape_.head_dim, parts).bytes;
    if (memory > kPartsAtLoad || !graphs_.wanted()) break;
    if (auto s = fit_parts(memory); !s.ok()) return s;
    part_count_ = parts;
    if (!std::exchange(loaded, true))
      if (auto s = decode(bucket); !s.ok()) return s;
    if (auto s = graphs_.make(key_of(bucket, parts), [&] { return decode(bucket); }); !s.ok()) return s;
  }
  return drain();  // the next bucket's arguments take the place of these
}

}  // namespace weir::llm::cuda
