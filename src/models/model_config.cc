#include "models/model_config.h"

#include <algorithm>
#include <set>

#include "base/encoding.h"
#include "engines/process/protocol.h"
#include "models/folder.h"
#include "sched/reshaped_engine.h"

namespace weir::models {
namespace {

constexpr uint32_t kMaxInstances = 64;
constexpr uint32_t kMaxBatch = 65536;
constexpr size_t kMaxNodes = 64;
constexpr uint32_t kMaxPriorityLevels = 1000;  // each has a queue, and each is looked at when a batch is formed
constexpr size_t kMaxPreferred = 1024;
constexpr size_t kMostNames = 32, kLongestName = 200;

base::Status check_tensors(const std::vector<TensorConfig>& tensors, std::string_view what) {
  std::set<std::string_view> seen;
  for (const auto& t : tensors) {
    if (t.spec.name.empty()) return base::invalid("an " + std::string(what) + " without a name");
    if (!seen.insert(t.spec.name).second)
      return base::invalid(std::string(what) + " '" + t.spec.name + "' is given twice");
    for (int64_t d : t.spec.shape.dims())
      if (d < -1)
        return base::invalid(std::string(what) + " '" + t.spec.name + "': a dimension of " + std::to_string(d));
    if (!t.reshape) continue;
    if (!t.shape_given || !sched::can_reshape(t.spec.shape, *t.reshape))
      return base::invalid(std::string(what) + " '" + t.spec.name + "' has shape " + t.spec.shape.text() +
                           " and reshape " + t.reshape->text() + ": both need the same number of elements");
  }
  return {};
}

// The tensor as the model file has it.
msg::TensorSpec of_model(const TensorConfig& tensor) {
  msg::TensorSpec spec = tensor.spec;
  if (tensor.reshape) spec.shape = *tensor.reshape;
  return spec;
}

}  // namespace

base::Result<std::vector<std::string>> ModelConfig::places(const std::string& name, const DeviceSupply& supply,
                                                           std::vector<size_t>* of) const {
  if (groups.empty()) return std::vector<std::string>(instances);
  auto wanted = groups;
  // A device that is named is not to be chosen.
  for (auto& group : wanted)
    if (group.kind == InstanceGroup::Kind::kAuto && parameters.count("device"))
      group.kind = InstanceGroup::Kind::kEngine;
  auto places = place(wanted, name, supply, of);
  if (places && places->size() > kMaxInstances)
    return base::invalid(std::to_string(places->size()) + " instances: 1 to " + std::to_string(kMaxInstances) +
                         " are possible");
  return places;
}

msg::ModelSpec ModelConfig::wanted(std::string_view model, uint64_t version) const {
  msg::ModelSpec spec;
  spec.name = model;
  spec.version = std::to_string(version);
  spec.engine = engine;
  spec.max_batch = max_batch.value_or(0);
  for (const auto& t : inputs) spec.inputs.push_back(of_model(t));
  for (const auto& t : outputs) spec.outputs.push_back(of_model(t));
  spec.batching = batching;
  spec.instances = instances;
  spec.decoupled = decoupled;
  spec.parameters = parameters;
  if (iterative) spec.parameters[process::kIterative] = *iterative;
  spec.adapters = adapters;
  if (!adapters_folder.empty()) spec.parameters.try_emplace("device", "cpu");  // where adapters run
  spec.configured.versions = versions, spec.configured.file = file, spec.configured.as_triton = as_triton;
  if (batching_given) spec.configured.batching = batching;
  for (const auto& node : dag.nodes)
    spec.configured.steps.push_back({node.model, node.version, node.inputs, node.outputs});
  return spec;
}

namespace {

// Triton's rules, but that there are not more than a thousand levels and that the default one may be left out.
base::Status check_queues(const msg::BatchPolicy& batching) {
  uint32_t levels = batching.priority_levels;
  auto of_levels = " of " + std::to_string(levels) + " levels";
  if (levels > kMaxPriorityLevels)
    return base::invalid(std::to_string(levels) + " priority levels: at most " + std::to_string(kMaxPriorityLevels) +
                         " are possible");
  if (batching.default_priority > levels)
    return base::invalid("default priority " + std::to_string(batching.default_priority) + of_levels);
  for (const auto& [level, policy] : batching.levels)
    if (level == 0 || level > levels)
      return base::invalid("a queue policy for priority " + std::to_string(level) + of_levels);
  if (!batching.preserve_ordering) return {};
  if (levels > 1)
    return base::invalid("preserve_ordering goes with one level of priority, not with " + std::to_string(levels));
  auto delays = [](const msg::QueuePolicy& policy) {
    return policy.timeout_action == msg::QueuePolicy::TimeoutAction::kDelay && policy.queue_timeout.count() > 0;
  };
  if (delays(batching) ||
      std::any_of(batching.levels.begin(), batching.levels.end(), [&](const auto& l) { return delays(l.second); }))
    return base::invalid("preserve_ordering does not go with a queue policy whose timeout_action is DELAY");
  return {};
}

base::Status check_warm_up(const ModelConfig& config) {
  if (config.warm_up.size() > kMostSamples)
    return base::invalid(std::to_string(config.warm_up.size()) + " warm-up samples: at most " +
                         std::to_string(kMostSamples) + " are possible");
  for (const auto& sample : config.warm_up)
    if (sample.rows == 0 || sample.count == 0 || sample.count > kMostWarmUps)
      return base::invalid("warm-up sample '" + sample.name + "': it has 1 row or more, and runs 1 to " +
                           std::to_string(kMostWarmUps) + " times");
  return {};
}

base::Status check_dag(const ModelConfig& config) {
  bool pipeline = config.engine == kPipeline;
  if (!pipeline && config.dag.nodes.empty()) return {};
  if (!pipeline) return base::invalid("a dag needs 'engine: pipeline'");
  if (config.dag.nodes.empty()) return base::invalid("a pipeline needs a dag with nodes");
  if (config.dag.nodes.size() > kMaxNodes)
    return base::invalid(std::to_string(config.dag.nodes.size()) + " nodes in one pipeline: at most " +
                         std::to_string(kMaxNodes) + " are possible");
  for (const auto* tensors : {&config.inputs, &config.outputs})
    for (const auto& t : *tensors)
      if (t.reshape) return base::invalid("reshape of '" + t.spec.name + "': its models reshape, not the pipeline");
  std::set<std::string_view> names;
  for (const auto& node : config.dag.nodes) {
    if (node.model.empty()) return base::invalid("a node without a model");
    if (!names.insert(node.name).second) return base::invalid("two nodes are called '" + node.name + "'");
  }
  return {};
}

}  // namespace

// Those of Hugging Face ("Qwen/Qwen3-8B"), Ollama ("llama3:8b") and OpenAI ("ft:gpt-4o-mini:org::id") are.
bool good_further_name(std::string_view name) {
  constexpr std::string_view kGood = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:/@+";
  if (name.empty() || name.size() > kLongestName || name.find_first_not_of(kGood) != name.npos) return false;
  // As parts of a path they must be themselves.
  const std::string parts = '/' + std::string(name) + '/';
  return parts.find("//") == parts.npos && parts.find("/./") == parts.npos && parts.find("/../") == parts.npos;
}

namespace {

base::Status check_adapters(const ModelConfig& config, std::string_view folder_name) {
  if (config.adapters.size() > kMostAdapters)
    return base::invalid(std::to_string(config.adapters.size()) + " adapters: at most " +
                         std::to_string(kMostAdapters) + " are possible");
  const bool any = !config.adapters.empty() || !config.adapters_folder.empty();
  if (any && (config.engine == kPipeline || !config.origins.empty()))
    return base::invalid("adapters go with a model that runs here: with no pipeline, and no 'origins'");
  if (!config.adapters_folder.empty() && !good_relative_path(config.adapters_folder))
    return base::invalid("adapters_folder: '" + std::string(base::cut_text(config.adapters_folder, kLongestName)) +
                         "' is no path of a folder below the version's folder");
  for (const auto& [name, path] : config.adapters) {
    const std::string who = "adapter '" + std::string(base::cut_text(name, kLongestName)) + "': ";
    if (!good_further_name(name))
      return base::invalid(who +
                           "this cannot be the name of a model: letters, digits, '_', '.', '-', ':', '@', '+', "
                           "and '/' between parts, at most " +
                           std::to_string(kLongestName));
    if (name == folder_name || std::count(config.names.begin(), config.names.end(), name) > 0)
      return base::invalid(who + "this is a name of the model itself");
    if (!good_relative_path(path))
      return base::invalid(who + "'" + path + "' is no path of a folder below the version's folder");
  }
  return {};
}

base::Status check_names(const ModelConfig& config, std::string_view folder_name) {
  if (config.names.size() > kMostNames)
    return base::invalid(std::to_string(config.names.size()) + " further names: at most " + std::to_string(kMostNames) +
                         " are possible");
  for (const auto& name : config.names) {
    if (!good_further_name(name))
      return base::invalid("'" + std::string(base::cut_text(name, kLongestName)) +
                           "' cannot be a further name of a model: letters, digits, '_', '.', '-', ':', '@', '+', and "
                           "'/' between parts, at most " +
                           std::to_string(kLongestName));
    if (name == folder_name) return base::invalid("'" + name + "' is the model's own name, and no further one");
  }
  return {};
}

}  // namespace

void set_origins_aside(ModelConfig& config) {
  for (const char* name : {"origins", "kind"}) {
    auto found = config.parameters.extract(name);
    if (found.empty()) continue;
    config.origins[name] = std::move(found.mapped());
    config.origin_lines[name] = std::move(config.parameter_lines.extract(name).mapped());
  }
  auto origins = config.origins.find("origins");
  if (origins != config.origins.end() && origins->second == "cluster") config.origins.try_emplace("kind", "weir");
}

base::Status check(const ModelConfig& config, std::string_view folder_name) {
  if (!config.name.empty() && config.name != folder_name)
    return base::invalid("the configuration is for '" + config.name + "', but its folder is '" +
                         std::string(folder_name) + "'");
  if (config.parameters.count(process::kIterative))
    return base::invalid("a parameter has the name of the server's own");
  if (config.instances == 0 || config.instances > kMaxInstances)
    return base::invalid(std::to_string(config.instances) + " instances: 1 to " + std::to_string(kMaxInstances) +
                         " are possible");
  if (config.max_batch.value_or(0) > kMaxBatch)
    return base::invalid("a maximum batch of " + std::to_string(*config.max_batch) + ": at most " +
                         std::to_string(kMaxBatch) + " is possible");
  if (config.max_batch && config.batching.dynamic)
    for (uint32_t preferred : config.batching.preferred)
      if (preferred == 0 || preferred > std::max(1u, *config.max_batch))
        return base::invalid("a preferred batch of " + std::to_string(preferred) + " with a maximum of " +
                             std::to_string(*config.max_batch));
  if (config.batching.preferred.size() > kMaxPreferred)
    return base::invalid(std::to_string(config.batching.preferred.size()) + " preferred batch sizes: at most " +
                         std::to_string(kMaxPreferred) + " are possible");
  if (auto s = check_names(config, folder_name); !s.ok()) return s;
  if (auto s = check_adapters(config, folder_name); !s.ok()) return s;
  if (auto s = check_queues(config.batching); !s.ok()) return s;
  if (config.versions.kind == msg::VersionPolicy::Kind::kLatest && config.versions.latest == 0)
    return base::invalid("a version policy of the latest 0 versions serves nothing");
  if (auto s = check_warm_up(config); !s.ok()) return s;
  if (config.response_cache && config.decoupled)
    return base::invalid("response_cache is for models that answer each request once");
  if (auto s = check_dag(config); !s.ok()) return s;
  if (auto s = check_tensors(config.inputs, "input"); !s.ok()) return s;
  return check_tensors(config.outputs, "output");
}

}  // namespace weir::models
