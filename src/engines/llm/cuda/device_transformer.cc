#include "engines/llm/cuda/device_transformer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "engines/llm/cuda/choice.h"
#include "engines/llm/cuda/launches.h"
#include "engines/llm/step_check.h"

namespace weir::llm::cuda {
namespace {

using base::Status;
using device::Copy;
using device::Way;

constexpr uint32_t kLogitsLeast = 32, kLogitsMost = 256;  // rows of logits that are there at once
constexpr uint32_t kVocabularyEnd = 1u << 20;             // of the kernels
constexpr size_t kFirstBuffer = size_t(256) << 10;
constexpr size_t kArgumentsOfToken = 256;  // bytes: all that StepArguments has of a token whose logits are wanted
constexpr size_t kUsualArguments = size_t(64) << 20;

Status check_shape(const Shape& s, const device::Device& device) {
  if (s.vocabulary < kVocabularyEnd) return check_widths(s, device);
  return base::failure(base::Code::kUnimplemented, "a vocabulary of " + std::to_string(s.vocabulary) +
                                                       " is not known to the kernels of devices; use device: cpu");
}

bool has_experts(const ExpertKernels& k) { return k.route && k.place_pairs && k.expert_matmul && k.add_experts; }

Status check_kernels(const Kernels& k, const Shape& shape) {
  if (shape.experts && !has_experts(k.experts))
    return base::failure(base::Code::kFailedPrecondition, "libweir_cuda.so has no kernels for experts");
  if (k.abi == kKernelsAbi && k.load && k.embed && k.add_norm && k.rope_store && k.swiglu && k.decode_attention &&
      k.draw && k.gather && k.patch && k.prefill_attention && k.matmul_open && k.matmul_close && k.matmul && k.adjust &&
      k.logprobs && k.read_out && k.pool && k.norm_matmul && k.add_normed && k.norm_whole && k.soft_cap)
    return {};
  return base::failure(base::Code::kFailedPrecondition, "libweir_cuda.so lacks kernels of this build");
}

// The size of most steps' arguments; the very largest steps make the buffer grow.
size_t usual_arguments(const Shape& shape, const DeviceOptions& options, uint32_t blocks_per_row) {
  const size_t tokens = std::max(options.step_tokens, options.max_running), rows = size_t(2) * options.max_running;
  const size_t tables = rows * blocks_per_row * sizeof(uint32_t);
  const size_t features = shape.vision ? tokens * shape.hidden * sizeof(float) : 0;
  return std::min(tokens * kArgumentsOfToken + tables + features + kFirstBuffer, kUsualArguments);
}

// Rows of one token and nothing else: what a graph can do.
bool is_decode(const generation::TokenStep& step, const StepPlan& plan) {
  return plan.chunks.empty() && step.patches.empty() && step.readouts.empty() && step.pools.empty() &&
         step.logits_requests.size() <= plan.singles;
}

}  // namespace

Status DeviceTransformer::check(const Shape& shape, const device::Device& device, const Kernels& kernels) {
  auto status = check_kernels(kernels, shape);
  return status.ok() ? check_shape(shape, device) : status;
}

base::Result<std::unique_ptr<DeviceTransformer>> DeviceTransformer::make(device::Device& device, const Kernels& kernels,
                                                                         DeviceModel model, DeviceOptions options) {
  if (auto s = check(model.shape, device, kernels); !s.ok()) return s;
  std::unique_ptr<DeviceTransformer> out(new DeviceTransformer(device, kernels, std::move(model), std::move(options)));
  if (auto s = out->start(); !s.ok()) return s;
  return out;
}

DeviceTransformer::DeviceTransformer(device::Device& device, const Kernels& kernels, DeviceModel model,
                                     DeviceOptions options)
    : model_(std::move(model)),
      shape_(model_.shape),
      options_(std::move(options)),
      logits_at_once_(std::clamp(options_.max_running, kLogitsLeast, kLogitsMost)),
      buckets_(graph_buckets(std::min(options_.max_running, logits_at_once_))),
      queue_(device, kernels, options_.patience),
      ranks_(queue_, graphs_),
      cache_(shape_, options_.kv_codes),
      graphs_(device, queue_.stream(), options_.graphs),
      forward_(queue_, shape_, model_.weights, model_.readouts, activations_, cache_),
      sampler_(queue_, shape_, activations_),
      arguments_(shape_.hidden, [this] { graphs_.clear(); }),
      masks_(shape_.vocabulary) {}

DeviceTransformer::~DeviceTransformer() {
  ranks_.close();
  queue_.close();
}

Status DeviceTransformer::start() {
  if (auto s = queue_.open(device::Device::Priority::kUrgent); !s.ok()) return s;
  if (auto s = forward_.choose_prefill(options_.wgmma); !s.ok()) return s;
  for (size_t i = 0; i < kStepsInFlight; ++i) {
    in_flight_.emplace_back(
        SamplingPlan(shape_.vocabulary, model_.text->eos_ids, logits_at_once_, shape_.placeholders()));
    auto done = queue_.device().event();
    if (!done) return done.error();
    in_flight_.back().done = std::move(*done);
  }
  // Parts for the longest texts of as many sequences as run: no step allocates.
  const uint32_t running = std::max(options_.max_running, 1u), parts = parts_of(model_.text->max_length);
  const size_t tokens = std::max(options_.step_tokens, running);
  return each(
      [&] { return activations_.allocate(queue_.device(), shape_, tokens, logits_at_once_); },
      [&] { return arguments_.fit(queue_, kFirstBuffer); }, [&] { return forward_.reserve_parts(running, parts); },
      [&] { return queue_.fit(results_, kFirstBuffer); }, [&] { return queue_.open_products(activations_.workspace); },
      [&] {
        return ranks_.open(std::move(model_.others), shape_,
                           {tokens, running, parts, kStepsInFlight, options_.patience, options_.graphs, options_.wgmma,
                            options_.kv_codes});
      });
}

Status DeviceTransformer::reserve(uint32_t blocks, uint32_t block_size) {
  if (cache_.block_size() == block_size && cache_.blocks() >= blocks) return {};
  const size_t arguments = usual_arguments(shape_, options_, model_.text->max_length / block_size + 1);
  return each([&] { return cache_.reserve(queue_.device(), blocks, block_size); },
              [&] { return arguments_.fit(queue_, arguments); },
              [&] { return ranks_.reserve(blocks, block_size, arguments); },
              [&] {
                Status status;  // forms on all sequences that run: no step allocates for their masks
                for (auto& step : in_flight_)
                  if (status.ok()) status = masks_.fit(queue_, step.masks, options_.max_running);
                return status;
              },
              [&] { return warm(); });
}

void DeviceTransformer::copy_block(uint32_t from, uint32_t to, uint32_t positions) {
  auto status = each([&] { return cache_.copy_block(queue_, from, to, positions); },
                     [&] { return ranks_.copy_block(from, to, positions); });
  if (!status.ok()) lost_copy_ = std::move(status);
}

base::Result<generation::ImageFeatures> DeviceTransformer::encode_image(const msg::Image& image) {
  if (!model_.vision) return base::failure(base::Code::kUnimplemented, "the model takes no images");
  return model_.vision->encode_image(image);
}

// --- steps -----------------------------------------------------------------------------------------------------------

Status DeviceTransformer::step(Step& step) {
  if (auto s = submit(step); !s.ok()) return s;
  return collect(step);
}

Status DeviceTransformer::submit(Step& step) {
  base::check(submitted_ < kStepsInFlight, "a step is submitted when there is room for one");
  StepInFlight& next = next_step();
  auto status = queue(step, next);
  if (status.ok()) status = queue_.record(next.done);
  sampled_ = status.ok() ? uint32_t(step.logits_requests.size()) : 0;
  if (status.ok())
    ++submitted_;
  else
    report(status);
  return status;
}

Status DeviceTransformer::collect(Step& step) {
  base::check(submitted_ > 0, "a step is collected that was submitted");
  const StepInFlight& oldest = in_flight_[first_];
  auto status = ranks_.await(oldest.done, first_);
  first_ = (first_ + 1) % kStepsInFlight, --submitted_;
  if (status.ok())
    read_results(oldest, shape_, model_.readouts, step);
  else
    report(status);
  return status;
}

void DeviceTransformer::report(const Status& status) {
  if ((queue_.lost() || !ranks_.lost().ok()) && options_.broken) std::exchange(options_.broken, nullptr)(status);
}

// Returns the bucket of the graph that does it; 0: none does.
uint32_t DeviceTransformer::lay_out(const Step& step) {
  plan_step(step, layout_.plan);
  plan_trim(step, layout_.plan, layout_.trim);
  layout_.which.clear();
  for (const auto& request : step.logits_requests)
    layout_.which.push_back(layout_.trim.row[layout_.plan.place[request.token]]);
  const bool as_graph = graphs_.wanted() && ranks_.graphs_wanted() && is_decode(step, layout_.plan);
  const uint32_t bucket = as_graph ? bucket_for(buckets_, layout_.plan.singles) : 0;
  if (bucket > 0) pad(layout_.plan, bucket), layout_.which.resize(bucket, 0);
  layout_.parts = captured_parts(layout_.plan.longest, model_.text->max_length);
  return bucket;
}

QueuedStep DeviceTransformer::queued(const Step& step) {
  return {step, layout_, arguments_.at(), next_step().results, results_.data(), masks_.at()};
}

Status DeviceTransformer::queue(const Step& step, StepInFlight& next) {
  // A step that has failed may still run on a device that goes on, and reads the arguments that this one would write.
  if (auto s = ranks_.lost(); !s.ok()) return s;
  if (auto s = queue_.device().fault(); !s.ok()) return s;
  if (!lost_copy_.ok()) return std::exchange(lost_copy_, Status());
  StepLimits limits{options_.step_tokens, shape_.vocabulary, cache_.blocks(), cache_.block_size(), sampled_};
  if (auto s = check_step(step, limits); !s.ok()) return s;
  const uint32_t bucket = lay_out(step);
  next.sampling.plan(step.logits_requests, step.ids);
  next.results = lay_out_results(step, next.sampling, shape_, model_.readouts);
  sampler_.logits_for_tests = logits_for_tests;
  return each([&] { return queue_.fit(results_, next.results.bytes); },
              [&] { return queue_.fit(next.out, next.results.ids + next.results.bytes); },
              [&] { return masks_.fit(queue_, next.masks, next.sampling.masked.size()); },
              [&] { return arguments_.upload(queue_, step, layout_, next.sampling, next.in); },
              [&] { return forward(step, bucket); }, [&] { return masks_.upload(queue_, next.sampling, next.masks); },
              [&] { return sampler_.run(queued(step), next.sampling, sampled_, bucket > 0 ? nullptr : &forward_); },
              [&] { return download(next); });
}

Status DeviceTransformer::download(StepInFlight& step) {
  const bool no_ids = step.sampling.ids.empty();
  Copy copies[] = {{step.out.data(), activations_.sampled, step.sampling.ids.size() * sizeof(uint32_t)},
                   {step.out.data() + step.results.ids, results_.data(), step.results.bytes}};
  const size_t count = size_t(step.results.bytes > 0) + !no_ids;
  return queue_.copy(Way::kToHost, std::span(copies).subspan(no_ids, count));
}

}  // namespace weir::llm::cuda
