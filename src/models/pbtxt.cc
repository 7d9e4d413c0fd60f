// Triton's ModelConfig -> models::ModelConfig.

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <algorithm>

#include "base/encoding.h"
#include "base/units.h"
#include "model_config.pb.h"
#include "models/config_fields.h"
#include "models/model_config.h"
#include "models/pbtxt_metrics.h"
#include "models/pbtxt_sequence.h"
#include "sched/sequence_inbox.h"

namespace weir::models {
namespace {

namespace pb = google::protobuf;

// Turns protobuf's "Message type "T" has no field named "x"." into words of ours with the field that was probably
// meant. `column` moves back to the field, which the parser has read past.
std::string reworded(const std::string& text, std::string_view line, int& column) {
  constexpr std::string_view kType = "Message type \"", kField = "has no field named \"";
  size_t type = text.find(kType), field = text.find(kField);
  if (type == std::string::npos || field == std::string::npos) return text;
  type += kType.size(), field += kField.size();
  std::string word = text.substr(field, text.find('"', field) - field);
  if (size_t at = line.rfind(word, size_t(column)); at != std::string_view::npos) column = int(at);
  const auto* descriptor =
      pb::DescriptorPool::generated_pool()->FindMessageTypeByName(text.substr(type, text.find('"', type) - type));
  if (!descriptor) return text;
  std::vector<std::string_view> names;
  for (int i = 0; i < descriptor->field_count(); ++i) names.push_back(descriptor->field(i)->name());
  std::string out = "unknown field '" + word + "' in " + descriptor->name();
  if (auto near = base::near_miss(word, names); !near.empty()) out += ", did you mean '" + std::string(near) + "'?";
  return out;
}

std::string_view nth_line(std::string_view text, int n) {
  for (; n > 0 && !text.empty(); --n) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text.substr(0, text.find('\n'));
}

struct Errors final : pb::io::ErrorCollector {
  Errors(std::string_view p, std::string_view s) : place(p), source(s) {}
  void AddError(int line, pb::io::ColumnNumber column, const std::string& message) override {
    if (!text.empty()) text += '\n';
    text += place + ':';
    std::string words = line < 0 ? message : reworded(message, nth_line(source, line), column);
    if (line >= 0) text += std::to_string(line + 1) + ':' + std::to_string(column + 1) + ':';
    text += ' ' + words;
  }
  std::string place, text;
  std::string_view source;
};

constexpr uint64_t kLongest = 3'600'000'000;  // an hour in µs

// Reads one ModelConfig; the first thing that weir cannot honour ends it.
class PbtxtReader {
 public:
  PbtxtReader(const inference::ModelConfig& in, const msg::BatchPolicy& defaults) : in_(in) {
    out_.batching = defaults;
  }

  base::Result<ModelConfig> read() {
    auto shown = check_fields(in_);
    if (!shown) return shown.error();
    out_.notes = std::move(*shown);
    out_.as_triton = in_.SerializeAsString();
    out_.name = in_.name();
    out_.engine = engine();
    out_.file = in_.default_model_filename();
    if (in_.max_batch_size() < 0) return base::invalid("max_batch_size is negative");
    if (in_.max_batch_size() > 0 || in_.input_size() > 0 || in_.output_size() > 0)
      out_.max_batch = uint32_t(in_.max_batch_size());
    out_.decoupled = in_.model_transaction_policy().decoupled();
    out_.response_cache = in_.response_cache().enable();
    for (const auto& [key, value] : in_.parameters()) out_.parameters[key] = value.string_value();
    if (auto s = own_parameters(); !s.ok()) return s;
    for (auto step : {&PbtxtReader::inputs, &PbtxtReader::outputs, &PbtxtReader::versions, &PbtxtReader::batching,
                      &PbtxtReader::sequence, &PbtxtReader::instances, &PbtxtReader::ensemble, &PbtxtReader::warm_up,
                      &PbtxtReader::accelerators, &PbtxtReader::metrics})
      if (auto s = (this->*step)(); !s.ok()) return s;
    return std::move(out_);
  }

 private:
  std::string engine() const {
    if (in_.platform() == "ensemble" || in_.has_ensemble_scheduling()) return std::string(kPipeline);
    if (in_.backend() == "onnxruntime" || in_.platform() == "onnxruntime_onnx") return "onnx";
    return !in_.backend().empty() ? in_.backend() : in_.platform();
  }

  base::Status metrics() {
    auto bounds = read_first_response_bounds(in_.model_metrics(), out_.notes);
    if (bounds) out_.first_response_ms = std::move(*bounds);
    return bounds ? base::Status() : bounds.error();
  }

