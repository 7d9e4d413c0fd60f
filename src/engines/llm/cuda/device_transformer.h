// DeviceTransformer: the forward pass on a device, as a TokenEngine. On CUDA with the module's kernels; on the host's
// devices with those of reference.h, so that all of this but the kernels is tested everywhere.
//
// A step goes to the device as one copy of its arguments, comes back as one copy of what was asked for, and nothing in
// between waits for the host: logits stay where they are, tokens are drawn there, and submit() returns when all is
// queued. What submit() queued, collect() waits for; the next step may be queued before that, with ids that the host
// does not know yet (TokenStep::kSampled).
//
// Steps of one token per row run as CUDA graphs (graph_set.h): one per batch bucket and parts of attention (plan.h).
// They are captured in reserve(), the smallest first, as far as the time for that lasts.
//
// Faults. When the device is lost (Device::fault) every step fails with UNAVAILABLE and `broken` is called, once.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "device/await.h"
#include "device/device.h"
#include "engines/llm/cuda/device_weights.h"
#include "engines/llm/cuda/graph_set.h"
#include "engines/llm/cuda/plan.h"
#include "engines/llm/cuda/sampling_plan.h"
#include "engines/llm/vision/vision_worker.h"
#include "generation/engine.h"

namespace weir::llm::cuda {

// All that a folder holds, loaded.
struct DeviceModel {
  Shape shape;
  Readouts readouts;  // their vectors are in the weights
  DeviceWeights weights;
  std::unique_ptr<VisionWorker> sight;  // null: the model does not see
  std::shared_ptr<const msg::TextSpec> text;
};

struct DeviceOptions {
  uint32_t step_tokens = 512, max_running = 64;
  std::function<void(base::Status)> broken{};  // lane thread
  std::chrono::nanoseconds patience = device::kPatience;
  Graphs graphs = Graphs::kAtUse;
  std::chrono::nanoseconds graph_time = std::chrono::seconds(10);  // that kAtLoad may take
};

class DeviceTransformer final : public generation::TokenEngine {
 public:
  // `device` and `kernels` outlive it. Errors: as check(), RESOURCE_EXHAUSTED, UNAVAILABLE.
  static base::Result<std::unique_ptr<DeviceTransformer>> make(device::Device& device, const Kernels& kernels,
                                                               DeviceModel model, DeviceOptions options);
  ~DeviceTransformer() override;
  // Whether it can run this: UNIMPLEMENTED, FAILED_PRECONDITION (the module lacks kernels).
  static base::Status check(const Shape& shape, const device::Device& device, const Kernels& kernels);

  const msg::TextSpec& text() const override { return *model_.text; }
  size_t kv_bytes(size_t positions) const override;
  base::Status reserve(uint32_t blocks, uint32_t block_size) override;
  base::Status step(generation::TokenStep& step) override;
  void copy_block(uint32_t from, uint32_t to, uint32_t positions) override;
  base::Result<generation::ImageFeatures> encode_image(const msg::Image& image) override;
  bool encodes_aside() const override { return true; }  // steps do not use the vision encoder's threads

  bool overlaps() const override { return true; }
  base::Status submit(generation::TokenStep& step) override;
  base::Status collect(generation::TokenStep& step) override;
  static constexpr size_t kFlights = 2;

  // Bytes on the device that do not depend on keys and values.
  uint64_t fixed_bytes() const { return model_.weights.bytes + room_bytes_; }
  uint64_t weight_bytes() const { return model_.weights.bytes; }
  size_t graphs() const { return graphs_.size(); }

  // The logits of a step's looks, where a test sets it; then submit() waits for the device.
  std::vector<float>* logits_for_tests = nullptr;

 private:
  using Step = generation::TokenStep;
  // Where a step's arguments lie on the device.
  struct Args {
    const uint32_t *ids, *positions, *slots, *lengths, *starts, *which, *tables;
    const Chunk* chunks;
    const Tile *tiles, *last_tiles;  // of the last layer
    const float* features;
    const uint32_t *patched, *read_out, *last_read_out, *sampled_ids, *from, *to, *kept;
    const PoolRange* pools;
    const DrawRow* wishes;
    const AdjustRow* adjusts;
    const Change* changes;
    const LogprobRow* logprobs;
  };
  // The results of a step, as offsets in `results_` (and, after the ids, in a StepInFlight's `out`).
  struct Answers {
    size_t logprobs = 0, best_ids = 0, best = 0, readouts = 0, pools = 0, bytes = 0;
    size_t ids = 0;  // bytes of the ids, in `out`
  };
  // A step under way.
  struct StepInFlight {
    explicit StepInFlight(SamplingPlan plan) : logits_requests(std::move(plan)) {}
    device::PinnedBlock in, out;
    device::Event done;
    SamplingPlan logits_requests;
    Answers answers;
  };

