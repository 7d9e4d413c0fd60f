#include "models/warm_up.h"

#include <cstring>
#include <optional>
#include <utility>

#include "base/attempt.h"
#include "msg/half.h"
#include "sched/fit.h"
#include "sched/staging.h"

namespace weir::models {
namespace {

using base::Status;
using msg::DType;

// Numbers without a pattern that a model could care about: xorshift.
class SampleNumbers {
 public:
  uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_;
  }

 private:
  uint32_t state_ = 0x9e3779b9;
};

template <class T>
void fill_with(std::string& out, uint64_t elements, T (*value)(uint32_t), SampleNumbers& numbers) {
  out.resize(size_t(elements) * sizeof(T));
  for (uint64_t i = 0; i < elements; ++i) {
    const T one = value(numbers.next());
    std::memcpy(out.data() + i * sizeof(T), &one, sizeof(T));
  }
}

float fraction(uint32_t n) { return float(n >> 8) * 0x1p-24F; }

std::string random_data(DType dtype, uint64_t elements) {
  SampleNumbers numbers;
  std::string out;
  switch (dtype) {
    case DType::kFp32: fill_with<float>(out, elements, fraction, numbers); break;
    case DType::kFp64:
      fill_with<double>(
          out, elements, [](uint32_t n) { return double(fraction(n)); }, numbers);
      break;
    case DType::kFp16:
      fill_with<uint16_t>(
          out, elements, [](uint32_t n) { return msg::fp16_from(fraction(n)); }, numbers);
      break;
    case DType::kBf16:
      fill_with<uint16_t>(
          out, elements, [](uint32_t n) { return msg::bf16_from(fraction(n)); }, numbers);
      break;
    case DType::kBytes:
      for (uint64_t i = 0; i < elements; ++i) msg::append_string(out, std::string(1, char('a' + numbers.next() % 26)));
      break;
    default:  // little-endian: the first byte of each element is 0 or 1
      out.resize(size_t(elements) * msg::size_of(dtype));
      for (size_t at = 0; at < out.size(); at += msg::size_of(dtype)) out[at] = char(numbers.next() >> 31);
  }
  return out;
}

base::Result<msg::Tensor> make_tensor(const std::string& name, const WarmUpInput& input, const msg::ModelSpec& spec,
                                      uint32_t rows, const ModelFolder& folder) {
  msg::Tensor tensor{name, input.dtype, {}, {}};
  if (spec.max_batch > 0) tensor.shape.push(int64_t(rows));
  for (int64_t d : input.shape.dims())
    if (!tensor.shape.push(d)) return base::invalid("input '" + name + "' has more than 16 dimensions");
  const size_t each = input.dtype == DType::kBytes ? 5 : msg::size_of(input.dtype);
  auto elements = tensor.shape.elements();
  if (!elements || each == 0 || *elements > kLargestSample / each)
    return base::invalid("input '" + name + "' needs a type and a shape of known, moderate size");
  if (input.source == WarmUpInput::Source::kFile) {
    auto bytes = read_file(folder.path, input.file, size_t(kLargestSample));
    if (!bytes) return bytes.error();
    tensor.data = base::Bytes::adopt(*std::move(bytes));
  } else if (input.source == WarmUpInput::Source::kRandom) {
    tensor.data = base::Bytes::adopt(random_data(input.dtype, *elements));
  } else {
    const size_t zeros = input.dtype == DType::kBytes ? 4 : each;  // an empty string is its length
    tensor.data = base::Bytes::adopt(std::string(size_t(*elements) * zeros, '\0'));
  }
  return tensor;
}

// The sample has the model's inputs, and no others.
Status check_names(const msg::ModelSpec& spec, const WarmUpSample& sample) {
  if (spec.any_tensors) return {};
  for (const auto& input : spec.inputs)
    if (!input.optional && !sample.inputs.count(input.name))
      return base::invalid("input '" + input.name + "' is missing");
  for (const auto& [name, input] : sample.inputs)
    if (!spec.input(name)) return base::invalid("the model has no input '" + name + "'");
  return {};
}

Status run_sample(sched::Engine& engine, const msg::ModelSpec& spec, const ModelFolder& folder,
                  const WarmUpSample& sample, base::SlabSource& slabs) {
  if (Status status = check_names(spec, sample); !status.ok()) return status;
  msg::Call call;
  call.model = spec.name, call.version = spec.version;
  call.rows = spec.max_batch > 0 ? sample.rows : 1;
  for (const auto& [name, input] : sample.inputs) {
    auto tensor = make_tensor(name, input, spec, call.rows, folder);
    if (!tensor) return tensor.error();
    call.inputs.push_back(*std::move(tensor));
  }
  if (Status status = sched::tensors_fit(call, spec); !status.ok()) return status;
  for (uint32_t i = 0; i < sample.count; ++i) {
    sched::Batch batch;
    batch.calls.push_back(&call);
    sched::stage(batch, spec, slabs);
    Status status;
    Status thrown = base::attempt("a warm-up", [&] { status = engine.step(batch); });
    if (!thrown.ok()) return thrown;
    if (!status.ok()) return status;
    if (!batch.failures.empty() && !batch.failures[0].ok()) return batch.failures[0];
  }
  return {};
}

}  // namespace

Status warm_up(sched::Engine& engine, const msg::ModelSpec& spec, const ModelFolder& folder,
               const std::vector<WarmUpSample>& samples, base::SlabSource& slabs) {
  for (const WarmUpSample& sample : samples) {
    Status status = run_sample(engine, spec, folder, sample, slabs);
    if (!status.ok()) return base::failure(status.code, "warm-up sample '" + sample.name + "': " + status.text);
  }
  return {};
}

}  // namespace weir::models