  bool has_fixed_inputs() const {
    const auto& inputs = in_.input();
    return !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [](const auto& input) {
      return std::all_of(input.dims().begin(), input.dims().end(), [](int64_t size) { return size > 0; });
    });
  }

  // Accelerators and CUDA graphs, as parameters of engine onnx (engines/onnx/providers.h), unless there are such
  // already. CUDA takes what TensorRT does not. Graphs are a wish: a model of other shapes runs without.
  base::Status accelerators() {
    const auto& in = in_.optimization().execution_accelerators();
    if (engine() == "onnx" && in_.optimization().cuda().graphs() && has_fixed_inputs())
      out_.parameters.emplace("cuda.enable_cuda_graph", "1");
    if (out_.parameters.count("providers")) return {};
    std::string names;
    auto add = [&](const std::string& name) { names += (names.empty() ? "" : ",") + name; };
    for (const auto* list : {&in.gpu_execution_accelerator(), &in.cpu_execution_accelerator()})
      for (const auto& accelerator : *list) {
        add(accelerator.name());
        for (const auto& [key, value] : accelerator.parameters())
          if (auto s = accelerator_option(accelerator.name(), key, value); !s.ok()) return s;
      }
    if (names.find("tensorrt") != std::string::npos && names.find("cuda") == std::string::npos) add("cuda");
    if (!names.empty()) out_.parameters["providers"] = names;
    return {};
  }
  // Triton has words of its own for some of TensorRT's.
  base::Status accelerator_option(const std::string& name, const std::string& key, const std::string& value) {
    auto& parameters = out_.parameters;
    if (name != "tensorrt" || key.starts_with("trt_")) return parameters[name + '.' + key] = value, base::Status();
    if (key == "max_workspace_size_bytes") return parameters["tensorrt.trt_max_workspace_size"] = value, base::Status();
    if (key == "minimum_segment_size") return parameters["tensorrt.trt_min_subgraph_size"] = value, base::Status();
    if (key != "precision_mode") return base::invalid("accelerator 'tensorrt' has no parameter '" + key + "' here");
    if (value == "FP16") parameters["tensorrt.trt_fp16_enable"] = "1";
    if (value == "INT8") parameters["tensorrt.trt_int8_enable"] = "1";
    if (value == "FP32" || value == "FP16" || value == "INT8") return {};
    return base::invalid("accelerator 'tensorrt': precision_mode is FP32, FP16 or INT8, not '" + value + "'");
  }

  // Triton has no fields for these.
  base::Status own_parameters() {
    if (auto given = out_.parameters.find("max_concurrency"); given != out_.parameters.end()) {
      auto most = base::parse_count(given->second, UINT32_MAX);
      if (!most) return base::invalid("parameter 'max_concurrency': " + most.error().text);
      out_.max_concurrency = uint32_t(*most);
    }
    if (auto given = out_.parameters.find("memory"); given != out_.parameters.end()) {
      auto bytes = base::parse_size(given->second);
      if (!bytes) return base::invalid("parameter 'memory': " + bytes.error().text);
      out_.memory = *bytes;
    }
    return {};
  }

  template <class T>
  base::Status tensor(const T& in, TensorConfig& out) {
    out.spec.name = in.name();
    out.spec.dtype = dtype_of(in.data_type());
    out.shape_given = true;
    for (int64_t d : in.dims())
      if (!out.spec.shape.push(d)) return base::invalid("tensor '" + in.name() + "' has more than 16 dimensions");
    if (out.spec.dtype == msg::DType::kInvalid) return base::invalid("tensor '" + in.name() + "' has no data_type");
    if (!in.has_reshape()) return {};
    out.reshape.emplace();
    for (int64_t d : in.reshape().shape())
      if (d < -1 || !out.reshape->push(d))
        return base::invalid("reshape of tensor '" + in.name() + "': a dimension of " + std::to_string(d));
    return {};
  }

  base::Status inputs() {
    for (const auto& in : in_.input()) {
      TensorConfig t;
      if (auto s = tensor(in, t); !s.ok()) return s;
      t.spec.optional = in.optional();
      if (in.format() != inference::ModelInput::FORMAT_NONE)
        t.spec.format = inference::ModelInput::Format_Name(in.format());
      out_.inputs.push_back(std::move(t));
    }
    return {};
  }

  base::Status outputs() {
    for (const auto& in : in_.output()) {
      TensorConfig t;
      if (auto s = tensor(in, t); !s.ok()) return s;
      t.spec.label_file = in.label_filename();
      out_.outputs.push_back(std::move(t));
    }
    return {};
  }

