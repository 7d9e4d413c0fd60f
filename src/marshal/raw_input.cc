#include "marshal/raw_input.h"

#include "base/memory_ledger.h"

namespace weir::marshal {

using base::invalid;

const msg::TensorSpec* lone_input(const msg::ModelSpec& spec) {
  if (spec.inputs.size() == 1) return &spec.inputs.front();
  const msg::TensorSpec* lone = nullptr;
  for (const auto& input : spec.inputs) {
    if (input.optional) continue;
    if (lone) return nullptr;
    lone = &input;
  }
  return lone;
}

namespace {

// `tensor` has one dimension that is open; everything else of it takes `known` bytes.
base::Status no_whole_rows(const msg::TensorSpec& declared, const msg::Tensor& tensor, uint64_t known) {
  size_t given = tensor.data.size();
  return invalid("input '" + declared.name + "' is " + std::string(msg::name(tensor.dtype)) + ' ' +
                 tensor.shape.text() + ": the body must have a multiple of " + std::to_string(known) +
                 " bytes, but has " + std::to_string(given) + (given == 1 ? " byte" : " bytes"));
}

}  // namespace

base::Bytes one_element(std::string_view text, base::SlabSource& slabs) {
  const auto length = uint32_t(text.size());
  base::Block block(base::take_now(slabs, sizeof length + text.size()));
  block.append(&length, sizeof length);
  block.append(text.data(), text.size());
  return block.freeze();
}

base::Status set_raw_input(const base::Bytes& body, const msg::ModelSpec& spec, base::SlabSource& slabs,
                           msg::Call& call) {
  const msg::TensorSpec* lone = lone_input(spec);
  if (!lone)
    return invalid("a raw request needs a model with one input; '" + spec.name + "' has " +
                   std::to_string(spec.inputs.size()));
  return set_raw_input(body, spec, *lone, slabs, call);
}

base::Status set_raw_input(const base::Bytes& body, const msg::ModelSpec& spec, const msg::TensorSpec& declared,
                           base::SlabSource& slabs, msg::Call& call) {
  msg::Tensor& tensor = call.inputs.emplace_back();
  tensor.name = declared.name;
  tensor.dtype = declared.dtype;
  tensor.shape = spec.public_shape(declared);
  if (tensor.dtype == msg::DType::kBytes) {
    for (size_t i = 0; i < tensor.shape.rank(); ++i)
      if (tensor.shape[i] == -1) tensor.shape[i] = 1;
    tensor.data = one_element(body.view(), slabs);
    return {};
  }
  tensor.data = body;
  size_t open = 0, first_open = 0, last_open = 0;
  uint64_t known = msg::size_of(tensor.dtype);
  for (size_t i = 0; i < tensor.shape.rank(); ++i) {
    if (tensor.shape[i] == -1) {
      if (open++ == 0) first_open = i;
      last_open = i;
    } else if (__builtin_mul_overflow(known, uint64_t(tensor.shape[i]), &known)) {
      known = 0;
    }
  }
  if (open == 2 && spec.max_batch > 0) {  // one row then
    tensor.shape[first_open] = 1;
    open = 1;
  }
  if (open > 1)
    return invalid("a raw request cannot tell the shape of input '" + declared.name + "', declared " +
                   spec.public_shape(declared).text());
  if (open == 0) return {};
  if (known > 0 && body.size() % known != 0) return no_whole_rows(declared, tensor, known);
  tensor.shape[last_open] = known == 0 ? 0 : int64_t(body.size() / known);
  return {};
}

}  // namespace weir::marshal
