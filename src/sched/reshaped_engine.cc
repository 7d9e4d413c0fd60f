#include "sched/reshaped_engine.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::sched {
namespace {

// By the place of the tensor in the spec; nothing for those that have one shape.
using Places = std::vector<std::optional<Reshape>>;

class ReshapedEngine final : public Engine {
 public:
  ReshapedEngine(std::unique_ptr<Engine> engine, msg::ModelSpec spec, Places inputs, Places outputs)
      : engine_(std::move(engine)), spec_(std::move(spec)), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}

  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(Batch& batch) override {
    if (reads_calls() && batch.inputs.empty()) return step_calls(batch);
    to_model(batch);
    auto status = engine_->step(batch);
    if (status.ok()) to_client(batch);
    return status;
  }
  // Batches that are launched are gathered.
  bool reads_calls() const override { return engine_->reads_calls() && engine_->depth() == 1; }
  uint32_t depth() const override { return engine_->depth(); }
  base::Status launch(Batch& batch) override {
    to_model(batch);
    return engine_->launch(batch);
  }
  base::Result<Landing> poll(Batch& batch) override {
    auto landing = engine_->poll(batch);
    if (landing && *landing == Landing::kLanded) to_client(batch);
    return landing;
  }
  base::SlabSource* staging() override { return engine_->staging(); }
  bool takes_rows(const msg::Tensor& rows) const override { return engine_->takes_rows(rows); }
  bool keeps_states() const override { return engine_->keeps_states(); }
  Health health() const override { return engine_->health(); }
  std::string_view place() const override { return engine_->place(); }
  bool is_inline() const override { return engine_->is_inline(); }

 private:
  // The inputs of the calls have the model's shapes while the engine reads them, and then their own again: a call of a
  // batch that fails runs once more by itself.
  class CallShapes {
   public:
    CallShapes(const Batch& batch, const ReshapedEngine& engine) {
      for (auto* call : batch.calls)
        for (auto& tensor : call->inputs) {
          const auto* one = find(engine.inputs_, tensor.name);
          if (!one) continue;
          given_.emplace_back(&tensor, tensor.shape);
          tensor.shape = reshape(tensor.shape, engine.batch_dims(), one->seen, one->model);
        }
    }
    CallShapes(const CallShapes&) = delete;
    CallShapes& operator=(const CallShapes&) = delete;
    ~CallShapes() {
      for (auto& [tensor, shape] : given_) tensor->shape = shape;
    }

   private:
    std::vector<std::pair<msg::Tensor*, msg::Shape>> given_;
  };

  base::Status step_calls(Batch& batch) const {
    CallShapes shapes(batch, *this);
    auto status = engine_->step(batch);
    if (!status.ok()) return status;
    to_client(batch);
    for (auto& answer : batch.answers)
      if (answer)
        for (auto& tensor : answer->tensors)
          if (const auto* one = find(outputs_, tensor.name)) reshape_answer(tensor, *one);
    return status;
  }
  // A model with code of its own may answer with another shape than it has.
  void reshape_answer(msg::Tensor& tensor, const Reshape& one) const {
    const auto seen = reshape(tensor.shape, batch_dims(), one.model, one.seen);
    if (seen.elements() == tensor.shape.elements()) tensor.shape = seen;
  }
  static const Reshape* find(const Places& places, std::string_view name) {
    for (const auto& one : places)
      if (one && one->tensor == name) return &*one;
    return nullptr;
  }
  size_t batch_dims() const { return spec_.max_batch > 0 ? 1 : 0; }
  void to_model(Batch& batch) const {
    for (size_t i = 0; i < std::min(inputs_.size(), batch.inputs.size()); ++i)
      if (auto& tensor = batch.inputs[i]; inputs_[i] && tensor.dtype != msg::DType::kInvalid)
        tensor.shape = reshape(tensor.shape, batch_dims(), inputs_[i]->seen, inputs_[i]->model);
  }
  void to_client(Batch& batch) const {
    for (size_t i = 0; i < std::min(outputs_.size(), batch.outputs.size()); ++i)
      if (auto& tensor = batch.outputs[i]; outputs_[i] && tensor.dtype != msg::DType::kInvalid)
        tensor.shape = reshape(tensor.shape, batch_dims(), outputs_[i]->model, outputs_[i]->seen);
  }

  std::unique_ptr<Engine> engine_;
  const msg::ModelSpec spec_;
  const Places inputs_, outputs_;
};

base::Status place(const std::vector<Reshape>& reshapes, std::vector<msg::TensorSpec>& tensors, Places& out) {
  out.resize(tensors.size());
  for (const auto& one : reshapes) {
    auto at = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == one.tensor; });
    if (at == tensors.end()) return base::invalid("reshape of a tensor '" + one.tensor + "' that the model has not");
    at->shape = one.seen;
    out[size_t(at - tensors.begin())] = one;
  }
  return {};
}

// The product of the sizes up to the next free dimension. `at` moves behind that.
uint64_t stretch(std::span<const int64_t> dims, size_t& at) {
  uint64_t elements = 1;
  for (; at < dims.size() && dims[at] != -1; ++at)
    if (__builtin_mul_overflow(elements, uint64_t(dims[at]), &elements)) elements = UINT64_MAX;
  ++at;
  return elements;
}

}  // namespace

bool can_reshape(const msg::Shape& seen, const msg::Shape& model) {
  auto a = seen.dims(), b = model.dims();
  if (std::count(a.begin(), a.end(), -1) != std::count(b.begin(), b.end(), -1)) return false;
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();)
    if (stretch(a, i) != stretch(b, j)) return false;
  return true;
}

msg::Shape reshape(const msg::Shape& given, size_t batch, const msg::Shape& from, const msg::Shape& to) {
  if (given.rank() != batch + from.rank()) return given;
  msg::Shape out;
  for (size_t i = 0; i < batch; ++i) out.push(given[i]);
  size_t next = 0;  // the free dimension of `from` that comes next
  for (int64_t dim : to.dims()) {
    if (dim == -1) {
      while (next < from.rank() && from[next] != -1) ++next;
      if (next == from.rank()) return given;
      dim = given[batch + next++];
    }
    if (!out.push(dim)) return given;
  }
  return out;
}

base::Result<std::unique_ptr<Engine>> make_reshaped(std::unique_ptr<Engine> engine, const std::vector<Reshape>& inputs,
                                                    const std::vector<Reshape>& outputs) {
  msg::ModelSpec spec = engine->spec();
  if (spec.any_tensors || spec.ragged)
    return base::failure(base::Code::kUnimplemented, "reshape is not served by engine '" + spec.engine + "'");
  Places of_inputs, of_outputs;
  if (auto s = place(inputs, spec.inputs, of_inputs); !s.ok()) return s;
  if (auto s = place(outputs, spec.outputs, of_outputs); !s.ok()) return s;
  return std::unique_ptr<Engine>(std::make_unique<ReshapedEngine>(std::move(engine), std::move(spec),
                                                                  std::move(of_inputs), std::move(of_outputs)));
}

}  // namespace weir::sched