  base::Status ensemble() {
    if (!in_.has_ensemble_scheduling()) return {};
    const auto& in = in_.ensemble_scheduling();
    out_.dag.order = DagConfig::Order::kByTensors;
    for (const auto& step : in.step()) {
      auto& node = out_.dag.nodes.emplace_back();
      node.model = step.model_name();
      node.name = "step " + std::to_string(out_.dag.nodes.size()) + " (" + node.model + ")";
      if (step.model_version() > 0) node.version = std::to_string(step.model_version());
      for (const auto& [model, tensor] : step.input_map()) node.inputs[model] = tensor;
      for (const auto& [model, tensor] : step.output_map()) node.outputs[model] = tensor;
    }
    return {};
  }

  base::Status warm_up() {
    for (const auto& in : in_.model_warmup()) {
      auto& sample = out_.warm_up.emplace_back();
      sample.name = in.name();
      sample.rows = std::max(1u, in.batch_size());
      sample.count = std::max(1u, in.count());
      for (const auto& [name, from] : in.inputs())
        if (auto s = warm_up_input(from, sample.inputs[name]); !s.ok()) return s;
    }
    return {};
  }

  static base::Status warm_up_input(const inference::ModelWarmup::Input& in, WarmUpInput& out) {
    out.dtype = dtype_of(in.data_type());
    for (int64_t d : in.dims())
      if (!out.shape.push(d)) return base::invalid("model_warmup: an input has more than 16 dimensions");
    if (in.random_data()) out.source = WarmUpInput::Source::kRandom;
    if (in.input_data_file().empty()) return {};
    out.source = WarmUpInput::Source::kFile;
    out.file = "warmup/" + in.input_data_file();
    return {};
  }

  base::Status versions() {
    const auto& policy = in_.version_policy();
    if (policy.has_all()) out_.versions.kind = msg::VersionPolicy::Kind::kAll;
    if (policy.has_latest()) out_.versions.latest = std::max(1u, policy.latest().num_versions());
    if (!policy.has_specific()) return {};
    out_.versions.kind = msg::VersionPolicy::Kind::kSpecific;
    for (int64_t v : policy.specific().versions()) {
      if (v <= 0) return base::invalid("version_policy names version " + std::to_string(v));
      out_.versions.specific.push_back(uint64_t(v));
    }
    return {};
  }

  // Triton batches requests only of models that ask for it.
  base::Status batching() {
    out_.batching.dynamic = in_.has_dynamic_batching();
    if (!in_.has_dynamic_batching()) return {};
    const auto& in = in_.dynamic_batching();
    auto& out = out_.batching;
    if (in.max_queue_delay_microseconds() > kLongest)
      return base::invalid("dynamic_batching: max_queue_delay_microseconds of more than an hour");
    out.dynamic = out_.batching_given = true;
    out.max_delay = std::chrono::microseconds(in.max_queue_delay_microseconds());
    out.preferred.clear();
    for (int32_t size : in.preferred_batch_size()) {
      if (size <= 0) return base::invalid("dynamic_batching: a preferred batch of " + std::to_string(size));
      out.preferred.push_back(uint32_t(size));
    }
    std::sort(out.preferred.begin(), out.preferred.end());
    out.priority_levels = narrow(in.priority_levels());
    out.default_priority = narrow(in.default_priority_level());
    out.preserve_ordering = in.preserve_ordering();
    const msg::QueuePolicy unsaid = out;
    if (in.has_default_queue_policy())
      if (auto s = queue_policy(in.default_queue_policy(), out); !s.ok()) return s;
    if (in.priority_levels() == 0 && in.priority_queue_policy_size() > 0)
      return out_.notes.push_back("dynamic_batching.priority_queue_policy, without priority_levels"), base::Status{};
    for (const auto& [level, policy] : in.priority_queue_policy())
      if (auto s = queue_policy(policy, out.levels.emplace(narrow(level), unsaid).first->second); !s.ok()) return s;
    return {};
  }

  base::Status sequence() {
    if (!in_.has_sequence_batching()) return {};
    if (in_.sequence_batching().iterative_sequence()) return iterative_sequence();
    auto read = read_sequence(in_.sequence_batching());
    if (!read) return read.error();
    out_.sequence = std::make_shared<msg::SequenceSpec>(std::move(*read));
    return {};
  }

  // Each request is a sequence of its own, which the model asks for again until it is done with it: engine python's
  // worker does that, with as many at once as there are slots.
  base::Status iterative_sequence() {
    const auto& in = in_.sequence_batching();
    if (engine() != "python" || in.state_size() > 0)
      return base::failure(base::Code::kUnimplemented,
                           "field 'sequence_batching.iterative_sequence' is for backend python, without state");
    auto parameter = read_iterative(in);
    if (!parameter) return parameter.error();
    out_.batching.dynamic = out_.batching_given = in_.max_batch_size() > 1 && !out_.decoupled;
    out_.iterative = std::move(*parameter);
    return {};
  }

