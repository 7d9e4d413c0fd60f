#include "models/config_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>

namespace weir::models {
namespace {

namespace pb = google::protobuf;
using enum FieldUse;

constexpr ConfigField kFields[] = {
    {"name", kServed, {}},
    {"platform", kServed, {}},
    {"version_policy.latest.num_versions", kServed, {}},
    {"version_policy.all", kServed, {}},
    {"version_policy.specific.versions", kServed, {}},
    {"max_batch_size", kServed, {}},
    {"input.name", kServed, {}},
    {"input.data_type", kServed, {}},
    {"input.format", kServed, {}},
    {"input.dims", kServed, {}},
    {"input.reshape.shape", kServed, {}},
    {"input.is_shape_tensor", kShown, "TensorRT reads it"},
    {"input.allow_ragged_batch", kRefused, "requests of different shapes are not put into one tensor"},
    {"input.optional", kServed, {}},
    {"input.is_non_linear_format_io", kShown, "TensorRT reads it"},
    {"output.name", kServed, {}},
    {"output.data_type", kServed, {}},
    {"output.dims", kServed, {}},
    {"output.label_filename", kServed, {}},
    {"output.reshape.shape", kServed, {}},
    {"output.is_shape_tensor", kShown, "TensorRT reads it"},
    {"output.is_non_linear_format_io", kShown, "TensorRT reads it"},
    {"instance_group.name", kServed, {}},
    {"instance_group.count", kServed, {}},
    {"instance_group.gpus", kServed, {}},
    {"instance_group.kind", kServed, {}},
    {"instance_group.profile", kShown, "TensorRT reads it"},
    {"instance_group.rate_limiter.resources.name", kServed, {}},
    {"instance_group.rate_limiter.resources.global", kServed, {}},
    {"instance_group.rate_limiter.resources.count", kServed, {}},
    {"instance_group.rate_limiter.priority", kServed, {}},
    {"instance_group.passive", kServed, {}},
    {"instance_group.secondary_devices.kind", kShown, "TensorRT reads it"},
    {"instance_group.secondary_devices.device_id", kShown, "TensorRT reads it"},
    {"instance_group.host_policy", kShown, "cores and memory are chosen by the system"},
    {"default_model_filename", kServed, {}},
    {"cc_model_filenames", kShown, "a model has one file"},
    {"metric_tags", kShown, "metrics have the labels model and version"},
    {"dynamic_batching.preferred_batch_size", kServed, {}},
    {"dynamic_batching.max_queue_delay_microseconds", kServed, {}},
    {"dynamic_batching.preserve_ordering", kServed, {}},
    {"dynamic_batching.priority_levels", kServed, {}},
    {"dynamic_batching.default_priority_level", kServed, {}},
    {"dynamic_batching.default_queue_policy.timeout_action", kServed, {}},
    {"dynamic_batching.default_queue_policy.default_timeout_microseconds", kServed, {}},
    {"dynamic_batching.default_queue_policy.allow_timeout_override", kServed, {}},
    {"dynamic_batching.default_queue_policy.max_queue_size", kServed, {}},
    {"dynamic_batching.priority_queue_policy.timeout_action", kServed, {}},
    {"dynamic_batching.priority_queue_policy.default_timeout_microseconds", kServed, {}},
    {"dynamic_batching.priority_queue_policy.allow_timeout_override", kServed, {}},
    {"dynamic_batching.priority_queue_policy.max_queue_size", kServed, {}},
    {"sequence_batching.max_sequence_idle_microseconds", kServed, {}},
    {"sequence_batching.control_input.name", kServed, {}},
    {"sequence_batching.control_input.control.kind", kServed, {}},
    {"sequence_batching.control_input.control.int32_false_true", kServed, {}},
    {"sequence_batching.control_input.control.fp32_false_true", kServed, {}},
    {"sequence_batching.control_input.control.data_type", kServed, {}},
    {"sequence_batching.control_input.control.bool_false_true", kServed, {}},
    {"sequence_batching.direct.max_queue_delay_microseconds", kServed, {}},
    {"sequence_batching.direct.minimum_slot_utilization", kServed, {}},
    {"sequence_batching.oldest.max_candidate_sequences", kServed, {}},
    {"sequence_batching.oldest.preferred_batch_size", kServed, {}},
    {"sequence_batching.oldest.max_queue_delay_microseconds", kServed, {}},
    {"sequence_batching.oldest.preserve_ordering", kServed, {}},
    {"sequence_batching.state.input_name", kServed, {}},
    {"sequence_batching.state.output_name", kServed, {}},
    {"sequence_batching.state.data_type", kServed, {}},
    {"sequence_batching.state.dims", kServed, {}},
    {"sequence_batching.state.initial_state.data_type", kServed, {}},
    {"sequence_batching.state.initial_state.dims", kServed, {}},
    {"sequence_batching.state.initial_state.zero_data", kServed, {}},
    {"sequence_batching.state.initial_state.data_file", kServed, {}},
    {"sequence_batching.state.initial_state.name", kServed, {}},
    {"sequence_batching.state.use_same_buffer_for_input_output", kShown, "states are copied"},
    {"sequence_batching.state.use_growable_memory", kShown, "a state is as large as the model makes it"},
    {"sequence_batching.iterative_sequence", kServed, {}},
    {"ensemble_scheduling.step.model_name", kServed, {}},
    {"ensemble_scheduling.step.model_version", kServed, {}},
    {"ensemble_scheduling.step.input_map", kServed, {}},
    {"ensemble_scheduling.step.output_map", kServed, {}},
    {"ensemble_scheduling.step.model_namespace", kRefused, "a model is known by its name alone"},
    {"ensemble_scheduling.max_inflight_requests", kShown, "max_concurrency bounds a pipeline"},
    {"optimization.graph.level", kShown, "engines.onnx.graph_optimization sets it"},
    {"optimization.priority", kShown, "threads have one priority"},
    {"optimization.cuda.graphs", kServed, {}},
    {"optimization.cuda.busy_wait_events", kShown, "the engine decides on CUDA graphs and streams"},
    {"optimization.cuda.graph_spec.batch_size", kShown, "the engine decides on CUDA graphs and streams"},
    {"optimization.cuda.graph_spec.input.dim", kShown, "the engine decides on CUDA graphs and streams"},
    {"optimization.cuda.graph_spec.graph_lower_bound.batch_size", kShown,
     "the engine decides on CUDA graphs and streams"},
    {"optimization.cuda.graph_spec.graph_lower_bound.input.dim", kShown,
     "the engine decides on CUDA graphs and streams"},
    {"optimization.cuda.output_copy_stream", kShown, "the engine decides on CUDA graphs and streams"},
    {"optimization.execution_accelerators.gpu_execution_accelerator.name", kServed, {}},
    {"optimization.execution_accelerators.gpu_execution_accelerator.parameters", kServed, {}},
    {"optimization.execution_accelerators.cpu_execution_accelerator.name", kServed, {}},
    {"optimization.execution_accelerators.cpu_execution_accelerator.parameters", kServed, {}},
    {"optimization.input_pinned_memory.enable", kShown, "staging memory is pinned where there is a GPU"},
    {"optimization.output_pinned_memory.enable", kShown, "staging memory is pinned where there is a GPU"},
    {"optimization.gather_kernel_buffer_threshold", kShown, "rows are gathered on the host"},
    {"optimization.eager_batching", kShown, "a batch is staged while the one before it runs"},
    {"parameters.string_value", kServed, {}},
    {"model_warmup.name", kServed, {}},
    {"model_warmup.batch_size", kServed, {}},
    {"model_warmup.inputs.data_type", kServed, {}},
    {"model_warmup.inputs.dims", kServed, {}},
    {"model_warmup.inputs.zero_data", kServed, {}},
    {"model_warmup.inputs.random_data", kServed, {}},
    {"model_warmup.inputs.input_data_file", kServed, {}},
    {"model_warmup.count", kServed, {}},
    {"backend", kServed, {}},
    {"model_operations.op_library_filename", kShown, "engines.onnx.custom_ops names libraries of operators"},
    {"model_transaction_policy.decoupled", kServed, {}},
    {"batch_input.kind", kRefused, "it describes ragged batches, which are not formed"},
    {"batch_input.target_name", kRefused, "it describes ragged batches, which are not formed"},
    {"batch_input.data_type", kRefused, "it describes ragged batches, which are not formed"},
    {"batch_input.source_input", kRefused, "it describes ragged batches, which are not formed"},
    {"batch_output.target_name", kRefused, "it describes ragged batches, which are not formed"},
    {"batch_output.kind", kRefused, "it describes ragged batches, which are not formed"},
    {"batch_output.source_input", kRefused, "it describes ragged batches, which are not formed"},
    {"model_repository_agents.agents.name", kRefused, "what an agent checks or decrypts would be skipped"},
    {"model_repository_agents.agents.parameters", kRefused, "what an agent checks or decrypts would be skipped"},
    {"response_cache.enable", kServed, {}},
    {"runtime", kShown, "the engine is chosen by backend or platform"},
    {"model_metrics.metric_control.metric_identifier.family", kServed, {}},
    {"model_metrics.metric_control.histogram_options.buckets", kServed, {}},
};

// Walks what is set. Messages are no deeper than kMaxConfigDepth: the parser has refused others.
class SetFields {
 public:
  explicit SetFields(std::vector<std::string>& out) : out_(out) {}

