#include "engines/onnx/engine.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "engines/onnx/error.h"
#include "engines/onnx/tensors.h"

namespace weir::onnx {
namespace {

using base::Status;
using msg::DType;
using msg::Tensor;
using msg::TensorSpec;

constexpr size_t kAlign = 64;
constexpr size_t round_up(size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

Status broken(const std::string& what) { return base::failure(base::Code::kInternal, what); }

class OnnxEngine final : public sched::Engine {
 public:
  OnnxEngine(std::shared_ptr<const Session> session, msg::ModelSpec spec, base::SlabSource& slabs)
      : session_(std::move(session)), spec_(std::move(spec)), slabs_(slabs) {
    for (const TensorSpec& output : spec_.outputs) {
      auto elements = output.shape.elements();
      size_t each = size_of(output.dtype);
      bool known = elements && each > 0 && *elements <= kLargestOutput / each;
      row_sizes_.push_back(known ? *elements * each : kUnknown);
    }
  }

  const msg::ModelSpec& spec() const override { return spec_; }

  Status step(sched::Batch& batch) override {
    Status status = guarded_run(batch);
    // Nothing of a step is kept: neither inputs, which are the callers', nor half-made outputs.
    inputs_.clear(), copies_.clear(), outputs_.clear();
    slab_ = {};
    return status;
  }

 private:
  static constexpr size_t kUnknown = SIZE_MAX;
  static constexpr size_t kLargestOutput = size_t(1) << 36;  // of one row; larger ones are left to the library
  static constexpr int64_t kMostRows = 1 << 20;              // likewise

  struct Output {
    size_t at;              // its place in the spec
    size_t offset;          // in slab_, or kUnknown
    Owned<OrtValue> value;  // empty until the library makes one
  };

  Status guarded_run(sched::Batch& batch) {
    try {
      return run(batch);
    } catch (const std::bad_alloc&) {
      return base::failure(base::Code::kResourceExhausted, "there is not enough memory for this request's tensors");
    }
  }

  Status run(sched::Batch& batch) {
    if (auto s = bind_inputs(batch); !s.ok()) return s;
    choose_outputs(batch);
    leading_ = leading_size(batch);
    if (in_place_) place_outputs();
    Status status = call();
    if (!status.ok() && slab_) {
      // The file promises a shape that it does not keep. Let the library allocate, now and from now on.
      for (Output& output : outputs_) output.offset = kUnknown, output.value.reset();
      slab_ = {};
      Status again = call();
      if (again.ok()) in_place_ = false;
      status = std::move(again);
    }
    return status.ok() ? collect(batch) : status;
  }

  Status bind_inputs(const sched::Batch& batch) {
    if (batch.inputs.size() != spec_.inputs.size())
      return broken("a batch of " + std::to_string(batch.inputs.size()) + " inputs came to a model of " +
                    std::to_string(spec_.inputs.size()));
    input_names_.clear();
    copies_.resize(batch.inputs.size());
    for (size_t i = 0; i < batch.inputs.size(); ++i) {
      const Tensor& tensor = batch.inputs[i];
      const TensorSpec& wanted = spec_.inputs[i];
      if (tensor.dtype == DType::kInvalid && wanted.optional) continue;
      if (tensor.dtype != wanted.dtype)
        return base::invalid("input '" + wanted.name + "' is " + std::string(name(tensor.dtype)) +
                             "; the model takes " + std::string(name(wanted.dtype)));
      auto value = to_ort(session_->library(), tensor, copies_[i]);
      if (!value) return value.error();
      inputs_.push_back(std::move(*value));
      input_names_.push_back(wanted.name.c_str());
    }
    return {};
  }

  void choose_outputs(const sched::Batch& batch) {
    auto wanted = [&](size_t i) { return i >= batch.wanted.size() || batch.wanted[i]; };
    for (size_t i = 0; i < spec_.outputs.size(); ++i)
      if (wanted(i)) outputs_.push_back({i, kUnknown, {nullptr, nullptr}});
    if (!outputs_.empty()) return;
    for (size_t i = 0; i < spec_.outputs.size(); ++i) outputs_.push_back({i, kUnknown, {nullptr, nullptr}});
  }

  // The first dimension of the outputs' shapes. It is the batch's rows, save where the configuration serves a model
  // whole that the file would allow to batch: then one call brings any first dimension.
  int64_t leading_size(const sched::Batch& batch) const {
    for (const Tensor& input : batch.inputs)
      if (input.dtype != DType::kInvalid && input.shape.rank() > 0) return input.shape[0];
    return batch.rows;
  }
  msg::Shape whole_shape(const TensorSpec& output) const {
    if (spec_.max_batch == 0) return output.shape;
    msg::Shape shape{leading_};
    for (int64_t d : output.shape.dims()) shape.push(d);
    return shape;
  }
  size_t output_size(const Output& output) const {
    return row_sizes_[output.at] * (spec_.max_batch > 0 ? size_t(leading_) : 1);
  }

  // Gives every output of known size its part of one slab. Without a slab the library allocates.
  void place_outputs() {
    if (leading_ > kMostRows) return;
    size_t total = 0;
    for (Output& output : outputs_) {
      if (row_sizes_[output.at] == kUnknown || row_sizes_[output.at] == 0) continue;
      output.offset = total;
      total += round_up(output_size(output));
    }
    if (total == 0) return;
    slab_ = base::Block(slabs_.take(total));
    if (slab_) slab_.resize(total);
    for (Output& output : outputs_) {
      if (output.offset == kUnknown) continue;
      const TensorSpec& spec = spec_.outputs[output.at];
      auto value = slab_ ? wrap(session_->library(), spec.dtype, whole_shape(spec), slab_.data() + output.offset,
                                output_size(output))
                         : base::Result<Owned<OrtValue>>(Status());
      if (value)
        output.value = std::move(*value);
      else
        output.offset = kUnknown;
    }
  }

  Status call() {
    output_names_.clear(), values_in_.clear(), values_out_.clear();
    for (const auto& input : inputs_) values_in_.push_back(input.get());
    for (const Output& output : outputs_) {
      output_names_.push_back(spec_.outputs[output.at].name.c_str());
      values_out_.push_back(output.value.get());
    }
    const Api& api = session_->library().api;
    Status status =
        to_status(api, api.run(session_->raw(), session_->run_options(), input_names_.data(), values_in_.data(),
                               values_in_.size(), output_names_.data(), output_names_.size(), values_out_.data()));
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (!outputs_[i].value && values_out_[i]) outputs_[i].value = {values_out_[i], api.release_value};
    return status;
  }

  Status collect(sched::Batch& batch) {
    batch.outputs.resize(spec_.outputs.size());
    for (size_t i = 0; i < spec_.outputs.size(); ++i) {
      batch.outputs[i] = {};
      batch.outputs[i].name = spec_.outputs[i].name;
    }
    base::Bytes slab = slab_.freeze();
    for (Output& output : outputs_) {
      Tensor& tensor = batch.outputs[output.at];
      if (output.offset != kUnknown) {
        const TensorSpec& spec = spec_.outputs[output.at];
        tensor.dtype = spec.dtype;
        tensor.shape = whole_shape(spec);
        tensor.data = slab.slice(output.offset, output_size(output));
      } else if (auto s = adopt(output, batch.rows, tensor); !s.ok()) {
        batch.outputs.clear();
        return s;
      }
    }
    return {};
  }

  // An output that the library allocated.
  Status adopt(Output& output, uint32_t rows, Tensor& tensor) {
    const std::string& name = spec_.outputs[output.at].name;
    auto made = from_ort(session_->library(), std::move(output.value), slabs_);
    if (!made) return made.error();
    if (made->dtype != spec_.outputs[output.at].dtype)
      return broken("output '" + name + "' came as " + std::string(msg::name(made->dtype)));
    if (rows > 1 && (made->shape.rank() == 0 || made->shape[0] != int64_t(rows)))
      return broken("output '" + name + "' came with shape " + made->shape.text() + " for a batch of " +
                    std::to_string(rows) + " rows: the model does not keep rows apart; set max_batch to 0");
    made->name = name;
    tensor = std::move(*made);
    return {};
  }

  std::shared_ptr<const Session> session_;
  msg::ModelSpec spec_;
  base::SlabSource& slabs_;
  std::vector<size_t> row_sizes_;  // bytes of one row of each output (of all of it, when not batched), or kUnknown
  bool in_place_ = true;           // outputs of known size are written into slabs
  int64_t leading_ = 1;            // of this step

  // One step's; members only to keep their memory.
  base::Block slab_;
  std::vector<Owned<OrtValue>> inputs_;
  std::vector<base::Bytes> copies_;
  std::vector<Output> outputs_;
  std::vector<const char*> input_names_;
  std::vector<const char*> output_names_;
  std::vector<const OrtValue*> values_in_;
  std::vector<OrtValue*> values_out_;
};

}  // namespace

std::unique_ptr<sched::Engine> make_engine(std::shared_ptr<const Session> session, msg::ModelSpec spec,
                                           base::SlabSource& slabs) {
  return std::make_unique<OnnxEngine>(std::move(session), std::move(spec), slabs);
}

}  // namespace weir::onnx
