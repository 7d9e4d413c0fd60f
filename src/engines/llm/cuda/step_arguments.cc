#include "engines/llm/cuda/step_arguments.h"

#include <cstring>

namespace weir::llm::cuda {
namespace {

using base::Status;

constexpr size_t kArgumentAlign = 16;

}  // namespace

Status StepArguments::upload(KernelQueue& queue, const generation::TokenStep& step, const StepLayout& layout,
                             const SamplingPlan& sampling, device::PinnedBlock& staging) {
  lay_out(step, layout, sampling);
  if (build_.size() > memory_.size()) {  // addresses change
    if (auto s = fit(queue, build_.size()); !s.ok()) return s;
    lay_out(step, layout, sampling);
  }
  if (auto s = queue.fit(staging, build_.size()); !s.ok()) return s;
  std::memcpy(staging.data(), build_.data(), build_.size());
  return queue.copy(device::Way::kToDevice, device::Copy{memory_.data(), staging.data(), build_.size()});
}

Status StepArguments::fit(KernelQueue& queue, size_t bytes) {
  if (bytes <= memory_.size()) return {};
  if (auto s = queue.drain(); !s.ok()) return s;
  before_move_();
  return queue.fit(memory_, bytes);
}

void StepArguments::lay_out(const generation::TokenStep& step, const StepLayout& layout, const SamplingPlan& sampling) {
  const StepPlan& plan = layout.plan;
  const Trim& trim = layout.trim;
  build_.clear();
  at_ = {};
  at_.ids = put(plan.ids), at_.positions = put(plan.positions), at_.slots = put(plan.slots);
  at_.lengths = put(plan.lengths), at_.starts = put(plan.starts), at_.which = put(layout.which);
  at_.tables = put(step.tables);
  at_.chunks = put(plan.chunks), at_.tiles = at_.last_tiles = put(plan.tiles);
  if (trim.any) at_.last_tiles = put(trim.tiles), at_.kept = put(trim.kept);
  lay_out_sampling(sampling);
  lay_out_tokens(step, layout);
}

void StepArguments::lay_out_sampling(const SamplingPlan& sampling) {
  if (sampling.scores) at_.sampled_ids = put(sampling.ids);
  at_.draws = put(sampling.draws), at_.from = put(sampling.from), at_.to = put(sampling.to);
  at_.adjusts = put(sampling.adjusts), at_.changes = put(sampling.changes), at_.logprobs = put(sampling.logprobs);
}

// Lays out what belongs to single tokens: patches, readouts, pools.
void StepArguments::lay_out_tokens(const generation::TokenStep& step, const StepLayout& layout) {
  const StepPlan& plan = layout.plan;
  const Trim& trim = layout.trim;
  auto places = [&](const auto& things) {
    places_.clear();
    for (const auto& thing : things) places_.push_back(plan.place[thing.token]);
    return put(places_);
  };
  at_.patched = places(step.patches), at_.read_out = at_.last_read_out = places(step.readouts);
  if (trim.any) {
    for (auto& place : places_) place = trim.row[place];
    at_.last_read_out = put(places_);
  }
  pools_.clear(), pooled_.clear();
  for (const auto& pool : step.pools) {
    const auto& row = step.rows[pool.row];
    pools_.push_back({row.count > 0 ? trim.row[plan.place[row.first]] : 0, row.count});
    if (pool.sum.empty()) continue;
    pools_.back().before = uint32_t(pooled_.size() / hidden_);
    pooled_.insert(pooled_.end(), pool.sum.begin(), pool.sum.end());
  }
  at_.pools = put(pools_), at_.pooled = put(pooled_);
  build_.resize(aligned(build_.size(), kArgumentAlign));
  at_.features = reinterpret_cast<const float*>(memory_.data() + build_.size());
  for (const auto& patch : step.patches) {
    const auto* from = reinterpret_cast<const std::byte*>(patch.feature);
    build_.insert(build_.end(), from, from + hidden_ * sizeof(float));
  }
}

template <class T>
const T* StepArguments::put(const T* data, size_t count) {
  size_t at = aligned(build_.size(), kArgumentAlign);
  build_.resize(at + count * sizeof(T));
  if (count > 0) std::memcpy(build_.data() + at, data, count * sizeof(T));
  return reinterpret_cast<const T*>(memory_.data() + at);
}

}  // namespace weir::llm::cuda
