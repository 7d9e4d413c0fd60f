#include "engines/llm/cuda/device_transformer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "engines/llm/cuda/choice.h"
#include "engines/llm/step_check.h"

namespace weir::llm::cuda {
namespace {

using base::Status;
using device::Copy;
using device::Way;

constexpr size_t kArgAlign = 16;
constexpr uint32_t kLooksLeast = 32, kLooksMost = 256;  // whose logits are there at once
constexpr uint32_t kVocabularyEnd = 1u << 20;           // of the kernels
constexpr size_t kFirstBuffer = size_t(256) << 10;
constexpr size_t kArgsOfToken = 256;  // bytes: all that lay_out() has of a token that is looked at
constexpr size_t kUsualArguments = size_t(64) << 20;

Status check_shape(const Shape& s, const device::Device& device) {
  if (s.vocabulary < kVocabularyEnd) return check_widths(s, device);
  return base::failure(base::Code::kUnimplemented, "a vocabulary of " + std::to_string(s.vocabulary) +
                                                       " is not known to the kernels of devices; use device: cpu");
}

Status check_kernels(const Kernels& k) {
  if (k.abi == kKernelsAbi && k.embed && k.add_norm && k.rope_store && k.swiglu && k.decode_attention && k.draw &&
      k.gather && k.patch && k.prefill_attention && k.matmul_open && k.matmul_close && k.matmul && k.adjust &&
      k.logprobs && k.read_out && k.pool)
    return {};
  return base::failure(base::Code::kFailedPrecondition, "libweir_cuda.so lacks kernels of this build");
}

}  // namespace

Status DeviceTransformer::check(const Shape& shape, const device::Device& device, const Kernels& kernels) {
  auto status = check_kernels(kernels);
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
    : device_(device),
      epoch_(device.epoch()),
      kernels_(kernels),
      model_(std::move(model)),
      shape_(model_.shape),
      options_(std::move(options)),
      logits_at_once_(std::clamp(options_.max_running, kLooksLeast, kLooksMost)),
      buckets_(graph_buckets(std::min(options_.max_running, logits_at_once_))),
      graphs_(device, stream_, options_.graphs) {}

// What is queued still reads and writes what dies here. On a device at fault nothing is freed, nor waited for.
DeviceTransformer::~DeviceTransformer() {
  bool usable = device_.fault().ok() && device_.epoch() == epoch_;
  if (usable && stream_ && drain().ok() && matmuls_) kernels_.matmul_close(matmuls_);
}

Status DeviceTransformer::start() {
  auto stream = device_.stream(device::Device::Priority::kUrgent);
  if (!stream) return stream.error();
  stream_ = std::move(*stream);
  auto event = device_.event();
  if (!event) return event.error();
  idle_ = std::move(*event);
  for (size_t i = 0; i < kFlights; ++i) {
    flights_.emplace_back(SamplingPlan(shape_.vocabulary, model_.text->eos_ids, logits_at_once_));
    auto done = device_.event();
    if (!done) return done.error();
    flights_.back().done = std::move(*done);
  }
  if (auto s = make_room(); !s.ok()) return s;
  for (auto* buffer : {&args_, &parts_, &results_})
    if (auto s = fit(*buffer, kFirstBuffer); !s.ok()) return s;
  auto said = std::make_shared<Code>(0);
  auto opened = device_.run(stream_, [this, said, index = device_.info().index](void*) {
    return *said = kernels_.matmul_open(index, workspace_, &matmuls_);
  });
  if (opened.ok()) opened = drain();
  if (*said != Code(kNoLibrary)) return opened;
  return base::failure(base::Code::kFailedPrecondition,
                       "libcublasLt.so is not there, or of another version than this build's");
}

Status DeviceTransformer::make_room() {
  const size_t tokens = std::max({options_.step_tokens, options_.max_running, 1u}), vocabulary = shape_.vocabulary;
  const size_t q = size_t(shape_.heads) * shape_.head_dim, kv = size_t(shape_.kv_heads) * shape_.head_dim;
  size_t bytes = 0;
  auto room = [&](size_t n) { return std::exchange(bytes, bytes + aligned(n)); };
  const size_t at_stream = room(tokens * shape_.hidden * sizeof(float));
  const size_t at_normed = room(tokens * shape_.hidden * sizeof(Bf16));
  const size_t at_qkv = room(tokens * (q + 2 * kv) * sizeof(Bf16));
  const size_t at_queries = room(tokens * q * sizeof(Bf16)), at_mixed = room(tokens * q * sizeof(Bf16));
  // Also where the rows that go on are on their way to the front.
  const size_t at_gates = room(tokens * 2 * std::max(shape_.intermediate, shape_.hidden) * sizeof(Bf16));
  const size_t at_gated = room(tokens * shape_.intermediate * sizeof(Bf16));
  const size_t at_looked = room(size_t(logits_at_once_) * shape_.hidden * sizeof(Bf16));
  const size_t at_logits = room(logits_at_once_ * vocabulary * sizeof(float));
  const size_t at_adjusted = room(kAdjustedAtOnce * vocabulary * sizeof(float));
  const size_t at_drawn = room(tokens * sizeof(uint32_t)), at_before = room(tokens * sizeof(uint32_t));
  const size_t at_workspace = room(kWorkspace);
  auto buffer = device_.buffer(bytes);
  if (!buffer) return buffer.error();
  room_ = std::move(*buffer), room_bytes_ = bytes;
  auto floats = [&](size_t at) { return reinterpret_cast<float*>(room_.data() + at); };
  auto halves = [&](size_t at) { return reinterpret_cast<Bf16*>(room_.data() + at); };
  stream_rows_ = floats(at_stream), logits_ = floats(at_logits), adjusted_ = floats(at_adjusted);
  normed_ = halves(at_normed), qkv_ = halves(at_qkv), queries_ = halves(at_queries), mixed_ = halves(at_mixed);
  gates_ = halves(at_gates), gated_ = halves(at_gated), gathered_ = halves(at_looked);
  drawn_ = reinterpret_cast<uint32_t*>(room_.data() + at_drawn);
  before_ = reinterpret_cast<uint32_t*>(room_.data() + at_before);
  workspace_ = room_.data() + at_workspace;
  return {};
}

size_t DeviceTransformer::kv_bytes(size_t positions) const {
  return positions * shape_.layers * 2 * shape_.kv_heads * shape_.head_dim * sizeof(Bf16);
}

Status DeviceTransformer::reserve(uint32_t blocks, uint32_t block_size) {
  const uint64_t slots = uint64_t(blocks) * block_size;
  if (slots >= kNoSlot) return base::invalid("too many blocks of keys and values");
  auto buffer = device_.buffer(kv_bytes(slots));
  if (!buffer)
    return base::failure(buffer.error().code,
                         std::to_string(kv_bytes(slots)) + " bytes of kv_cache: " + buffer.error().text);
  kv_ = std::move(*buffer);
  blocks_ = blocks, block_size_ = block_size;
  if (auto s = fit_args(usual_arguments()); !s.ok()) return s;
  return options_.graphs == Graphs::kAtLoad ? warm() : Status();
}

// What steps bring but for the very largest, which make the buffer grow.
size_t DeviceTransformer::usual_arguments() const {
  const size_t tokens = std::max(options_.step_tokens, options_.max_running), rows = size_t(2) * options_.max_running;
  const size_t tables = rows * (model_.text->max_length / block_size_ + 1) * sizeof(uint32_t);
  const size_t features = shape_.vision ? tokens * shape_.hidden * sizeof(float) : 0;
  return std::min(tokens * kArgsOfToken + tables + features + kFirstBuffer, kUsualArguments);
}

// Keys and values of a layer: [slots][kv_heads][dim] each, keys first.
void DeviceTransformer::copy_block(uint32_t from, uint32_t to, uint32_t positions) {
  const size_t slot = size_t(shape_.kv_heads) * shape_.head_dim * sizeof(Bf16), block = block_size_ * slot;
  std::vector<Copy> copies;
  for (size_t i = 0; i < size_t(2) * shape_.layers; ++i) {
    std::byte* base = kv_.data() + i * blocks_ * block;
    copies.push_back({base + to * block, base + from * block, positions * slot});
  }
  if (auto s = device_.copy(stream_, Way::kOnDevice, copies); !s.ok()) lost_copy_ = std::move(s);
}

base::Result<generation::ImageFeatures> DeviceTransformer::encode_image(const msg::Image& image) {
  if (!model_.sight) return base::failure(base::Code::kUnimplemented, "the model takes no images");
  return model_.sight->encode_image(image);
}

// --- steps -----------------------------------------------------------------------------------------------------------

Status DeviceTransformer::step(Step& step) {
  if (auto s = submit(step); !s.ok()) return s;
  return collect(step);
}

Status DeviceTransformer::submit(Step& step) {
  base::check(under_way_ < kFlights, "a step is submitted when there is room for one");
  auto& flight = flights_[next_flight()];
  auto status = queue(step, flight);
  if (status.ok()) status = device_.record(flight.done, stream_);
  drawn_count_ = status.ok() ? uint32_t(step.logits_requests.size()) : 0;
  if (status.ok())
    ++under_way_;
  else
    complain(status);
  return status;
}

Status DeviceTransformer::collect(Step& step) {
  base::check(under_way_ > 0, "a step is collected that was submitted");
  auto& flight = flights_[first_flight_];
  auto status = device::await(device_, flight.done, options_.patience);
  first_flight_ = (first_flight_ + 1) % kFlights, --under_way_;
  if (status.ok())
    read(step, flight);
  else
    complain(status);
  return status;
}

void DeviceTransformer::complain(const Status& status) {
  bool lost = !device_.fault().ok() || device_.epoch() != epoch_;
  if (lost && options_.broken) std::exchange(options_.broken, nullptr)(status);
}

// The bucket of a step that a graph can do; 0 for others.
uint32_t DeviceTransformer::bucket_of(const Step& step) const {
  bool plain = plan_.chunks.empty() && step.patches.empty() && step.readouts.empty() && step.pools.empty();
  if (!plain || !graphs_.wanted() || step.logits_requests.size() > plan_.singles) return 0;
  return bucket_for(buckets_, plan_.singles);
}

Status DeviceTransformer::queue(const Step& step, StepInFlight& flight) {
  if (!lost_copy_.ok()) return std::exchange(lost_copy_, Status());
  StepLimits limits{options_.step_tokens, shape_.vocabulary, blocks_, block_size_, drawn_count_};
  if (auto s = check_step(step, limits); !s.ok()) return s;
  plan_step(step, plan_);
  plan_trim(step, plan_, trim_);
  flight.logits_requests.plan(step.logits_requests, step.ids);
  which_.clear();
  for (const auto& request : step.logits_requests) which_.push_back(trim_.row[plan_.place[request.token]]);
  const uint32_t bucket = bucket_of(step);
  if (bucket > 0) pad(plan_, bucket), which_.resize(bucket, 0);
  part_count_ = captured_parts(plan_.longest, model_.text->max_length);
  const auto singles = uint32_t(plan_.lengths.size());
  if (auto s = fit_parts(part_memory(singles, shape_.heads, shape_.head_dim, part_count_).bytes); !s.ok()) return s;
  flight.answers = answers_of(step, flight.logits_requests);
  if (auto s = fit(results_, flight.answers.bytes); !s.ok()) return s;
  if (auto s = fit(flight.out, flight.answers.ids + flight.answers.bytes); !s.ok()) return s;
  if (auto s = bring(step, flight); !s.ok()) return s;
  auto s = bucket > 0 ? forward_as_graph(bucket) : forward(step);
  if (s.ok()) s = sample(flight, bucket);
  return s.ok() ? tell(flight) : s;
}

// A graph has the addresses of what comes first, tables with it: these depend on the padded numbers of tokens, singles
// and looks alone.
void DeviceTransformer::lay_out(const Step& step, const StepInFlight& flight) {
  const SamplingPlan& logits_requests = flight.logits_requests;
  build_.clear();
  at_ = {};
  at_.ids = put(plan_.ids), at_.positions = put(plan_.positions), at_.slots = put(plan_.slots);
  at_.lengths = put(plan_.lengths), at_.starts = put(plan_.starts), at_.which = put(which_);
  at_.tables = put(step.tables);
  at_.chunks = put(plan_.chunks), at_.tiles = at_.last_tiles = put(plan_.tiles);
  if (trim_.any) at_.last_tiles = put(trim_.tiles), at_.kept = put(trim_.kept);
  if (logits_requests.scores) at_.sampled_ids = put(logits_requests.ids);
  at_.wishes = put(logits_requests.wishes), at_.from = put(logits_requests.from), at_.to = put(logits_requests.to);
  at_.adjusts = put(logits_requests.adjusts), at_.changes = put(logits_requests.changes),
  at_.logprobs = put(logits_requests.logprobs);
  auto places = [&](const auto& things) {
    places_.clear();
    for (const auto& thing : things) places_.push_back(plan_.place[thing.token]);
    return put(places_);
  };
  at_.patched = places(step.patches), at_.read_out = at_.last_read_out = places(step.readouts);
  if (trim_.any) {
    for (auto& place : places_) place = trim_.row[place];
    at_.last_read_out = put(places_);
  }
  pools_.clear();
  for (const auto& pool : step.pools) {
    const auto& row = step.rows[pool.row];
    pools_.push_back({row.count > 0 ? trim_.row[plan_.place[row.first]] : 0, row.count});
  }
  at_.pools = put(pools_);
  build_.resize(aligned(build_.size(), kArgAlign));
  at_.features = reinterpret_cast<const float*>(args_.data() + build_.size());
  for (const auto& patch : step.patches) {
    const auto* from = reinterpret_cast<const std::byte*>(patch.feature);
    build_.insert(build_.end(), from, from + shape_.hidden * sizeof(float));
  }
}

template <class T>
const T* DeviceTransformer::put(const T* data, size_t count) {
  size_t at = aligned(build_.size(), kArgAlign);
  build_.resize(at + count * sizeof(T));
  if (count > 0) std::memcpy(build_.data() + at, data, count * sizeof(T));
  return reinterpret_cast<const T*>(args_.data() + at);
}

Status DeviceTransformer::bring(const Step& step, StepInFlight& flight) {
  lay_out(step, flight);
  if (build_.size() > args_.size()) {  // addresses change
    if (auto s = fit_args(build_.size()); !s.ok()) return s;
    lay_out(step, flight);
  }
  if (auto s = fit(flight.in, build_.size()); !s.ok()) return s;
  std::memcpy(flight.in.data(), build_.data(), build_.size());
  Copy copy{args_.data(), flight.in.data(), build_.size()};
  return device_.copy(stream_, Way::kToDevice, {&copy, 1});
}

// Arguments lie at addresses that graphs have: the stream is empty when they change, and the graphs are gone.
Status DeviceTransformer::fit_args(size_t bytes) {
  if (bytes <= args_.size()) return {};
  if (auto s = drain(); !s.ok()) return s;
  graphs_.clear(), outgrown_.clear();
  return fit(args_, bytes);
}

// Nothing outlives a step there: graphs go on with what they know.
Status DeviceTransformer::fit_parts(size_t bytes) {
  if (bytes <= parts_.size()) return {};
  auto larger = device_.buffer(std::bit_ceil(bytes));
  if (!larger) return larger.error();
  outgrown_.push_back(std::move(parts_));
  parts_ = std::move(*larger);
  return {};
}

Status DeviceTransformer::fit(device::DeviceBuffer& buffer, size_t bytes) {
  if (bytes <= buffer.size()) return {};
  if (auto s = drain(); !s.ok()) return s;
  buffer = device::DeviceBuffer();
  auto larger = device_.buffer(std::bit_ceil(bytes));
  if (!larger) return larger.error();
  buffer = std::move(*larger);
  return {};
}

Status DeviceTransformer::fit(device::PinnedBlock& block, size_t bytes) {
  if (bytes <= block.size()) return {};
  auto larger = device_.pin(std::bit_ceil(bytes));
  if (!larger) return larger.error();
  block = std::move(*larger);
  return {};
}

Status DeviceTransformer::drain() {
  if (auto s = device_.record(idle_, stream_); !s.ok()) return s;
  return device::await(device_, idle_, options_.patience);
}

// What came back, into the step.
void DeviceTransformer::read(Step& step, const StepInFlight& flight) const {
  const auto* ids = reinterpret_cast<const uint32_t*>(flight.out.data());
  const std::byte* out = flight.out.data() + flight.answers.ids;
  auto floats = [&](size_t at) { return reinterpret_cast<const float*>(out + at); };
  for (size_t i = 0; i < step.logits_requests.size(); ++i)
    if (step.logits_requests[i].kind == Step::LogitsRequest::Kind::kSample) step.logits_requests[i].id = ids[i];
  const auto* best_ids = reinterpret_cast<const uint32_t*>(out + flight.answers.best_ids);
  for (size_t i = 0; i < flight.logits_requests.logprobs.size(); ++i) {
    const auto& row = flight.logits_requests.logprobs[i];
    auto& request = step.logits_requests[row.id];
    request.logprob = floats(flight.answers.logprobs)[i];
    request.best.clear();
    for (size_t k = i * flight.logits_requests.most; k < i * flight.logits_requests.most + row.top; ++k)
      if (best_ids[k] != kNoToken) request.best.push_back({best_ids[k], floats(flight.answers.best)[k]});
  }
  const size_t values = model_.readouts.layers.size() * model_.readouts.concepts.size();
  for (size_t i = 0; i < step.readouts.size(); ++i) {
    const float* from = floats(flight.answers.readouts) + i * values;
    step.readouts[i].values.assign(from, from + values);
  }
  for (size_t i = 0; i < step.pools.size(); ++i) {
    const float* from = floats(flight.answers.pools) + i * shape_.hidden;
    step.pools[i].sum.assign(from, from + shape_.hidden);
  }
}

}  // namespace weir::llm::cuda