  // check() refuses what is this large.
  static uint32_t narrow(uint64_t n) { return uint32_t(std::min<uint64_t>(n, UINT32_MAX)); }

  // Sizes and times of 0 are those of the server's configuration: no queue is unbounded for want of a word.
  static base::Status queue_policy(const inference::ModelQueuePolicy& in, msg::QueuePolicy& out) {
    using Action = msg::QueuePolicy::TimeoutAction;
    if (in.default_timeout_microseconds() > kLongest)
      return base::invalid("dynamic_batching: default_timeout_microseconds of more than an hour");
    bool delays = in.timeout_action() == inference::ModelQueuePolicy::DELAY;
    out.timeout_action = delays ? Action::kDelay : Action::kReject;
    out.allow_timeout_override = in.allow_timeout_override();
    if (in.max_queue_size() > 0) out.max_queue = in.max_queue_size();
    if (in.default_timeout_microseconds() > 0)
      out.queue_timeout = std::chrono::microseconds(in.default_timeout_microseconds());
    return {};
  }

  base::Status instances() {
    int64_t total = 0;
    for (const auto& in : in_.instance_group()) {
      if (in.count() < 0) return base::invalid("instance_group: a count of " + std::to_string(in.count()));
      if (in.passive()) continue;
      InstanceGroup group;
      group.kind = kind_of(in.kind());
      group.count = uint32_t(std::max(1, in.count()));
      for (int32_t gpu : in.gpus()) {
        if (gpu < 0) return base::invalid("instance_group: GPU " + std::to_string(gpu));
        group.devices.push_back("cuda:" + std::to_string(gpu));
      }
      if (group.kind == InstanceGroup::Kind::kCpu && !group.devices.empty())
        return base::invalid("instance_group: KIND_CPU has no gpus");
      group.rate.priority = in.rate_limiter().priority();
      for (const auto& need : in.rate_limiter().resources())
        group.rate.resources.push_back({need.name(), need.global(), need.count()});
      if (auto s = check_rate(group.rate); !s.ok()) return s;
      total += int64_t(group.count) * std::max<int64_t>(1, int64_t(group.devices.size()));
      out_.groups.push_back(std::move(group));
    }
    if (total > UINT32_MAX) return base::invalid("instance_group: too many instances");
    if (total > 0) out_.instances = uint32_t(total);
    return {};
  }

  static base::Status check_rate(const sched::RateLimit& rate) {
    constexpr size_t kMostResources = 64;
    if (rate.resources.size() > kMostResources)
      return base::invalid("instance_group: more than " + std::to_string(kMostResources) + " resources");
    for (const auto& need : rate.resources)
      if (need.name.empty() || need.name.find(' ') != std::string::npos)
        return base::invalid("instance_group: the name of a resource is one word, not '" + need.name + "'");
    return {};
  }

  static InstanceGroup::Kind kind_of(inference::ModelInstanceGroup::Kind kind) {
    switch (kind) {
      case inference::ModelInstanceGroup::KIND_GPU: return InstanceGroup::Kind::kDevices;
      case inference::ModelInstanceGroup::KIND_CPU: return InstanceGroup::Kind::kCpu;
      case inference::ModelInstanceGroup::KIND_MODEL: return InstanceGroup::Kind::kEngine;
      default: return InstanceGroup::Kind::kAuto;
    }
  }

  const inference::ModelConfig& in_;
  ModelConfig out_;
};

}  // namespace

base::Result<ModelConfig> parse_pbtxt(std::string_view text, std::string_view place, const msg::BatchPolicy& defaults) {
  if (text.size() > kMaxConfigBytes) return base::invalid(std::string(place) + ": longer than 1 MiB");
  inference::ModelConfig in;
  Errors errors(place, text);
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(kMaxConfigDepth);
  if (!parser.ParseFromString(std::string(text), &in)) return base::invalid(errors.text);
  auto config = PbtxtReader(in, defaults).read();
  if (!config) {
    auto status = config.error();
    status.text = std::string(place) + ": " + status.text;
    return status;
  }
  return config;
}

base::Result<ModelConfig> parse_config_json(std::string_view text, const msg::BatchPolicy& defaults) {
  if (text.size() > kMaxConfigBytes) return base::invalid("load parameter 'config': longer than 1 MiB");
  inference::ModelConfig in;
  pb::util::JsonParseOptions options;
  auto parsed = pb::util::JsonStringToMessage(std::string(text), &in, options);
  if (!parsed.ok()) return base::invalid("load parameter 'config': " + std::string(parsed.message()));
  auto config = PbtxtReader(in, defaults).read();
  if (!config) return base::failure(config.error().code, "load parameter 'config': " + config.error().text);
  return config;
}

}  // namespace weir::models
