#include "engines/onnx/device_engine.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engines/onnx/captured_graphs.h"
#include "engines/onnx/error.h"
#include "engines/onnx/tensors.h"

namespace weir::onnx {
namespace {

using base::Code;
using base::Status;
using msg::DType;

constexpr int64_t kMostRows = 1 << 20;

// Bytes of one row of an output (of all of it, when not batched); 0 where nobody knows.
size_t row_size(const msg::TensorSpec& output) {
  constexpr size_t kLargest = size_t(1) << 36;
  const auto elements = output.shape.elements();
  const size_t each = size_of(output.dtype);
  return elements && each > 0 && *elements <= kLargest / each ? *elements * each : 0;
}

class OnDevice final : public sched::DeviceEngine {
 public:
  explicit OnDevice(Deps deps) : DeviceEngine(std::move(deps)), outcomes_(depth()) {}

  Status open(const MakeSession& make, const Derive& derive);
  const msg::ModelSpec& spec() const override { return spec_; }

 private:
  Status plan(sched::Batch& batch, std::vector<size_t>& bytes) override;
  static Status check_rows(const sched::Batch& batch, size_t i);
  Status compute(const sched::Batch& batch, const device::Stream& run, std::span<const Transfer> in,
                 std::span<const Transfer> out) override;
  Status outcome(const sched::Batch& batch) override { return std::exchange(outcomes_[batch.slot], {}); }

  std::byte* fixed_memory(const sched::Batch& batch, size_t bytes) override;
  Status open_graphs(const void* stream);
  Status capture(uint32_t rows, uint32_t slot);
  const OrtRunOptions* run_options(const sched::Batch& batch) const;
  Status call(const sched::Batch& batch, std::span<const Transfer> in, std::span<const Transfer> out);
  Status bind(const std::vector<msg::Tensor>& tensors, std::span<const Transfer> places,
              OrtStatus* (*bind_one)(OrtIoBinding*, const char*, const OrtValue*));
  Status make_binding();

