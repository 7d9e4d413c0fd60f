#include "sched/fit.h"

#include <algorithm>
#include <functional>
#include <string>

#include "base/fnv.h"

namespace weir::sched {
namespace {

using base::invalid;
using base::Status;

std::string input_text(const msg::Tensor& tensor, const msg::ModelSpec& spec) {
  return "input '" + tensor.name + "' of model '" + spec.name + "'";
}

Status wrong_shape(const msg::Tensor& tensor, const msg::TensorSpec& wanted, const msg::ModelSpec& spec) {
  return invalid(input_text(tensor, spec) + " has shape " + tensor.shape.text() + ", expected " +
                 spec.public_shape(wanted).text());
}

bool shape_fits(const msg::Tensor& tensor, const msg::TensorSpec& wanted, const msg::ModelSpec& spec) {
  auto dims = tensor.shape.dims();
  if (spec.max_batch > 0) {
    if (dims.empty()) return false;
    dims = dims.subspan(1);
  }
  return std::equal(dims.begin(), dims.end(), wanted.shape.dims().begin(), wanted.shape.dims().end(),
                    [](int64_t is, int64_t want) { return want < 0 ? is >= 0 : is == want; });
}

// One string too many would shift the rows of every call behind it in the batch.
bool strings_fit(const msg::Tensor& tensor, uint64_t elements) {
  uint64_t n = 0;
  return msg::for_each_string(tensor.data.view(), [&](std::string_view) { ++n; }) && n == elements;
}

Status data_fits(const msg::Tensor& tensor, const msg::ModelSpec& spec) {
  auto elements = tensor.shape.elements();
  uint64_t bytes = 0;
  bool counted = elements && !__builtin_mul_overflow(*elements, msg::size_of(tensor.dtype), &bytes);
  if (tensor.dtype == msg::DType::kBytes) {
    if (!counted) return invalid(input_text(tensor, spec) + " has too many elements");
    if (!shares_batches(spec) || strings_fit(tensor, *elements)) return {};
    return invalid(input_text(tensor, spec) + " does not hold the " + std::to_string(*elements) +
                   " strings that its shape " + tensor.shape.text() + " asks for");
  }
  if (counted && bytes == tensor.data.size()) return {};
  return invalid(input_text(tensor, spec) + " has " + std::to_string(tensor.data.size()) + " bytes, expected " +
                 std::to_string(bytes) + " for shape " + tensor.shape.text());
}

Status input_fits(const msg::Call& call, const msg::Tensor& tensor, const msg::TensorSpec& wanted,
                  const msg::ModelSpec& spec) {
  if (!wanted.takes(tensor.dtype))
    return invalid(input_text(tensor, spec) + " has datatype " + std::string(msg::name(tensor.dtype)) + ", expected " +
                   std::string(msg::name(wanted.dtype)));
  if (!shape_fits(tensor, wanted, spec)) return wrong_shape(tensor, wanted, spec);
  if (spec.max_batch > 0 && tensor.shape[0] != int64_t(call.rows))
    return invalid(input_text(tensor, spec) + " has " + std::to_string(tensor.shape[0]) +
                   " rows, the request's others have " + std::to_string(call.rows));
  return data_fits(tensor, spec);
}

// The key only sorts calls apart; same_rows() decides.
void add_row(base::Fnv& key, const msg::Tensor& tensor) {
  key.add(uint64_t(tensor.dtype));
  for (int64_t d : tensor.shape.dims().subspan(1)) key.add(uint64_t(d));
}

// Whether each tensor of a call to a model that takes any tensors has the call's rows, so that other calls' rows may
// lie beside them.
bool has_rows(const msg::Call& call, const msg::ModelSpec& spec) {
  if (call.inputs.empty() || call.rows == 0 || call.rows > spec.max_batch) return false;
  return std::all_of(call.inputs.begin(), call.inputs.end(), [&](const msg::Tensor& tensor) {
    return tensor.shape.rank() > 0 && tensor.shape[0] == int64_t(call.rows) && data_fits(tensor, spec).ok();
  });
}

uint64_t any_row_key(const msg::Call& call, const msg::ModelSpec& spec) {
  if (!has_rows(call, spec)) return kAlone;
  base::Fnv key;
  for (const auto& tensor : call.inputs) {
    key.add(std::hash<std::string_view>()(tensor.name));
    key.add(tensor.shape.rank());
    add_row(key, tensor);
  }
  return key.value();
}

bool same_row(const msg::Tensor& a, const msg::Tensor& b) {
  auto one = a.shape.dims().subspan(1), two = b.shape.dims().subspan(1);
  return a.dtype == b.dtype && std::equal(one.begin(), one.end(), two.begin(), two.end());
}

}  // namespace

bool shares_batches(const msg::ModelSpec& spec) { return spec.batching.dynamic && spec.max_batch > 1; }

const msg::Tensor* input_of(const msg::Call& call, const msg::ModelSpec& spec, size_t i) {
  const auto& name = spec.inputs[i].name;
  if (i < call.inputs.size() && call.inputs[i].name == name) return &call.inputs[i];
  for (const auto& tensor : call.inputs)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

Status rows_fit(const msg::Call& call, const msg::ModelSpec& spec) {
  if (call.generation) return invalid("model '" + spec.name + "' takes tensors; it does not make tokens");
  if (spec.any_tensors || spec.max_batch == 0 || (call.rows > 0 && call.rows <= spec.max_batch)) return {};
  return invalid("the request has a batch of " + std::to_string(call.rows) + "; model '" + spec.name + "' takes 1 to " +
                 std::to_string(spec.max_batch));
}

Status tensors_fit(const msg::Call& call, const msg::ModelSpec& spec) {
  if (auto status = rows_fit(call, spec); !status.ok() || spec.any_tensors) return status;
  for (size_t i = 0; i < spec.inputs.size(); ++i)
    if (const auto* tensor = input_of(call, spec, i))
      if (auto status = input_fits(call, *tensor, spec.inputs[i], spec); !status.ok()) return status;
  return {};
}

uint64_t row_key(const msg::Call& call, const msg::ModelSpec& spec) {
  if (!shares_batches(spec)) return kAlone;
  if (spec.ragged) return base::Fnv().value();
  if (spec.any_tensors) return any_row_key(call, spec);
  base::Fnv key;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const auto* tensor = input_of(call, spec, i);
    key.add(tensor ? tensor->shape.rank() : ~uint64_t(0));
    if (tensor) add_row(key, *tensor);
  }
  return key.value();
}

bool same_rows(const msg::Call& a, const msg::Call& b, const msg::ModelSpec& spec) {
  if (spec.ragged) return true;
  if (spec.any_tensors)
    return std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(),
                      [](const auto& x, const auto& y) { return x.name == y.name && same_row(x, y); });
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const auto *x = input_of(a, spec, i), *y = input_of(b, spec, i);
    if (!x && !y) continue;
    if (!x || !y || !same_row(*x, *y)) return false;
  }
  return true;
}

}  // namespace weir::sched
