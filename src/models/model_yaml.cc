#include "models/model_yaml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/units.h"
#include "models/preprocess_words.h"
#include "models/yaml_reader.h"

namespace weir::models {
namespace {

// One function per key; a map is read by looking each of its keys up in its table.
class ModelYamlReader : YamlReader {
 public:
  ModelYamlReader(std::string_view place, const msg::BatchPolicy& defaults) : YamlReader(place), defaults_(defaults) {
    out_.batching = defaults;
  }

  base::Result<ModelConfig> read(const Yaml& root) {
    map(root, "",
        {{"engine", [&](auto& v) { text(v, out_.engine); }},
         {"file", [&](auto& v) { text(v, out_.file); }},
         {"names", [&](auto& v) { texts(v, out_.names); }},
         {"adapters", [&](auto& v) { words(v, out_.adapters); }},
         {"adapters_folder", [&](auto& v) { text(v, out_.adapters_folder); }},
         {"max_batch", [&](auto& v) { count(v, out_.max_batch.emplace()); }},
         {"instances", [&](auto& v) { count(v, out_.instances); }},
         {"devices", [&](auto& v) { devices(v); }},
         {"max_concurrency", [&](auto& v) { count(v, out_.max_concurrency); }},
         {"memory", [&](auto& v) { bytes(v, out_.memory.emplace()); }},
         {"decoupled", [&](auto& v) { flag(v, out_.decoupled); }},
         {"response_cache", [&](auto& v) { flag(v, out_.response_cache); }},
         {"versions", [&](auto& v) { versions(v); }},
         {"batching", [&](auto& v) { batching(v); }},
         {"inputs", [&](auto& v) { tensors(v, "inputs", out_.inputs); }},
         {"outputs", [&](auto& v) { tensors(v, "outputs", out_.outputs); }},
         {"preprocess", [&](auto& v) { preprocess(v); }},
         {"warm_up", [&](auto& v) { warm_up(v); }},
         {"dag", [&](auto& v) { dag(v); }},
         {"origins", [&](auto& v) { origins(v), note(out_.parameter_lines, "origins", v); }},
         {"kind", [&](auto& v) { text(v, out_.parameters["kind"]), note(out_.parameter_lines, "kind", v); }},
         {"isolation",
          [&](auto& v) { text(v, out_.parameters["isolation"]), note(out_.parameter_lines, "isolation", v); }},
         {"parameters", [&](auto& v) { parameters(v); }},
         {"origin_parameters", [&](auto& v) { origin_parameters(v); }}});
    if (!complaints_.none()) return complaints_.status();
    if (out_.engine != "forward") set_origins_aside(out_);
    for (auto& group : out_.groups) group.count = out_.instances;
    return std::move(out_);
  }

 private:
  void devices(const Yaml& node) {
    auto& group = out_.groups.emplace_back();
    group.kind = InstanceGroup::Kind::kDevices;
    if (node.kind == Yaml::Kind::kList && !node.items.empty()) {
      for (const auto& item : node.items) {
        text(item, group.devices.emplace_back());
        if (group.devices.back() == "cpu") complaints_.at(item, "expected a device like cuda:0, or devices: cpu alone");
      }
    } else if (node.kind == Yaml::Kind::kScalar && node.scalar == "cpu") {
      group.kind = InstanceGroup::Kind::kCpu;
    } else if (node.kind == Yaml::Kind::kScalar && node.scalar == "auto") {
      group.kind = InstanceGroup::Kind::kAuto;
    } else if (node.kind != Yaml::Kind::kScalar || node.scalar != "all") {
      complaints_.at(node, "expected a list of devices like [cuda:0, cuda:1], or all, auto or cpu");
    }
  }

