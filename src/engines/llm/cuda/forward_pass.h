// ForwardPass: what is launched for a step, from the embedding to logits, readouts and pools.
#pragma once

#include <cstdint>
#include <vector>

#include "engines/llm/cuda/activations.h"
#include "engines/llm/cuda/device_kv_cache.h"
#include "engines/llm/cuda/device_weights.h"
#include "engines/llm/cuda/kernel_queue.h"
#include "engines/llm/cuda/step_arguments.h"
#include "engines/llm/cuda/step_results.h"
#include "engines/llm/options.h"

namespace weir::llm::cuda {

// A step whose arguments are on their way to the device. All borrowed.
struct QueuedStep {
  const generation::TokenStep& step;
  const StepLayout& layout;
  const StepArguments::Addresses& at;
  const ResultLayout& results;
  std::byte* out;         // the results on the device
  const uint32_t* masks;  // there, SamplingPlan::masked
};

class ForwardPass {
 public:
  // All outlive it.
  ForwardPass(KernelQueue& queue, const Shape& shape, const DeviceWeights& weights, const Readouts& readouts,
              const Activations& activations, const DeviceKvCache& cache)
      : queue_(queue), shape_(shape), weights_(weights), readouts_(readouts), memory_(activations), cache_(cache) {}

  // Once, at first: memory for decode attention of so many rows in so many parts, or as much of that as its share of
  // the device holds, but one row's at least. Steps that would need more attend to fewer rows at a time.
  base::Status reserve_parts(uint32_t rows, uint32_t parts);

  // Once, at first: which kernel computes attention of prompts (wgmma_check.h).
  base::Status choose_prefill(Wgmma wanted);

  // All layers and the last norm. Afterwards compute_logits().
  base::Status run(const QueuedStep& queued);
  // Computes the logits requests [first, first + count) into rows [0, count) of the activations' logits.
  base::Status compute_logits(const QueuedStep& queued, Range requests);

 private:
  base::Status run_layer(const QueuedStep& queued, uint32_t index);
  base::Status run_attention(const QueuedStep& queued, uint32_t index);
  base::Status decode_attention(const QueuedStep& queued, uint32_t layer);
  base::Status prefill_attention(const QueuedStep& queued, uint32_t layer);
  base::Status run_mlp(const DeviceLayer& layer);
  // The residual stream takes what x weight^T (+ bias) makes of all ranks' inputs, normalised first where there is a
  // norm for that.
  struct AddedProduct {
    const Bf16* x;
    DeviceMatrix weight;
    const float* bias;
    uint32_t inputs;
    const Bf16* norm;
  };
  base::Status add_product(const AddedProduct& a);
  base::Status add_normed(const AddedProduct& a);
  base::Status embed(const QueuedStep& queued);
  // In place of the MLP, where a layer is a mixture (forward_experts.cc).
  base::Status run_experts(const DeviceLayer& layer);
  base::Status multiply_experts(const DeviceExperts& weights);
  base::Status run_shared_expert(const DeviceExperts& weights);
  base::Status norm(const Bf16* weight);  // null: rows are only rounded
  // Where the model normalises the heads of a row together; after that its biases are in them.
  base::Status norm_heads(const DeviceLayer& layer);
  // The residual stream's norm and a product of it, in one kernel where the rows are few.
  base::Status multiply_normed(NormMatmul a);
  base::Status zero_arrived(uint32_t rows);
  base::Status drop_unwanted(const QueuedStep& queued);
  base::Status read_out(const QueuedStep& queued, uint32_t layer);
  base::Status pool(const QueuedStep& queued);
  // Whether rows that nobody wants are dropped in that layer.
  bool trims(const QueuedStep& queued, uint32_t layer) const {
    return queued.layout.trim.any && layer + 1 == shape_.layers;
  }
  // Decode attention turns its rows itself: they are all there are.
  bool turns_in_attention(const QueuedStep& queued) const { return queued.layout.plan.lengths.size() == rows_; }
  RopeStore rope_of_layer(const QueuedStep& queued, uint32_t layer) const;

  KernelQueue& queue_;
  const Shape& shape_;
  const DeviceWeights& weights_;
  const Readouts& readouts_;
  const Activations& memory_;
  const DeviceKvCache& cache_;
  device::DeviceBuffer parts_;
  device::DeviceBuffer arrived_;  // zeros between kernels
  uint32_t most_at_once_ = 1;     // rows of a decode attention that arrived_ is for
  PrefillAttention::With prefill_with_ = PrefillAttention::kMma;
  uint32_t rows_ = 0;  // that go on: all tokens, and from the last layer's attention on those of the trim
};

}  // namespace weir::llm::cuda
