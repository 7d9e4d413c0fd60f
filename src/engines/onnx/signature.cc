#include "engines/onnx/signature.h"

#include <algorithm>
#include <utility>

#include "engines/onnx/options.h"

namespace weir::onnx {
namespace {

using msg::DType;
using msg::ModelSpec;
using msg::Shape;
using msg::TensorSpec;
using Tensors = std::vector<GraphTensor>;

const GraphTensor* find(const Tensors& tensors, const std::string& name) {
  auto it = std::find_if(tensors.begin(), tensors.end(), [&](const GraphTensor& t) { return t.name == name; });
  return it == tensors.end() ? nullptr : &*it;
}

std::string quoted(const char* kind, const std::string& name) { return std::string(kind) + " '" + name + "'"; }

std::string names_of(const Tensors& tensors) {
  std::string out;
  for (const GraphTensor& t : tensors) out += (out.empty() ? "'" : ", '") + t.name + "'";
  return out.empty() ? "none" : out;
}

bool has_free_first(const GraphTensor& t) { return t.ranked && t.shape.rank() > 0 && t.shape[0] == -1; }

// Exporters give a dimension that they know nothing of a name of its own: "unk__12" (tf2onnx), "DynamicDimension.3"
// and "p2o.DynamicDimension.3" (Paddle), "Softmaxoutput_dim_0" (PyTorch). Such a name tells no more than none.
bool is_named(const std::string& symbol) {
  return !symbol.empty() && !symbol.starts_with("unk__") && !symbol.ends_with("_dim_0") &&
         symbol.find("DynamicDimension") == std::string::npos;
}

// Says what keeps the file from being batched; empty where nothing does.
std::string why_not_batched(const Signature& file) {
  std::string symbol, first;
  size_t seen = 0;
  for (const Tensors* side : {&file.inputs, &file.outputs})
    for (const GraphTensor& t : *side) {
      if (t.optional || t.dtype == DType::kInvalid) continue;
      if (!has_free_first(t))
        return "the first dimension of '" + t.name + "' is not free: " + (t.ranked ? t.shape.text() : "no shape");
      ++seen;
      if (!is_named(t.first_symbol)) continue;
      if (!symbol.empty() && symbol != t.first_symbol)
        return "the first dimension of '" + first + "' is '" + symbol + "', that of '" + t.name + "' is '" +
               t.first_symbol + "'";
      symbol = t.first_symbol, first = t.name;
    }
  return seen > 0 && !file.inputs.empty() ? "" : "it has no inputs with a shape";
}

bool lists_whole_shape(const std::vector<TensorSpec>& wanted, const Tensors& file) {
  return std::any_of(wanted.begin(), wanted.end(), [&](const TensorSpec& w) {
    const GraphTensor* t = find(file, w.name);
    return t && t->ranked && w.shape.rank() > 0 && w.shape.rank() == t->shape.rank();
  });
}

uint32_t batch_limit(const Signature& file, const ModelSpec& wanted) {
  return wanted.max_batch > 0 ? wanted.max_batch : unbatched(file, wanted).empty() ? kDefaultMaxBatch : 0;
}

Shape without_first(const Shape& shape) {
  Shape out;
  for (size_t i = 1; i < shape.rank(); ++i) out.push(shape[i]);
  return out;
}

// The dimensions on which both agree; the known one where one side leaves it open.
base::Result<Shape> agree(const char* kind, const TensorSpec& wanted, const Shape& file) {
  auto differs = [&] {
    return base::invalid(quoted(kind, wanted.name) + ": the configuration says dimensions " + wanted.shape.text() +
                         ", the model file " + file.text());
  };
  if (wanted.shape.rank() == 0) return file;
  if (wanted.shape.rank() != file.rank()) return differs();
  Shape out = file;
  for (size_t i = 0; i < file.rank(); ++i) {
    if (file[i] != -1 && wanted.shape[i] != -1 && file[i] != wanted.shape[i]) return differs();
    if (file[i] == -1) out[i] = wanted.shape[i];
  }
  return out;
}

base::Result<TensorSpec> join(const char* kind, const GraphTensor& t, const TensorSpec& wanted, uint32_t max_batch) {
  if (t.dtype == DType::kInvalid)
    return base::invalid(quoted(kind, t.name) + " of the model file is no tensor of a type that can be served");
  if (wanted.dtype != DType::kInvalid && wanted.dtype != t.dtype)
    return base::invalid(quoted(kind, t.name) + ": the configuration says " + std::string(name(wanted.dtype)) +
                         ", the model file " + std::string(name(t.dtype)));
  TensorSpec out = wanted;
  out.name = t.name;
  out.dtype = t.dtype;
  if (t.optional) out.optional = true;
  if (!t.ranked && *kind == 'i' && wanted.shape.rank() == 0)
    return base::invalid(quoted(kind, t.name) +
                         " has no shape in the model file: give its dimensions in the "
                         "configuration");
  if (!t.ranked) return out;  // nothing to hold the configuration against
  if (max_batch > 0 && !has_free_first(t))
    return base::invalid("max_batch is " + std::to_string(max_batch) + ", but " + quoted(kind, t.name) +
                         " of the model file has shape " + t.shape.text() +
                         ": its first dimension must be unknown to hold a batch");
  auto shape = agree(kind, wanted, max_batch > 0 ? without_first(t.shape) : t.shape);
  if (!shape) return shape.error();
  out.shape = *shape;
  return out;
}

base::Result<std::vector<TensorSpec>> listed(const char* kind, const Tensors& file,
                                             const std::vector<TensorSpec>& wanted, uint32_t max_batch) {
  std::vector<TensorSpec> out;
  for (const TensorSpec& w : wanted) {
    const GraphTensor* t = find(file, w.name);
    if (!t && w.optional) continue;
    if (!t)
      return base::invalid(quoted(kind, w.name) + " of the configuration is not in the model file, which has " +
                           names_of(file));
    if (std::any_of(out.begin(), out.end(), [&](const TensorSpec& o) { return o.name == w.name; }))
      return base::invalid(quoted(kind, w.name) + " is listed twice in the configuration");
    auto spec = join(kind, *t, w, max_batch);
    if (!spec) return spec.error();
    out.push_back(std::move(*spec));
  }
  return out;
}

std::vector<TensorSpec> all_of(const Tensors& file, const char* kind) {
  std::vector<TensorSpec> out;
  for (const GraphTensor& t : file) {
    // An output that cannot be served (a map of a scikit-learn model) is left out; an input is an error later.
    if (t.optional || (t.dtype == DType::kInvalid && *kind == 'o')) continue;
    out.push_back({.name = t.name, .labels = {}});
  }
  return out;
}

}  // namespace

std::string unbatched(const Signature& file, const ModelSpec& wanted) {
  if (wanted.max_batch > 0) return {};
  if (auto p = wanted.parameters.find("max_batch"); p != wanted.parameters.end() && p->second == "0")
    return "parameter 'max_batch' is 0";
  if (lists_whole_shape(wanted.inputs, file.inputs) || lists_whole_shape(wanted.outputs, file.outputs))
    return "the configuration gives a tensor with all its dimensions; max_batch_size makes the first one a batch";
  return why_not_batched(file);
}

base::Result<ModelSpec> derive(const Signature& file, const ModelSpec& wanted) {
  ModelSpec out = wanted;
  out.engine = "onnx";
  if (out.platform.empty()) out.platform = kPlatform;
  out.max_batch = batch_limit(file, wanted);
  auto inputs =
      listed("input", file.inputs, wanted.inputs.empty() ? all_of(file.inputs, "input") : wanted.inputs, out.max_batch);
  if (!inputs) return inputs.error();
  auto outputs = listed("output", file.outputs,
                        wanted.outputs.empty() ? all_of(file.outputs, "output") : wanted.outputs, out.max_batch);
  if (!outputs) return outputs.error();
  if (outputs->empty()) return base::invalid("the model file has no output that can be served");
  for (const GraphTensor& t : file.inputs) {
    bool there = std::any_of(inputs->begin(), inputs->end(), [&](const TensorSpec& i) { return i.name == t.name; });
    if (!t.optional && !there)
      return base::invalid("the configuration lists inputs but leaves out '" + t.name + "', which the model needs");
  }
  out.inputs = std::move(*inputs);
  out.outputs = std::move(*outputs);
  return out;
}

}  // namespace weir::onnx