  void versions(const Yaml& node) {
    auto& policy = out_.versions;
    if (node.kind == Yaml::Kind::kList) {
      policy.kind = msg::VersionPolicy::Kind::kSpecific;
      for (const auto& item : node.items)
        if (scalar(item)) take(item, base::parse_count(item.scalar, INT64_MAX), policy.specific.emplace_back());
    } else if (node.kind == Yaml::Kind::kMap) {
      map(node, "versions", {{"latest", [&](auto& v) { count(v, policy.latest); }}});
    } else if (node.scalar == "all") {
      policy.kind = msg::VersionPolicy::Kind::kAll;
    } else if (node.scalar != "latest") {
      complaints_.at(node, "expected latest, {latest: N}, all or a list of versions");
    }
  }

  void batching(const Yaml& node) {
    auto& policy = out_.batching;
    policy.dynamic = out_.batching_given = true;
    map(node, "batching",
        {{"dynamic", [&](auto& v) { flag(v, policy.dynamic); }},
         {"max_batch", [&](auto& v) { count(v, out_.max_batch.emplace()); }},
         {"max_delay", [&](auto& v) { duration(v, policy.max_delay); }},
         {"preferred", [&](auto& v) { counts(v, policy.preferred); }},
         {"priority_levels", [&](auto& v) { count(v, policy.priority_levels); }},
         {"default_priority", [&](auto& v) { count(v, policy.default_priority); }},
         {"preserve_ordering", [&](auto& v) { flag(v, policy.preserve_ordering); }},
         {"levels", [&](auto& v) { levels(v, policy); }},
         {"max_queue", [&](auto& v) { count(v, policy.max_queue); }},
         {"queue_timeout", [&](auto& v) { duration(v, policy.queue_timeout); }},
         {"timeout_action", [&](auto& v) { timeout_action(v, policy); }},
         {"allow_timeout_override", [&](auto& v) { flag(v, policy.allow_timeout_override); }}});
    std::sort(policy.preferred.begin(), policy.preferred.end());
  }

  void levels(const Yaml& node, msg::BatchPolicy& batching) {
    if (node.kind != Yaml::Kind::kMap) return complaints_.at(node, "expected a map of priorities and queue policies");
    for (const auto& entry : node.entries) {
      auto level = base::parse_count(entry.key, UINT32_MAX);
      if (!level) {
        complaints_.at(entry.value, "expected a priority, got '" + entry.key + "'");
        continue;
      }
      auto& policy = batching.levels.emplace(uint32_t(*level), defaults_).first->second;
      map(entry.value, "batching.levels",
          {{"max_queue", [&](auto& v) { count(v, policy.max_queue); }},
           {"queue_timeout", [&](auto& v) { duration(v, policy.queue_timeout); }},
           {"timeout_action", [&](auto& v) { timeout_action(v, policy); }},
           {"allow_timeout_override", [&](auto& v) { flag(v, policy.allow_timeout_override); }}});
    }
  }

  void timeout_action(const Yaml& node, msg::QueuePolicy& policy) {
    using Action = msg::QueuePolicy::TimeoutAction;
    if (node.scalar == "reject" || node.scalar == "delay")
      policy.timeout_action = node.scalar == "delay" ? Action::kDelay : Action::kReject;
    else
      complaints_.at(node, "expected reject or delay");
  }

  void tensors(const Yaml& node, std::string_view where, std::vector<TensorConfig>& out) {
    if (node.kind != Yaml::Kind::kList) return complaints_.at(node, "expected a list of tensors");
    for (const auto& item : node.items) {
      auto& tensor = out.emplace_back();
      map(item, where,
          {{"name", [&](auto& v) { text(v, tensor.spec.name); }},
           {"type", [&](auto& v) { dtype(v, tensor.spec.dtype); }},
           {"shape", [&](auto& v) { shape(v, tensor); }},
           {"reshape", [&](auto& v) { reshape(v, tensor); }},
           {"format", [&](auto& v) { format(v, tensor.spec.format); }},
           {"optional", [&](auto& v) { flag(v, tensor.spec.optional); }},
           {"labels", [&](auto& v) { labels(v, tensor); }}});
      if (tensor.spec.name.empty()) complaints_.at(item, "a tensor needs a 'name'");
    }
  }

