#include "models/merge.h"

#include <algorithm>

namespace weir::models {
namespace {

std::string names_of(const std::vector<msg::TensorSpec>& tensors) {
  std::string out;
  for (const auto& t : tensors) out += (out.empty() ? "" : ", ") + t.name;
  return out.empty() ? "none" : out;
}

// One configured tensor over the file's. `ours` is in place in the result, its shape as the result has it.
base::Status lay_over(const TensorConfig& config, std::string_view what, msg::TensorSpec& ours) {
  std::string who = std::string(what) + " '" + ours.name + "'";
  const auto& said = config.spec;
  if (said.dtype != msg::DType::kInvalid && ours.dtype != msg::DType::kInvalid && said.dtype != ours.dtype)
    return base::invalid(who + " is " + std::string(msg::name(said.dtype)) + " in the configuration and " +
                         std::string(msg::name(ours.dtype)) + " in the model");
  if (said.dtype != msg::DType::kInvalid) ours.dtype = said.dtype;
  if (config.shape_given) {
    msg::Shape shape = ours.shape;
    bool fits = said.shape.rank() == shape.rank();
    for (size_t i = 0; fits && i < said.shape.rank(); ++i) {
      fits = shape[i] == -1 || said.shape[i] == -1 || said.shape[i] == shape[i];
      if (shape[i] == -1) shape[i] = said.shape[i];
    }
    if (!fits)
      return base::invalid(who + " has shape " + said.shape.text() + " in the configuration and " + ours.shape.text() +
                           " in the model");
    ours.shape = shape;
  }
  ours.optional = ours.optional || said.optional;
  if (!said.labels.empty()) ours.labels = said.labels;
  ours.label_file = said.label_file, ours.format = said.format;
  return {};
}

base::Status lay_over(const std::vector<TensorConfig>& config, std::string_view what,
                      std::vector<msg::TensorSpec>& ours, const std::optional<PreprocessConfig>& preprocess) {
  for (const auto& c : config) {
    if (preprocess && (preprocess->input.empty() || preprocess->input == c.spec.name))
      continue;  // clients see a picture
    auto found = std::find_if(ours.begin(), ours.end(), [&](const auto& t) { return t.name == c.spec.name; });
    if (found == ours.end())
      return base::invalid("the configuration has an " + std::string(what) + " '" + c.spec.name +
                           "' that the model has not; it has " + names_of(ours));
    if (auto s = lay_over(c, what, *found); !s.ok()) return s;
  }
  return {};
}

}  // namespace

base::Result<msg::ModelSpec> merge(const msg::ModelSpec& wanted, const ModelConfig& config, const msg::ModelSpec& file,
                                   uint32_t default_max_batch) {
  msg::ModelSpec out = wanted;
  out.platform = file.platform;
  out.any_tensors = file.any_tensors;
  out.text = file.text, out.encoder = file.encoder;
  out.ragged = file.ragged;
  out.details = file.details;
  out.decoupled = wanted.decoupled || file.decoupled;
  for (const auto& [key, value] : file.parameters) out.parameters.emplace(key, value);

  bool declares = !file.inputs.empty() || !file.outputs.empty();
  if (!config.max_batch)
    out.max_batch = file.max_batch > 0 && declares ? std::min(file.max_batch, default_max_batch) : file.max_batch;
  if (out.max_batch > 0 && file.max_batch == 0 && declares)
    return base::invalid("max_batch is " + std::to_string(out.max_batch) +
                         ", but the model's first dimensions are not a free batch dimension");
  out.batching.dynamic = out.batching.dynamic || file.batching.dynamic;  // a model may say so by itself
  if (out.max_batch <= 1) out.batching.dynamic = false;
  std::erase_if(out.batching.preferred, [&](uint32_t size) { return size > out.max_batch; });
  if (!declares) return out;  // any tensors, or those that the configuration names

  out.inputs = file.inputs, out.outputs = file.outputs;
  if (file.max_batch > 0 && out.max_batch == 0) {
    for (auto& t : out.inputs) t.shape = file.public_shape(t);
    for (auto& t : out.outputs) t.shape = file.public_shape(t);
  }
  if (auto s = lay_over(config.inputs, "input", out.inputs, config.preprocess); !s.ok()) return s;
  if (auto s = lay_over(config.outputs, "output", out.outputs, {}); !s.ok()) return s;
  return out;
}

}  // namespace weir::models
