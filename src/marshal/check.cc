#include "marshal/check.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/encoding.h"

namespace weir::marshal {
namespace {

using base::invalid;
using base::Status;
using msg::DType;

constexpr size_t kNameMost = 1024;              // bytes: names are compared with each other, and errors repeat them
constexpr uint64_t kEmptyMost = 1 << 26;        // of a tensor without elements: its other dimensions, multiplied
constexpr uint64_t kEmptyArraysMost = 1 << 16;  // arrays around nothing

std::string quoted(std::string_view what, const msg::Tensor& tensor) {
  return std::string(what) + " '" + tensor.name + "'";
}

uint32_t length_at(const char* at) {
  uint32_t n;
  std::memcpy(&n, at, sizeof n);
  return n;
}

// How many elements there are, or any number above `most` where there are more; nothing where the lengths do not add
// up. Where an element begins is known only when the length before it has been read, which takes longer than all else:
// elements that are as long as the one before are looked at four at a time, without waiting for each other.
std::optional<uint64_t> count_strings(std::string_view data, uint64_t most) {
  const char *at = data.data(), *const end = at + data.size();
  uint64_t found = 0;
  while (size_t(end - at) >= 4) {
    if (found > most) return found;
    const uint32_t n = length_at(at);
    if (size_t(end - at) - 4 < n) return std::nullopt;
    const size_t step = 4 + size_t(n);
    at += step, ++found;
    if (n > 256) continue;
    for (; size_t(end - at) >= 4 * step; at += 4 * step, found += 4) {
      const uint32_t other = (length_at(at) ^ n) | (length_at(at + step) ^ n) | (length_at(at + 2 * step) ^ n) |
                             (length_at(at + 3 * step) ^ n);
      if (other != 0) break;
    }
  }
  return at == end ? std::optional(found) : std::nullopt;
}

Status check_strings(const msg::Tensor& tensor, uint64_t elements, std::string_view what, StringLengths lengths) {
  if (lengths == StringLengths::kSkip) {
    if (elements <= tensor.data.size() / 4) return {};
    return invalid(quoted(what, tensor) + ": " + std::to_string(tensor.data.size()) + " bytes are too few for the " +
                   std::to_string(elements) + " BYTES elements of its shape " + tensor.shape.text());
  }
  const bool is_long = tensor.data.size() > kLongStrings;
  const auto counted = count_strings(tensor.data.view(), is_long ? elements : UINT64_MAX);
  if (!counted) return invalid(quoted(what, tensor) + ": the lengths inside its BYTES data do not add up");
  const uint64_t found = *counted;
  if (found != elements)
    return invalid(quoted(what, tensor) + ": " + (is_long && found > elements ? "more than " : "") +
                   std::to_string(is_long ? std::min(found, elements) : found) + " BYTES elements, but " +
                   std::to_string(elements) + " by its shape " + tensor.shape.text());
  return {};
}

std::string path_of(const msg::Call& call, const msg::Tensor& tensor, std::string_view member) {
  return "inputs[" + std::to_string(&tensor - call.inputs.data()) + "]" + std::string(member);
}
std::string path_of_output(size_t i) { return "outputs[" + std::to_string(i) + "].name"; }

// Adds to an INVALID_ARGUMENT, for programs, which field of the call is wrong: `member` of this tensor.
Status of_field(Status status, const msg::Call& call, const msg::Tensor& tensor, std::string_view member) {
  if (status.ok() || status.code != base::Code::kInvalidArgument) return status;
  return base::invalid_field(path_of(call, tensor, member), std::move(status.text));
}

// The product of the dimensions that are not 0: of all, or of those before the first 0. It does not overflow, which
// Shape::elements() has seen to.
enum class Zeros : uint8_t { kPass, kStop };
uint64_t around(const msg::Shape& shape, Zeros zeros) {
  uint64_t n = 1;
  for (int64_t dim : shape.dims()) {
    if (dim == 0 && zeros == Zeros::kStop) break;
    if (dim != 0) n *= uint64_t(dim);
  }
  return n;
}

// A fast check that most tensors pass: elements of one size, no dimension of 0, and as many bytes as they take. False
// does not mean that the tensor is wrong; check_data() decides then.
bool plainly_right(const msg::Tensor& tensor) {
  uint64_t bytes = msg::size_of(tensor.dtype);
  if (bytes == 0) return false;
  for (int64_t dim : tensor.shape.dims())
    if (dim <= 0 || __builtin_mul_overflow(bytes, uint64_t(dim), &bytes)) return false;
  return bytes == tensor.data.size();
}

// Dimensions from `from` on against the declared ones; -1 is any size.
bool fits(const msg::Shape& shape, size_t from, const msg::Shape& declared) {
  if (shape.rank() != declared.rank() + from) return false;
  for (size_t i = 0; i < declared.rank(); ++i)
    if (declared[i] != -1 && declared[i] != shape[i + from]) return false;
  return true;
}

Status check_input(const msg::ModelSpec& spec, const msg::Call& call, const msg::Tensor& tensor,
                   StringLengths lengths) {
  const msg::TensorSpec* declared = spec.input(tensor.name);
  if (!declared) {
    std::vector<std::string_view> names;
    for (const auto& s : spec.inputs) names.push_back(s.name);
    std::string_view near = base::near_miss(tensor.name, names);
    return base::invalid_field(path_of(call, tensor, ".name"),
                               "model '" + spec.name + "' has no input '" + tensor.name + "'" +
                                   (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?"));
  }
  if (!declared->takes(tensor.dtype) || !fits(tensor.shape, spec.max_batch > 0 ? 1 : 0, declared->shape))
    return base::invalid_field(path_of(call, tensor, declared->takes(tensor.dtype) ? ".shape" : ".datatype"),
                               "input '" + tensor.name + "' of model '" + spec.name + "': expected " +
                                   std::string(msg::name(declared->dtype)) + " " + spec.public_shape(*declared).text() +
                                   ", got " + std::string(msg::name(tensor.dtype)) + " " + tensor.shape.text());
  return plainly_right(tensor) ? Status() : of_field(check_data(tensor, "input", lengths), call, tensor, "");
}

Status too_long(std::string_view name, const std::string& path) {
  return base::invalid_field(
      path, "a tensor's name has at most " + std::to_string(kNameMost) + " bytes, not " + std::to_string(name.size()));
}

Status check_names(const msg::Call& call) {
  for (const auto& tensor : call.inputs)
    if (tensor.name.size() > kNameMost) return too_long(tensor.name, path_of(call, tensor, ".name"));
  for (size_t i = 0; i < call.outputs.size(); ++i)
    if (call.outputs[i].size() > kNameMost) return too_long(call.outputs[i], path_of_output(i));
  return {};
}

Status check_unique(const msg::Call& call) {
  for (size_t i = 0; i < call.inputs.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (call.inputs[i].name == call.inputs[j].name)
        return base::invalid_field(path_of(call, call.inputs[i], ".name"),
                                   "input '" + call.inputs[i].name + "' is given twice");
  for (size_t i = 0; i < call.outputs.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (call.outputs[i] == call.outputs[j])
        return base::invalid_field(path_of_output(i), "output '" + call.outputs[i] + "' is asked for twice");
  return {};
}

Status check_complete(const msg::ModelSpec& spec, const msg::Call& call) {
  for (const auto& declared : spec.inputs) {
    bool given = declared.optional;
    for (const auto& tensor : call.inputs) given = given || tensor.name == declared.name;
    if (!given)
      return base::invalid_field("inputs", "input '" + declared.name + "' of model '" + spec.name +
                                               "' is missing: expected " + std::string(msg::name(declared.dtype)) +
                                               " " + spec.public_shape(declared).text());
  }
  for (const auto& name : call.outputs) {
    if (spec.output(name)) continue;
    std::vector<std::string_view> names;
    for (const auto& s : spec.outputs) names.push_back(s.name);
    std::string_view near = base::near_miss(name, names);
    return base::invalid_field(path_of_output(size_t(&name - call.outputs.data())),
                               "model '" + spec.name + "' has no output '" + name + "'" +
                                   (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?"));
  }
  return {};
}

Status check_rows(const msg::ModelSpec& spec, msg::Call& call, const msg::Tensor& tensor) {
  if (tensor.shape.rank() == 0)
    return invalid("input '" + tensor.name + "' has no batch dimension, but model '" + spec.name + "' is batched");
  int64_t rows = tensor.shape[0];
  if (rows < 1) return invalid("input '" + tensor.name + "' has an empty batch dimension: " + tensor.shape.text());
  if (rows > int64_t(spec.max_batch))
    return invalid("input '" + tensor.name + "' brings a batch of " + std::to_string(rows) + ", but model '" +
                   spec.name + "' takes at most " + std::to_string(spec.max_batch));
  if (&tensor != &call.inputs.front() && rows != call.rows)
    return invalid("inputs '" + call.inputs.front().name + "' and '" + tensor.name +
                   "' differ in their batch dimension: " + std::to_string(call.rows) + " and " + std::to_string(rows));
  call.rows = uint32_t(rows);
  return {};
}

Status check_rows(const msg::ModelSpec& spec, msg::Call& call) {
  call.rows = 1;
  if (spec.max_batch == 0) return {};
  for (const auto& tensor : call.inputs)
    if (Status status = check_rows(spec, call, tensor); !status.ok())
      return of_field(std::move(status), call, tensor, ".shape");
  return {};
}

Status wrong_size(std::string_view what, const msg::Tensor& tensor, uint64_t elements) {
  uint64_t width = msg::size_of(tensor.dtype), bytes = 0;
  std::string text = quoted(what, tensor) + ": " + std::to_string(tensor.data.size()) +
                     (tensor.data.size() == 1 ? " byte" : " bytes") + " of data, but " +
                     std::string(msg::name(tensor.dtype)) + " " + tensor.shape.text() + " takes ";
  if (__builtin_mul_overflow(elements, width, &bytes)) return invalid(text + "more than there can be");
  return invalid(text + std::to_string(bytes) + ": " + std::to_string(elements) + " elements of " +
                 std::to_string(width));
}

}  // namespace

uint64_t strings_to_count(const std::vector<msg::Tensor>& tensors) {
  uint64_t strings = 0;
  for (const auto& tensor : tensors)
    if (tensor.dtype == DType::kBytes)
      strings += std::min<uint64_t>(tensor.shape.elements().value_or(0), tensor.data.size() / 4);
  return strings;
}

size_t string_bytes(const std::vector<msg::Tensor>& tensors) {
  size_t bytes = 0;
  for (const auto& tensor : tensors)
    if (tensor.dtype == DType::kBytes) bytes += tensor.data.size();
  return bytes;
}

Status check_data(const msg::Tensor& tensor, std::string_view what, StringLengths lengths) {
  if (tensor.dtype == DType::kInvalid) return invalid(quoted(what, tensor) + " has no datatype");
  auto elements = tensor.shape.elements();
  if (!elements)
    return invalid(quoted(what, tensor) + ": bad shape " + tensor.shape.text() +
                   "; dimensions are 0 or more and their product must fit 63 bits");
  if (*elements == 0 && around(tensor.shape, Zeros::kPass) > kEmptyMost)
    return invalid(quoted(what, tensor) + ": shape " + tensor.shape.text() +
                   " has no elements, and dimensions that multiply to more than " + std::to_string(kEmptyMost));
  if (tensor.dtype == DType::kBytes) return check_strings(tensor, *elements, what, lengths);
  uint64_t bytes;
  if (__builtin_mul_overflow(*elements, uint64_t(msg::size_of(tensor.dtype)), &bytes) || bytes != tensor.data.size())
    return wrong_size(what, tensor, *elements);
  return {};
}

Status check_outputs(const std::vector<msg::Tensor>& tensors, StringLengths lengths) {
  for (const auto& tensor : tensors) {
    if (plainly_right(tensor)) continue;
    if (Status status = check_data(tensor, "output", lengths); !status.ok()) {
      status.code = base::Code::kInternal;
      return status;
    }
  }
  return {};
}

base::Result<size_t> find_output(const msg::ModelSpec& spec, const std::vector<msg::Tensor>& tensors,
                                 std::string_view name) {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].name == name) return i;
  return spec.no_output(name);
}

Status check_nesting(const msg::Tensor& tensor, std::string_view what) {
  if (tensor.shape.elements() != 0u || around(tensor.shape, Zeros::kStop) <= kEmptyArraysMost) return {};
  return invalid(quoted(what, tensor) + ": shape " + tensor.shape.text() + " has no elements, and would be more than " +
                 std::to_string(kEmptyArraysMost) + " empty arrays as nested numbers; ask for it flat");
}

Status check_call(const msg::ModelSpec& spec, msg::Call& call, StringLengths lengths) {
  if (Status status = check_names(call); !status.ok()) return status;
  if (Status status = check_unique(call); !status.ok()) return status;
  for (const auto& tensor : call.inputs) {
    if (spec.any_tensors && plainly_right(tensor)) continue;
    Status status = spec.any_tensors ? of_field(check_data(tensor, "input", lengths), call, tensor, "")
                                     : check_input(spec, call, tensor, lengths);
    if (!status.ok()) return status;
  }
  if (!spec.any_tensors)
    if (Status status = check_complete(spec, call); !status.ok()) return status;
  return check_rows(spec, call);
}

}  // namespace weir::marshal