  void dtype(const Yaml& node, msg::DType& out) {
    if (!scalar(node)) return;
    out = msg::dtype_from_name(node.scalar);
    if (out == msg::DType::kInvalid)
      complaints_.at(node, "expected a type like FP32, INT64, BOOL or BYTES, got '" + node.scalar + "'");
  }

  void shape(const Yaml& node, TensorConfig& tensor) {
    tensor.shape_given = true;
    dims(node, tensor.spec.shape);
  }

  void reshape(const Yaml& node, TensorConfig& tensor) { dims(node, tensor.reshape.emplace()); }

  void format(const Yaml& node, std::string& out) {
    if (!scalar(node)) return;
    if (node.scalar != "NHWC" && node.scalar != "NCHW" && node.scalar != "NONE")
      return complaints_.at(node, "expected NHWC, NCHW or NONE, got '" + node.scalar + "'");
    if (node.scalar != "NONE") out = "FORMAT_" + node.scalar;
  }

  void dims(const Yaml& node, msg::Shape& out) {
    if (node.kind != Yaml::Kind::kList) return complaints_.at(node, "expected a list of dimensions");
    for (const auto& item : node.items) {
      int64_t dim = -2;
      const auto& s = item.scalar;
      auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), dim);
      if (s.empty() || error != std::errc() || end != s.data() + s.size() || dim < -1)
        complaints_.at(item, "expected a dimension, 0 or more, or -1 for any");
      else if (!out.push(dim))
        return complaints_.at(item, "more than 16 dimensions");
    }
  }

  void labels(const Yaml& node, TensorConfig& tensor) {
    if (node.kind != Yaml::Kind::kList) return text(node, tensor.spec.label_file);
    texts(node, tensor.spec.labels);
  }

  void preprocess(const Yaml& node) {
    PreprocessConfig& config = out_.preprocess.emplace();
    std::string& input = config.input;
    images::Preprocessing& how = config.how;
    using Resize = images::Preprocessing::Resize;
    map(node, "preprocess",
        {{"input", [&](auto& v) { text(v, input); }},
         {"resize",
          [&](auto& v) {
            how.resize = v.kind == Yaml::Kind::kList ? Resize::kExact : Resize::kShortSide;
            size(v, how.resize_height, how.resize_width);
          }},
         {"crop", [&](auto& v) { size(v, how.crop_height, how.crop_width); }},
         {"filter", [&](auto& v) { choose(v, how.filter, kFilters); }},
         {"colors", [&](auto& v) { choose(v, how.colors, kColors); }},
         {"layout", [&](auto& v) { choose(v, how.layout, kLayouts); }},
         {"scale", [&](auto& v) { real(v, how.scale); }},
         {"mean", [&](auto& v) { channels(v, how.mean); }},
         {"std", [&](auto& v) { channels(v, how.std); }}});
    for (double s : how.std)
      if (s == 0) return complaints_.at(node, "std: expected numbers other than 0");
  }

  // One number for both sides, or [height, width].
  void size(const Yaml& node, uint32_t& height, uint32_t& width) {
    std::vector<uint32_t> sides(1);
    if (node.kind == Yaml::Kind::kList)
      counts(node, sides);
    else
      count(node, sides[0]);
    for (uint32_t side : sides)
      if (sides.size() > 2 || side == 0 || side > kMostSide)
        return complaints_.at(node, "expected a number of pixels from 1 to 4096, or [height, width]");
    if (sides.empty()) return complaints_.at(node, "expected [height, width]");
    height = sides.front(), width = sides.back();
  }

  // One number for all colours, or one for each.
  void channels(const Yaml& node, std::array<double, 3>& out) {
    if (node.kind != Yaml::Kind::kList) return real(node, out[0]), void(out[1] = out[2] = out[0]);
    if (node.items.size() != out.size()) return complaints_.at(node, "expected a number, or three");
    for (size_t i = 0; i < out.size(); ++i) real(node.items[i], out[i]);
  }