  DeviceTransformer(device::Device& device, const Kernels& kernels, DeviceModel model, DeviceOptions options);
  base::Status start();
  base::Status make_room();
  size_t next_flight() const { return (first_flight_ + under_way_) % kFlights; }
  base::Status queue(const Step& step, StepInFlight& flight);
  uint32_t bucket_of(const Step& step) const;

  // Arguments.
  void lay_out(const Step& step, const StepInFlight& flight);
  template <class T>
  const T* put(const T* data, size_t count);
  template <class T>
  const T* put(const std::vector<T>& all) {
    return put(all.data(), all.size());
  }
  base::Status bring(const Step& step, StepInFlight& flight);

  // Launches.
  template <class A>
  base::Status launch(Code (*kernel)(const Launch&, const A&), const A& a);
  base::Status multiply(const Bf16* x, uint32_t rows, const Bf16* weight, const float* bias, uint32_t outputs,
                        uint32_t inputs, void* out, Matmul::Into into);
  base::Status forward(const Step& step);
  base::Status run_layer(const Step& step, uint32_t index);
  base::Status attend(uint32_t layer);
  base::Status norm(const Bf16* weight);
  base::Status drop_unwanted();
  base::Status read_out(const Step& step, uint32_t layer);
  base::Status pool(const Step& step);
  base::Status compute_logits(Range logits_requests);
  base::Status sample(const StepInFlight& flight, uint32_t bucket);
  base::Status draw(const LookGroup& group);
  base::Status weigh(const StepInFlight& flight, const LookGroup& group);
  Answers answers_of(const Step& step, const SamplingPlan& logits_requests) const;
  base::Status tell(const StepInFlight& flight);
  base::Status show_logits(Range logits_requests);

  // Graphs (device_graphs.cc).
  static uint64_t key_of(uint32_t bucket, uint32_t parts) { return uint64_t(bucket) << 32 | parts; }
  base::Status forward_as_graph(uint32_t bucket);
  base::Status decode(uint32_t bucket);
  base::Status warm();
  base::Status warm_prompt();
  base::Status warm_bucket(uint32_t bucket);

  size_t usual_arguments() const;
  base::Status fit_args(size_t bytes);
  base::Status fit_parts(size_t bytes);
  base::Status fit(device::DeviceBuffer& buffer, size_t bytes);
  base::Status fit(device::PinnedBlock& block, size_t bytes);
  base::Status drain();
  void read(Step& step, const StepInFlight& flight) const;
  void complain(const base::Status& status);

  device::Device& device_;
  const uint32_t epoch_;
  const Kernels& kernels_;
  DeviceModel model_;
  const Shape& shape_;
  DeviceOptions options_;
  const uint32_t logits_at_once_;
  const std::vector<uint32_t> buckets_;
  device::Stream stream_;
  device::Event idle_;
  Matmuls* matmuls_ = nullptr;
  base::Status lost_copy_;  // of copy_block(), for the next step to say

  // On the device.
  uint64_t room_bytes_ = 0;
  device::DeviceBuffer room_;                    // activations, of one step
  device::DeviceBuffer args_, parts_, results_;  // grow
  std::vector<device::DeviceBuffer> outgrown_;   // of parts_, which graphs still write to
  device::DeviceBuffer kv_;
  float *stream_rows_ = nullptr, *logits_ = nullptr, *adjusted_ = nullptr;
  Bf16 *normed_ = nullptr, *qkv_ = nullptr, *queries_ = nullptr, *mixed_ = nullptr, *gates_ = nullptr,
       *gated_ = nullptr, *gathered_ = nullptr;
  uint32_t* drawn_ = nullptr;   // ids of the last step's looks
  uint32_t* before_ = nullptr;  // those of the step before, for penalties, while drawn_ is written
  uint32_t drawn_count_ = 0;
  std::byte* workspace_ = nullptr;
  uint32_t blocks_ = 0, block_size_ = 0;

  // Of the step that is being queued.
  StepPlan plan_;
  Trim trim_;
  uint32_t rows_ = 0;             // that go on: all tokens, and from the last layer's attention on those of trim_
  std::vector<std::byte> build_;  // its arguments
  std::vector<uint32_t> which_, places_;
  std::vector<PoolRange> pools_;
  Args at_{};
  uint32_t part_count_ = 1;

  GraphSet graphs_;  // by bucket and parts
  std::vector<StepInFlight> flights_;
  size_t first_flight_ = 0, under_way_ = 0;
  device::PinnedBlock shown_;
};

}  // namespace weir::llm::cuda
