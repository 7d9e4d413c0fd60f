#include "engines/repeat/repeat.h"

#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/bytes.h"

namespace weir::repeat {
namespace {

const msg::Tensor* find_input(const msg::Call& call, std::string_view name) {
  for (const auto& tensor : call.inputs)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

// Data of a request starts wherever it lies in the message.
uint32_t element(const base::Bytes& data, size_t at) {
  uint32_t value;
  std::memcpy(&value, data.data() + at * sizeof value, sizeof value);
  return value;
}

msg::Tensor one(const char* name, msg::DType dtype, uint32_t value) {
  return {name, dtype, {1}, base::Bytes::copy_of({reinterpret_cast<const char*>(&value), sizeof value})};
}

class Repetition final : public sched::AnswerSeries {
 public:
  Repetition(base::Bytes in, base::Bytes delay)
      : in_(std::move(in)), delay_(std::move(delay)), size_(in_.size() / sizeof(int32_t)) {}

  std::optional<base::Duration> next_in() const override {
    if (at_ == size_) return std::nullopt;
    return std::chrono::milliseconds(element(delay_, at_));
  }
  base::Result<msg::Event> next() override {
    msg::Outputs out;
    out.tensors = {one("OUT", msg::DType::kInt32, element(in_, at_)), one("IDX", msg::DType::kUint32, uint32_t(at_))};
    out.final = false;
    ++at_;
    return msg::Event{std::move(out)};
  }

 private:
  const base::Bytes in_, delay_;
  const size_t size_;
  size_t at_ = 0;
};

class Repeat final : public sched::DecoupledEngine {
 public:
  explicit Repeat(msg::ModelSpec spec) : spec_(std::move(spec)) {}

  const msg::ModelSpec& spec() const override { return spec_; }

  base::Result<std::unique_ptr<sched::AnswerSeries>> begin(const msg::Call& call) override {
    const msg::Tensor *in = find_input(call, "IN"), *delay = find_input(call, "DELAY");
    if (!in || !delay || !find_input(call, "WAIT"))
      return base::invalid("model '" + spec_.name + "' takes the inputs IN, DELAY and WAIT");
    if (in->data.size() != delay->data.size())
      return base::invalid("expected IN and DELAY shape to match, got " + in->shape.text() + " and " +
                           delay->shape.text());
    return std::unique_ptr<sched::AnswerSeries>(std::make_unique<Repetition>(in->data, delay->data));
  }

 private:
  const msg::ModelSpec spec_;
};

msg::TensorSpec tensor(const char* name, msg::DType dtype, int64_t elements) {
  msg::TensorSpec spec;
  spec.name = name, spec.dtype = dtype, spec.shape = {elements};
  return spec;
}

}  // namespace

base::Result<std::unique_ptr<sched::DecoupledEngine>> load(const msg::ModelSpec& wanted) {
  if (wanted.max_batch > 0) return base::invalid("the repeat engine takes no batches: max_batch must be 0");
  msg::ModelSpec spec = wanted;
  spec.engine = "repeat";
  spec.decoupled = true;
  using msg::DType;
  spec.inputs = {tensor("IN", DType::kInt32, -1), tensor("DELAY", DType::kUint32, -1),
                 tensor("WAIT", DType::kUint32, 1)};
  spec.outputs = {tensor("OUT", DType::kInt32, 1), tensor("IDX", DType::kUint32, 1)};
  return std::unique_ptr<sched::DecoupledEngine>(std::make_unique<Repeat>(std::move(spec)));
}

}  // namespace weir::repeat
