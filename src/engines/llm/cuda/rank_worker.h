// RankWorker: what another rank than the first does of a step: its part of every layer, on its own device, with its own
// keys and values. A thread of its own queues that while the model's thread queues the first rank's: a call of a
// collective may wait for the other ranks'.
//
// All but the work that is given to begin() is called by the model's thread, and not between begin() and finish().
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "engines/llm/cuda/activations.h"
#include "engines/llm/cuda/device_kv_cache.h"
#include "engines/llm/cuda/device_weights.h"
#include "engines/llm/cuda/forward_pass.h"
#include "engines/llm/cuda/graph_set.h"
#include "engines/llm/cuda/kernel_queue.h"
#include "engines/llm/cuda/step_arguments.h"

namespace weir::llm::cuda {

// A step as the first rank has laid it out. Borrowed while it is queued.
struct RankStep {
  const generation::TokenStep& step;
  const StepLayout& layout;
  const SamplingPlan& sampling;
  size_t slot;  // of the steps in flight
};

struct RankLimits {
  size_t tokens = 0;                // of a step
  uint32_t running = 0, parts = 0;  // sequences, and parts of the attention of one
  size_t steps = 0;                 // in flight
  std::chrono::nanoseconds patience{};
  Graphs graphs = Graphs::kOn;
  Wgmma wgmma = Wgmma::kOn;
  KvCodes kv_codes = KvCodes::kNone;
};

class RankWorker {
 public:
  // `device` and `kernels` outlive it; `shape` is the rank's part of the model's.
  RankWorker(device::Device& device, const Kernels& kernels, Shape shape, DeviceWeights weights, RankLimits limits);
  ~RankWorker();

  // Memory and kernels. Errors: RESOURCE_EXHAUSTED, UNAVAILABLE, FAILED_PRECONDITION.
  base::Status open();
  // Keys and values, and `arguments` bytes for those of a step.
  base::Status reserve(uint32_t blocks, uint32_t block_size, size_t arguments);
  base::Status copy_block(uint32_t from, uint32_t to, uint32_t positions) {
    return cache_.copy_block(queue_, from, to, positions);
  }
  // Before the device's memory is given back.
  void close();

  // Does `work` on the worker's thread; finish() waits for it.
  void begin(std::function<base::Status()> work);
  base::Status finish();

  // The work. Queues a step; as the graph of that key, where it has one.
  base::Status queue(const RankStep& step, std::optional<uint64_t> key);
  // Makes the graph of that key, of a step that has been queued.
  base::Status make_graph(const RankStep& step, uint64_t key);

  // The end of the step of that slot.
  const device::Event& done(size_t slot) const { return slots_[slot].done; }
  bool graphs_wanted() const { return graphs_.wanted(); }
  bool has_graph(uint64_t key) const { return graphs_.has(key); }
  void clear_graphs() { graphs_.clear(); }
  uint64_t bytes() const { return weights_.bytes + activations_.bytes; }
  uint64_t weight_bytes() const { return weights_.bytes; }
  KernelQueue& queue() { return queue_; }

 private:
  struct Slot {
    device::PinnedBlock staging;  // of its arguments
    device::Event done;
  };

  base::Status pass(const RankStep& step);
  void work_off();

  const Shape shape_;
  const DeviceWeights weights_;
  const Readouts no_readouts_;
  const RankLimits limits_;
  KernelQueue queue_;
  Activations activations_;
  DeviceKvCache cache_;
  GraphSet graphs_;
  ForwardPass forward_;
  StepArguments arguments_;
  std::vector<Slot> slots_;

  std::mutex mutex_;  // over all that follows
  std::condition_variable changed_;
  std::function<base::Status()> work_;  // null: there is none
  base::Status status_;                 // of what was done
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace weir::llm::cuda
