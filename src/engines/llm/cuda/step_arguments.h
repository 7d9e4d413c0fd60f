// StepArguments: what a step brings, laid out in one piece of memory that goes to the device in one copy.
//
// A graph has the addresses of what comes first, tables with it: these depend on the padded numbers of tokens, singles
// and logits requests alone.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engines/llm/cuda/kernel_queue.h"
#include "engines/llm/cuda/plan.h"
#include "engines/llm/cuda/sampling_plan.h"
#include "generation/engine.h"

namespace weir::llm::cuda {

// A step in the order of the device.
struct StepLayout {
  StepPlan plan;
  Trim trim;
  std::vector<uint32_t> which;  // per logits request: the row of its token after the last layer
  uint32_t parts = 1;           // of decode attention
};

class StepArguments {
 public:
  // Where they lie on the device.
  struct Addresses {
    const uint32_t *ids, *positions, *slots, *lengths, *starts, *which, *tables;
    const Chunk* chunks;
    const Tile *tiles, *last_tiles;  // of the last layer
    const float* features;
    const uint32_t *patched, *read_out, *last_read_out, *sampled_ids, *from, *to, *kept;
    const PoolRange* pools;
    const double* pooled;  // what the ranges' earlier rows have left
    const DrawRow* draws;
    const AdjustRow* adjusts;
    const Change* changes;
    const LogprobRow* logprobs;
  };

  // `hidden`: floats of a patch. `before_move` is called when the addresses are about to change and nothing is queued.
  StepArguments(uint32_t hidden, std::function<void()> before_move)
      : hidden_(hidden), before_move_(std::move(before_move)) {}

  // By way of `staging`, which is in use until the copy is done.
  base::Status upload(KernelQueue& queue, const generation::TokenStep& step, const StepLayout& layout,
                      const SamplingPlan& sampling, device::PinnedBlock& staging);
  // Room for arguments of so many bytes.
  base::Status fit(KernelQueue& queue, size_t bytes);
  const Addresses& at() const { return at_; }

 private:
  void lay_out(const generation::TokenStep& step, const StepLayout& layout, const SamplingPlan& sampling);
  void lay_out_sampling(const SamplingPlan& sampling);
  void lay_out_tokens(const generation::TokenStep& step, const StepLayout& layout);
  template <class T>
  const T* put(const T* data, size_t count);
  template <class T>
  const T* put(const std::vector<T>& all) {
    return put(all.data(), all.size());
  }

  const uint32_t hidden_;
  const std::function<void()> before_move_;
  device::DeviceBuffer memory_;
  std::vector<std::byte> build_;  // as they will lie there
  std::vector<uint32_t> places_;
  std::vector<PoolRange> pools_;
  std::vector<double> pooled_;
  Addresses at_{};
};

}  // namespace weir::llm::cuda
