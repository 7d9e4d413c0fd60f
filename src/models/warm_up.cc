#include "models/warm_up.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/attempt.h"
#include "base/clock.h"
#include "msg/half.h"
#include "sched/fit.h"
#include "sched/staging.h"

namespace weir::models {
namespace {

using base::Status;
using msg::DType;

constexpr base::Duration kLongestWarmUp = std::chrono::minutes(5);  // of a decoupled model's answers to one request

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

// Nothing where the bytes are no elements of that type.
std::optional<uint64_t> elements_in(std::string_view bytes, DType dtype) {
  uint64_t strings = 0;
  if (dtype == DType::kBytes) {
    if (!msg::for_each_string(bytes, [&](std::string_view) { ++strings; })) return std::nullopt;
    return strings;
  }
  if (bytes.size() % msg::size_of(dtype) != 0) return std::nullopt;
  return bytes.size() / msg::size_of(dtype);
}

std::string repeated(std::string_view row, uint32_t rows) {
  std::string out;
  out.reserve(row.size() * rows);
  for (uint32_t i = 0; i < rows; ++i) out += row;
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
    const bool of_a_row = spec.max_batch > 0 && rows > 1 && *elements % rows == 0 &&
                          elements_in(*bytes, input.dtype) == *elements / rows &&
                          bytes->size() <= kLargestSample / rows;
    tensor.data = base::Bytes::adopt(of_a_row ? repeated(*bytes, rows) : *std::move(bytes));
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

// A request of the sample's.
Status fill(msg::Call& call, const msg::ModelSpec& spec, const ModelFolder& folder, const WarmUpSample& sample) {
  if (Status status = check_names(spec, sample); !status.ok()) return status;
  call.model = spec.name, call.version = spec.version;
  call.rows = spec.max_batch > 0 ? sample.rows : 1;
  for (const auto& [name, input] : sample.inputs) {
    auto tensor = make_tensor(name, input, spec, call.rows, folder);
    if (!tensor) return tensor.error();
    call.inputs.push_back(*std::move(tensor));
  }
  return sched::tensors_fit(call, spec);
}

Status run_sample(sched::Engine& engine, const msg::ModelSpec& spec, const ModelFolder& folder,
                  const WarmUpSample& sample, base::SlabSource& slabs) {
  msg::Call call;
  if (Status status = fill(call, spec, folder, sample); !status.ok()) return status;
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

// Errors: the server ends, or it is past `until`.
Status pause(base::Duration pause, base::Time until, const std::function<bool()>& loading) {
  constexpr base::Duration kLook = std::chrono::milliseconds(5);
  for (const base::Time end = base::steady_now() + pause;;) {
    const base::Time now = base::steady_now();
    if (!loading()) return base::failure(base::Code::kUnavailable, "the server ends");
    if (now > until) return base::failure(base::Code::kDeadlineExceeded, "its answers have no end");
    if (now >= end) return {};
    std::this_thread::sleep_for(std::min<base::Duration>(end - now, kLook));
  }
}

// Reads a request's answers up to the end.
Status read_all(sched::AnswerSeries& answers, const std::function<bool()>& loading) {
  const base::Time until = base::steady_now() + kLongestWarmUp;
  while (const auto due = answers.next_in()) {
    const bool is_there = *due != sched::AnswerSeries::kNotYet;
    if (Status s = pause(is_there ? *due : std::chrono::milliseconds(2), until, loading); !s.ok()) return s;
    if (!is_there) continue;
    auto answer = answers.next();
    if (!answer) return answer.error();
    if (auto* failed = std::get_if<msg::Failed>(&answer->what)) return std::move(failed->status);
  }
  return {};
}

// On all instances, beside each other.
Status run_sample(sched::DecoupledEngine& engine, const msg::ModelSpec& spec, const ModelFolder& folder,
                  const WarmUpSample& sample, const std::function<bool()>& loading) {
  msg::Call call;
  if (Status status = fill(call, spec, folder, sample); !status.ok()) return status;
  for (uint32_t i = 0; i < sample.count; ++i) {
    std::vector<std::unique_ptr<sched::AnswerSeries>> open;
    for (sched::DecoupledEngine* instance : engine.instances()) {
      auto begun = instance->begin(call);
      if (!begun) return begun.error();
      open.push_back(std::move(*begun));
    }
    for (auto& answers : open)
      if (Status status = read_all(*answers, loading); !status.ok()) return status;
  }
  return {};
}

Status named(const WarmUpSample& sample, const Status& status) {
  return base::failure(status.code, "warm-up sample '" + sample.name + "': " + status.text);
}

}  // namespace

Status warm_up(sched::Engine& engine, const msg::ModelSpec& spec, const ModelFolder& folder,
               const std::vector<WarmUpSample>& samples, base::SlabSource& slabs) {
  for (const WarmUpSample& sample : samples) {
    Status status = run_sample(engine, spec, folder, sample, slabs);
    if (!status.ok()) return named(sample, status);
  }
  return {};
}

Status warm_up(sched::DecoupledEngine& engine, const msg::ModelSpec& spec, const ModelFolder& folder,
               const std::vector<WarmUpSample>& samples, const std::function<bool()>& loading) {
  for (const WarmUpSample& sample : samples) {
    Status status;
    Status thrown = base::attempt("a warm-up", [&] { status = run_sample(engine, spec, folder, sample, loading); });
    if (!thrown.ok()) status = std::move(thrown);
    if (!status.ok()) return named(sample, status);
  }
  return {};
}

}  // namespace weir::models