  void message(const pb::Message& message, const std::string& path) {
    if (message.GetDescriptor()->field_count() == 0) return add(path);
    std::vector<const pb::FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const auto* field : fields) {
      std::string below = path.empty() ? field->name() : path + '.' + field->name();
      if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE)
        add(below);
      else if (!field->is_repeated())
        this->message(message.GetReflection()->GetMessage(message, field), below);
      else
        for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i)
          element(message.GetReflection()->GetRepeatedMessage(message, field, i), below, *field);
    }
  }

 private:
  // An entry of a map stands for its value; one whose value is a message without anything set holds nothing.
  void element(const pb::Message& element, const std::string& path, const pb::FieldDescriptor& field) {
    if (!field.is_map()) return message(element, path);
    const auto* value = field.message_type()->map_value();
    if (value->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) return add(path);
    message(element.GetReflection()->GetMessage(element, value), path);
  }
  void add(const std::string& path) {
    if (std::find(out_.begin(), out_.end(), path) == out_.end()) out_.push_back(path);
  }

  std::vector<std::string>& out_;
};

}  // namespace

std::span<const ConfigField> config_fields() { return kFields; }

const ConfigField* config_field(std::string_view path) {
  const auto* found =
      std::find_if(std::begin(kFields), std::end(kFields), [&](const ConfigField& f) { return f.path == path; });
  return found == std::end(kFields) ? nullptr : found;
}

std::vector<std::string> fields_of(const pb::Message& message) {
  std::vector<std::string> out;
  SetFields(out).message(message, {});
  return out;
}

base::Result<std::vector<std::string>> check_fields(const pb::Message& config) {
  std::vector<std::string> shown;
  for (const std::string& path : fields_of(config)) {
    const ConfigField* field = config_field(path);
    if (!field) return base::failure(base::Code::kUnimplemented, "field '" + path + "' is not known here");
    if (field->use == kRefused)
      return base::failure(base::Code::kUnimplemented,
                           "field '" + path + "' is not served: " + std::string(field->why));
    if (field->use == kShown) shown.push_back(path + " (" + std::string(field->why) + ")");
  }
  return shown;
}

}  // namespace weir::models
