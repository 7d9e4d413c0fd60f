// ForwardPass: a layer that is a mixture of experts. The host never learns what the router has chosen.
#include "engines/llm/cuda/forward_pass.h"
#include "engines/llm/cuda/launches.h"

namespace weir::llm::cuda {

using base::Status;
using Into = Matmul::Into;

Status ForwardPass::run_experts(const DeviceLayer& layer) {
  const ExpertShape& shape = *shape_.experts;
  const ExpertActivations& m = memory_.experts;
  const DeviceExperts& weights = layer.experts;
  const uint32_t stride = scores_of(shape), hidden = shape_.hidden;
  const auto of = shape.normalised ? Route::kOfUsed : Route::kOfAll;
  return each([&] { return norm(layer.post_norm); },
              [&] {
                return queue_.multiply(memory_.normed, rows_, weights.router, weights.router_bias, stride, hidden,
                                       m.scores, Into::kF32);
              },
              [&] {
                return queue_.launch(queue_.kernels().experts.route,
                                     Route{m.scores, m.chosen, m.shares, rows_, shape.count, shape.used, stride,
                                           shape_.residual_scale, of});
              },
              [&] { return multiply_experts(weights); }, [&] { return run_shared_expert(weights); },
              [&] {
                return queue_.launch(queue_.kernels().experts.add_experts,
                                     AddExperts{memory_.residual, m.answers, m.shares, m.shared, m.scores, rows_,
                                                shape.used, hidden, stride, shape.count, shape_.residual_scale});
              });
}

Status ForwardPass::multiply_experts(const DeviceExperts& weights) {
  const ExpertShape& shape = *shape_.experts;
  const ExpertActivations& m = memory_.experts;
  const uint32_t pairs = rows_ * shape.used;
  const bool sorted = rows_ > kPairRows;
  ExpertMatmul up{}, down{};
  up.x = memory_.normed, up.weight = weights.gate_up, up.out = m.gated, up.per = shape.used;
  up.outputs = shape.width, up.inputs = shape_.hidden, up.into = ExpertMatmul::kSwiGlu;
  up.bias = weights.gate_up_bias, up.kind = gate_of(shape_.activation), down.bias = weights.down_bias;
  down.x = m.gated, down.weight = weights.down, down.out = m.answers, down.per = 1;
  down.outputs = shape_.hidden, down.inputs = shape.width, down.into = ExpertMatmul::kF32;
  for (auto* a : {&up, &down}) {
    a->experts = m.chosen, a->pairs = pairs, a->count = shape.count;
    if (sorted) a->order = m.order, a->tiles = m.tiles;
  }
  return each(
      [&] {
        return sorted ? queue_.launch(queue_.kernels().experts.place_pairs,
                                      PlacePairs{m.chosen, m.order, m.tiles, pairs, shape.count})
                      : Status();
      },
      [&] { return queue_.launch(queue_.kernels().experts.expert_matmul, up); },
      [&] { return queue_.launch(queue_.kernels().experts.expert_matmul, down); });
}

Status ForwardPass::run_shared_expert(const DeviceExperts& weights) {
  const uint32_t width = shape_.experts->shared_width, hidden = shape_.hidden;
  if (width == 0) return {};
  return each(
      [&] {
        return queue_.multiply(memory_.normed, rows_, weights.shared_gate_up, nullptr, 2 * width, hidden, memory_.gates,
                               Into::kBf16);
      },
      [&] {
        return queue_.launch(queue_.kernels().swiglu,
                             SwiGlu{memory_.gates, memory_.gated, rows_, width, nullptr, gate_of(shape_.activation)});
      },
      [&] {
        return queue_.multiply(memory_.gated, rows_, weights.shared_down, nullptr, hidden, width,
                               memory_.experts.shared, Into::kF32);
      });
}

}  // namespace weir::llm::cuda