  std::shared_ptr<const Session> session_;
  msg::ModelSpec spec_;
  Owned<OrtMemoryInfo> memory_{nullptr, nullptr};  // of the GPU; null: the host's
  Owned<OrtIoBinding> binding_{nullptr, nullptr};  // used in the order of the stream
  std::vector<Owned<OrtValue>> values_;            // one step's
  std::vector<Status> outcomes_;                   // by slot
  std::optional<CapturedGraphs> graphs_;
  std::vector<device::BufferPool::Part> fixed_;  // of graphs, by slot
};

Status OnDevice::open(const MakeSession& make, const Derive& derive) {
  void* stream = nullptr;
  // A GPU calls it at once; the host has no stream.
  if (device().info().index >= 0)
    if (auto s = device().run(run(), [&](void* raw) { return stream = raw, 0; }); !s.ok()) return s;
  auto session = make(stream);
  if (!session) return session.error();
  session_ = std::move(*session);
  auto spec = derive(session_->signature());
  if (!spec) return spec.error();
  spec_ = std::move(*spec);
  if (auto why = why_not_on_device(spec_); !why.empty()) return base::failure(Code::kUnimplemented, std::move(why));
  if (auto s = make_binding(); !s.ok() || !stream || !wants_graphs(spec_)) return s;
  return open_graphs(stream);
}

// Each graph is captured here, by a run of zeros, so that no request waits for it.
Status OnDevice::open_graphs(const void* stream) {
  auto graphs = CapturedGraphs::make(session_->library(), spec_, depth(), stream);
  if (!graphs) return graphs.error();
  size_t most = 0;
  const size_t rows = std::max(spec_.max_batch, 1U);
  for (const auto& input : spec_.inputs) most += padded(row_size(input) * rows);
  for (const auto& output : spec_.outputs) most += padded(row_size(output) * rows);
  for (uint32_t slot = 0; slot < depth(); ++slot) {
    auto memory = take_memory(most);
    if (!memory) return memory.error();
    fixed_.push_back(std::move(*memory));
  }
  graphs_ = std::move(*graphs);
  for (uint32_t slot = 0; slot < depth(); ++slot)
    for (uint32_t size : graphs_->sizes())
      if (auto s = capture(size, slot); !s.ok())
        return base::failure(s.code, "no CUDA graph of " + std::to_string(size) + " rows: " + s.text);
  return {};
}

Status OnDevice::capture(uint32_t rows, uint32_t slot) {
  sched::Batch batch;
  batch.rows = rows, batch.slot = slot;
  for (const auto& input : spec_.inputs) {
    msg::Shape shape;
    if (spec_.max_batch > 0) shape.push(rows);
    for (int64_t d : input.shape.dims()) shape.push(d);
    batch.inputs.push_back(
        {input.name, input.dtype, shape, base::Bytes::adopt(std::string(row_size(input) * rows, 0))});
  }
  return step(batch);
}

std::byte* OnDevice::fixed_memory(const sched::Batch& batch, size_t bytes) {
  return graphs_ && bytes <= fixed_[batch.slot].size() ? fixed_[batch.slot].data() : nullptr;
}

const OrtRunOptions* OnDevice::run_options(const sched::Batch& batch) const {
  if (!graphs_) return session_->run_options();
  const auto absent = [](const msg::Tensor& tensor) { return tensor.dtype == DType::kInvalid; };
  const bool all = std::none_of(batch.inputs.begin(), batch.inputs.end(), absent) &&
                   std::none_of(batch.outputs.begin(), batch.outputs.end(), absent);
  const uint32_t rows = spec_.max_batch > 0 ? batch.rows : 1;
  return graphs_->options(batch.slot, rows, all ? CapturedGraphs::Tensors::kAll : CapturedGraphs::Tensors::kSome);
}

Status OnDevice::make_binding() {
  const Api& api = session_->library().api;
  if (const int32_t gpu = device().info().index; gpu >= 0) {
    OrtMemoryInfo* raw = nullptr;
    auto s = to_status(api, api.create_memory("Cuda", AllocatorKind::kDevice, gpu, MemoryKind::kDefault, &raw));
    if (!s.ok()) return s;
    memory_ = {raw, api.release_memory};
  }
  OrtIoBinding* raw = nullptr;
  if (auto s = to_status(api, api.create_binding(session_->raw(), &raw)); !s.ok()) return s;
  binding_ = {raw, api.release_binding};
  return {};
}

// Each call's rows of an input that nobody has gathered.
Status OnDevice::check_rows(const sched::Batch& batch, size_t i) {
  for (const auto* rows : batch.apart[i].rows)
    if (auto s = check_input(*rows); !s.ok()) return s;
  return {};
}

Status OnDevice::plan(sched::Batch& batch, std::vector<size_t>& bytes) {
  int64_t leading = batch.rows;
  for (const auto& input : batch.inputs)
    if (input.dtype != DType::kInvalid && input.shape.rank() > 0) {
      leading = input.shape[0];
      break;
    }
  if (batch.inputs.size() != spec_.inputs.size() || leading < 0 || leading > kMostRows)
    return base::failure(Code::kInternal, "a batch that is not the model's");
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    if (batch.inputs[i].dtype == DType::kInvalid) continue;
    const bool apart = i < batch.apart.size() && batch.apart[i].bytes > 0;
    if (auto s = apart ? check_rows(batch, i) : check_input(batch.inputs[i]); !s.ok()) return s;
  }
  batch.outputs.clear();
  for (size_t i = 0; i < spec_.outputs.size(); ++i) {
    const auto& output = spec_.outputs[i];
    auto& tensor = batch.outputs.emplace_back();
    tensor.name = output.name;
    const bool wanted = batch.wanted.empty() || batch.wanted[i];
    bytes.push_back(wanted ? row_size(output) * (spec_.max_batch > 0 ? size_t(leading) : 1) : 0);
    if (!wanted) continue;
    tensor.dtype = output.dtype;
    if (spec_.max_batch > 0) tensor.shape.push(leading);
    for (int64_t d : output.shape.dims()) tensor.shape.push(d);
  }
  return {};
}

// The library's word on the step is the batch's outcome, and no fault of the device.
Status OnDevice::compute(const sched::Batch& batch, const device::Stream& run, std::span<const Transfer> in,
                         std::span<const Transfer> out) {
  return device().run(run, [this, &batch, in, out](void*) {
    outcomes_[batch.slot] = call(batch, in, out);
    return 0;
  });
}

Status OnDevice::bind(const std::vector<msg::Tensor>& tensors, std::span<const Transfer> places,
                      OrtStatus* (*bind_one)(OrtIoBinding*, const char*, const OrtValue*)) {
  const Library& library = session_->library();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& tensor = tensors[i];
    if (tensor.dtype == DType::kInvalid) continue;
    auto value = wrap(library, tensor.dtype, tensor.shape, places[i].device, places[i].bytes, memory_.get());
    if (!value) return value.error();
    if (auto s = to_status(library.api, bind_one(binding_.get(), tensor.name.c_str(), value->get())); !s.ok()) return s;
    values_.push_back(std::move(*value));
  }
  return {};
}

Status OnDevice::call(const sched::Batch& batch, std::span<const Transfer> in, std::span<const Transfer> out) {
  const Api& api = session_->library().api;
  Status status = bind(batch.inputs, in, api.bind_input);
  if (status.ok()) status = bind(batch.outputs, out, api.bind_output);
  if (status.ok()) status = to_status(api, api.run_bound(session_->raw(), run_options(batch), binding_.get()));
  api.clear_inputs(binding_.get());
  api.clear_outputs(binding_.get());
  values_.clear();
  return status;
}

}  // namespace

std::string why_not_on_device(const msg::ModelSpec& spec) {
  for (const auto* tensors : {&spec.inputs, &spec.outputs})
    for (const auto& tensor : *tensors)
      if (tensor.dtype == DType::kBytes) return "tensor '" + tensor.name + "' has strings";
  for (const auto& output : spec.outputs)
    if (row_size(output) == 0)
      return "the size of output '" + output.name + "' is not known before the step: its shape is " +
             output.shape.text();
  return {};
}

base::Result<std::unique_ptr<sched::Engine>> make_device_engine(sched::DeviceEngine::Deps deps, const MakeSession& make,
                                                                const Derive& derive) {
  auto engine = std::make_unique<OnDevice>(std::move(deps));
  if (auto s = engine->start(); !s.ok()) return s;
  if (auto s = engine->open(make, derive); !s.ok()) return s;
  return std::unique_ptr<sched::Engine>(std::move(engine));
}

}  // namespace weir::onnx