  void words(const Yaml& node, std::map<std::string, std::string>& out) {
    if (node.kind != Yaml::Kind::kMap) return complaints_.at(node, "expected a map of keys and values");
    for (const auto& entry : node.entries) text(entry.value, out[entry.key]);
  }
  void parameters(const Yaml& node) {
    words(node, out_.parameters);
    for (const auto& entry : node.entries) note(out_.parameter_lines, entry.key, entry);
  }
  void note(auto& lines, const std::string& name, const auto& at) {
    lines[name] = place_ + ':' + std::to_string(at.line) + ':' + std::to_string(at.column);
  }
  void origin_parameters(const Yaml& node) {
    words(node, out_.origins);
    for (const auto& entry : node.entries) note(out_.origin_lines, entry.key, entry);
  }
  void origins(const Yaml& node) {  // one address, or a list of them: one text with spaces between
    std::string one, &out = out_.parameters["origins"];
    if (node.kind != Yaml::Kind::kList) return text(node, out);
    for (const auto& item : node.items) text(item, one), out += (out.empty() ? "" : " ") + one;
  }

  void warm_up(const Yaml& node) {
    if (node.kind != Yaml::Kind::kList) return complaints_.at(node, "expected a list of sample requests");
    for (const auto& item : node.items) {
      auto& sample = out_.warm_up.emplace_back();
      map(item, "warm_up",
          {{"name", [&](auto& v) { text(v, sample.name); }},
           {"rows", [&](auto& v) { count(v, sample.rows); }},
           {"count", [&](auto& v) { count(v, sample.count); }},
           {"inputs", [&](auto& v) { warm_up_inputs(v, sample.inputs); }}});
    }
  }

  void warm_up_inputs(const Yaml& node, std::map<std::string, WarmUpInput>& out) {
    if (node.kind != Yaml::Kind::kMap) return complaints_.at(node, "expected a map of inputs");
    for (const auto& entry : node.entries) {
      auto& input = out[entry.key];
      TensorConfig tensor;
      map(entry.value, "warm_up.inputs",
          {{"type", [&](auto& v) { dtype(v, input.dtype); }},
           {"shape", [&](auto& v) { shape(v, tensor); }},
           {"data", [&](auto& v) { warm_up_data(v, input); }}});
      input.shape = tensor.spec.shape;
    }
  }

  void warm_up_data(const Yaml& node, WarmUpInput& out) {
    using Source = WarmUpInput::Source;
    if (!scalar(node)) return;
    out.source = node.scalar == "zero" ? Source::kZero : node.scalar == "random" ? Source::kRandom : Source::kFile;
    if (out.source == Source::kFile) out.file = node.scalar;
  }

  void dag(const Yaml& node) {
    std::string type = "sequential";
    map(node, "dag",
        {{"type",
          [&](auto& v) {
            text(v, type);
            if (type != "sequential") complaints_.at(v, "expected sequential, got '" + type + "'");
          }},
         {"nodes", [&](auto& v) { nodes(v); }}});
  }

  void nodes(const Yaml& node) {
    if (node.kind != Yaml::Kind::kList) return complaints_.at(node, "expected a list of nodes");
    for (const auto& item : node.items) {
      auto& n = out_.dag.nodes.emplace_back();
      map(item, "dag.nodes",
          {{"name", [&](auto& v) { text(v, n.name); }},
           {"model", [&](auto& v) { text(v, n.model); }},
           {"version", [&](auto& v) { text(v, n.version); }},
           {"inputs", [&](auto& v) { words(v, n.inputs); }},
           {"outputs", [&](auto& v) { words(v, n.outputs); }}});
      if (n.model.empty()) complaints_.at(item, "a node needs a 'model'");
      if (n.name.empty()) n.name = n.model;
    }
  }

  const msg::QueuePolicy defaults_;
  ModelConfig out_;
};

}  // namespace

base::Result<ModelConfig> parse_model_yaml(std::string_view text, std::string_view place,
                                           const msg::BatchPolicy& defaults) {
  auto tree = parse_yaml(text, place);
  if (!tree) return tree.error();
  return ModelYamlReader(place, defaults).read(*tree);
}

}  // namespace weir::models
