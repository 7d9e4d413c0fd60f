// DeviceTransformer: the forward pass on a device, as a TokenEngine. On CUDA with the module's kernels; on the host's
// devices with those of reference.h, so that all of this but the kernels is tested everywhere.
//
// A step goes to the device as one copy of its arguments, comes back as one copy of what was asked for, and nothing in
// between waits for the host: logits stay where they are, tokens are sampled there, and submit() returns when all is
// queued. collect() waits for what submit() has queued; the next step may be queued before that, with ids that the host
// does not know yet (TokenStep::kSampled).
//
// Steps of one token per row run as CUDA graphs (graph_set.h): one per batch bucket and parts of attention (plan.h).
// They are captured in reserve(), the smallest first, as far as the time for that lasts; prompts of every size for
// which products have an algorithm of their own run there, too, whatever time that takes, so that no request waits for
// a first use.
//
// Faults. When the device is lost (Device::fault) every step fails with UNAVAILABLE and `broken` is called, once.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "engines/llm/cuda/activations.h"
#include "engines/llm/cuda/device_kv_cache.h"
#include "engines/llm/cuda/device_sampler.h"
#include "engines/llm/cuda/device_weights.h"
#include "engines/llm/cuda/forward_pass.h"
#include "engines/llm/cuda/graph_set.h"
#include "engines/llm/cuda/kernel_queue.h"
#include "engines/llm/cuda/rank_group.h"
#include "engines/llm/cuda/step_arguments.h"
#include "engines/llm/cuda/step_masks.h"
#include "engines/llm/cuda/step_results.h"
#include "engines/llm/vision/vision_worker.h"
#include "generation/engine.h"

namespace weir::llm::cuda {

// All that a folder holds, loaded.
struct DeviceModel {
  Shape shape;        // of several ranks: the part of one (tensor_split.h)
  Readouts readouts;  // their vectors are in the weights
  DeviceWeights weights;
  std::unique_ptr<VisionWorker> vision;  // null: the model takes no images
  std::shared_ptr<const msg::TextSpec> text;
  std::vector<OtherRank> others{};  // devices that compute it together with the first
  std::shared_ptr<void> group{};    // theirs (device/groups.h), while it lives
};

struct DeviceOptions {
  uint32_t step_tokens = 512, max_running = 64;
  std::function<void(base::Status)> broken{};  // lane thread
  std::chrono::nanoseconds patience = device::kPatience;
  Graphs graphs = Graphs::kOn;
  Wgmma wgmma = Wgmma::kOn;
  KvCodes kv_codes = KvCodes::kNone;         // how keys and values are kept
  std::chrono::nanoseconds capture_time{0};  // for graphs before the first step; 0: each when it is wanted again
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
  size_t kv_bytes(size_t positions) const override { return cache_.bytes(positions); }
  base::Status reserve(uint32_t blocks, uint32_t block_size) override;
  base::Status step(generation::TokenStep& step) override;
  void copy_block(uint32_t from, uint32_t to, uint32_t positions) override;
  base::Result<generation::ImageFeatures> encode_image(const msg::Image& image) override;
  bool encodes_aside() const override { return true; }  // steps do not use the vision encoder's threads

  bool overlaps() const override { return true; }
  base::Status submit(generation::TokenStep& step) override;
  base::Status collect(generation::TokenStep& step) override;
  static constexpr size_t kStepsInFlight = 2;

  // Bytes on the device that do not depend on keys and values; on several devices of all, keys and values of each.
  uint64_t fixed_bytes() const { return model_.weights.bytes + activations_.bytes + ranks_.bytes(); }
  uint64_t weight_bytes() const { return model_.weights.bytes + ranks_.weight_bytes(); }
  size_t graphs() const { return graphs_.size(); }

  // The logits of a step's requests, where a test sets it; then submit() waits for the device.
  std::vector<float>* logits_for_tests = nullptr;

 private:
  using Step = generation::TokenStep;

  DeviceTransformer(device::Device& device, const Kernels& kernels, DeviceModel model, DeviceOptions options);
  base::Status start();

  StepInFlight& next_step() { return in_flight_[(first_ + submitted_) % kStepsInFlight]; }
  QueuedStep queued(const Step& step);
  base::Status queue(const Step& step, StepInFlight& next);
  uint32_t lay_out(const Step& step);
  base::Status download(StepInFlight& step);
  void report(const base::Status& status);

  // Graphs (device_graphs.cc). All ranks' layers, and the first one's logits where the bucket's graph has them.
  base::Status forward(const Step& step, uint32_t bucket);
  base::Status forward_and_capture(const RankStep& others, uint32_t bucket, uint64_t key);
  base::Status decode_once(uint32_t bucket);
  base::Status warm();
  base::Status warm_graphs();
  base::Status warm_bucket(uint32_t bucket);

  DeviceModel model_;
  const Shape& shape_;
  DeviceOptions options_;
  const uint32_t logits_at_once_;
  const std::vector<uint32_t> buckets_;
  KernelQueue queue_;
  RankGroup ranks_;
  Activations activations_;
  DeviceKvCache cache_;
  GraphSet graphs_;  // by bucket and parts
  ForwardPass forward_;
  DeviceSampler sampler_;
  base::Status lost_copy_;  // of copy_block(): the next step fails with it

  // The step that is being queued.
  StepLayout layout_;
  StepArguments arguments_;
  StepMasks masks_;
  device::DeviceBuffer results_;

  std::vector<StepInFlight> in_flight_;
  size_t first_ = 0, submitted_ = 0;
  uint32_t sampled_ = 0;  // ids of the last step's logits requests
};

}  // namespace weir::llm::cuda
