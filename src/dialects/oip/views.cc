#include "dialects/oip/views.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/units.h"
#include "bus/cache_stats.h"
#include "bus/memory_use.h"
#include "bus/response_stats.h"
#include "dialects/oip/sequence_view.h"
#include "msg/sequence.h"

namespace weir::oip {
namespace {

namespace pb = inference;

int64_t microseconds(base::Duration d) { return std::chrono::duration_cast<std::chrono::microseconds>(d).count(); }

void fill(pb::ModelMetadataResponse::TensorMetadata& to, const msg::ModelSpec& spec, const msg::TensorSpec& tensor) {
  to.set_name(tensor.name);
  to.set_datatype(std::string(msg::name(tensor.dtype)));
  msg::Shape shape = spec.public_shape(tensor);
  for (int64_t d : shape.dims()) to.add_shape(d);
}

// bus::DurationStat or bus::RunDuration.
template <class Stat>
void fill(pb::StatisticDuration& to, const Stat& stat) {
  to.set_count(stat.count.load());
  to.set_ns(stat.ns.load());
}

void fill(pb::StatisticDuration& to, uint64_t count, uint64_t ns) {
  to.set_count(count);
  to.set_ns(ns);
}

// All eight durations are always there: perf_analyzer reads them without asking.
void fill(pb::InferStatistics& to, const bus::ModelStats& stats, const bus::CacheStats* cache) {
  fill(*to.mutable_success(), stats.success);
  fill(*to.mutable_fail(), stats.fail);
  fill(*to.mutable_queue(), stats.queue);
  fill(*to.mutable_compute_input(), stats.compute_input);
  fill(*to.mutable_compute_infer(), stats.compute_infer);
  fill(*to.mutable_compute_output(), stats.compute_output);
  to.mutable_cache_hit();
  to.mutable_cache_miss();
  if (!cache) return;
  fill(*to.mutable_cache_hit(), cache->hit);
  fill(*to.mutable_cache_miss(), cache->miss);
}

// Rows of which nothing has been counted are left out.
void fill(google::protobuf::Map<std::string, pb::InferResponseStatistics>& to, const bus::ResponseStats& stats) {
  for (size_t place = 0; place < bus::ResponseStats::kRows; ++place) {
    const bus::ResponseStat& row = stats.rows()[place];
    uint64_t counted = 0;
    for (const auto* each : {&row.success, &row.fail, &row.empty, &row.cancel}) counted += each->count.load();
    if (counted == 0) continue;
    auto& out = to[std::to_string(place)];
    fill(*out.mutable_compute_infer(), row.compute_infer);
    fill(*out.mutable_compute_output(), row.compute_output);
    fill(*out.mutable_success(), row.success);
    fill(*out.mutable_fail(), row.fail);
    fill(*out.mutable_empty_response(), row.empty);
    fill(*out.mutable_cancel(), row.cancel);
  }
}

// As Triton reports it: one row for each place, CPU before GPUs.
void fill_memory(pb::ModelStatistics& to, const std::vector<bus::MemoryUse>& memory) {
  std::map<std::pair<std::string_view, int64_t>, uint64_t> sums;
  for (const auto& use : memory) {
    constexpr std::string_view kGpu = "cuda:";
    const bool gpu = use.place.starts_with(kGpu);
    const auto id = base::parse_count(gpu ? use.place.substr(kGpu.size()) : "0", INT32_MAX);
    sums[{gpu ? "GPU" : "CPU", id ? int64_t(*id) : 0}] += use.bytes;
  }
  for (const auto& [place, bytes] : sums) {
    auto& row = *to.add_memory_usage();
    row.set_type(std::string(place.first)), row.set_id(place.second), row.set_byte_size(bytes);
  }
}

void fill(pb::ModelStatistics& to, const bus::Served& served) {
  const bus::ModelStats& stats = served.stats;
  to.set_name(served.spec.name);
  to.set_version(served.spec.version);
  to.set_last_inference(stats.runs.latest());
  to.set_inference_count(stats.inference_count);
  to.set_execution_count(stats.execution_count);
  fill(*to.mutable_inference_stats(), stats, bus::cache_stats(served));
  for (const auto& [rows, batch] : stats.batches()) {
    auto& b = *to.add_batch_stats();
    b.set_batch_size(rows);
    fill(*b.mutable_compute_input(), batch.count, batch.input_ns);
    fill(*b.mutable_compute_infer(), batch.count, batch.infer_ns);
    fill(*b.mutable_compute_output(), batch.count, batch.output_ns);
  }
  fill_memory(to, bus::memory_of(served));
  if (const auto* responses = bus::response_stats(served)) fill(*to.mutable_response_stats(), *responses);
}

void fill(pb::ModelQueuePolicy& to, const msg::QueuePolicy& policy) {
  bool delays = policy.timeout_action == msg::QueuePolicy::TimeoutAction::kDelay;
  to.set_timeout_action(delays ? pb::ModelQueuePolicy::DELAY : pb::ModelQueuePolicy::REJECT);
  to.set_default_timeout_microseconds(uint64_t(microseconds(policy.queue_timeout)));
  to.set_allow_timeout_override(policy.allow_timeout_override);
  to.set_max_queue_size(policy.max_queue);
}

void fill(pb::ModelDynamicBatching& to, const msg::BatchPolicy& policy) {
  for (uint32_t size : policy.preferred) to.add_preferred_batch_size(int32_t(size));
  to.set_max_queue_delay_microseconds(uint64_t(microseconds(policy.max_delay)));
  to.set_priority_levels(policy.priority_levels);
  to.set_default_priority_level(policy.default_priority);
  to.set_preserve_ordering(policy.preserve_ordering);
  fill(*to.mutable_default_queue_policy(), policy);
  for (const auto& [level, own] : policy.levels) fill((*to.mutable_priority_queue_policy())[level], own);
}

void fill(pb::ModelVersionPolicy& to, const msg::VersionPolicy& policy) {
  using Kind = msg::VersionPolicy::Kind;
  if (policy.kind == Kind::kAll) to.mutable_all();
  if (policy.kind == Kind::kLatest) to.mutable_latest()->set_num_versions(policy.latest);
  if (policy.kind == Kind::kSpecific)
    for (uint64_t version : policy.specific) to.mutable_specific()->add_versions(int64_t(version));
}

// Where the instances come from: the number of the group that was written for each, -1 where none was.
std::vector<int> groups_written(const pb::ModelConfig& written, uint32_t instances) {
  std::vector<int> out;
  for (int i = 0; i < written.instance_group_size(); ++i) {
    const auto& group = written.instance_group(i);
    const uint64_t of_group = uint64_t(std::max(1, group.count())) * uint64_t(std::max(1, group.gpus_size()));
    if (!group.passive() && out.size() + of_group <= instances) out.insert(out.end(), of_group, i);
  }
  // KIND_AUTO and KIND_GPU may have become any number of instances: then only a single group can be told.
  if (out.size() != instances) out.assign(instances, written.instance_group_size() == 1 ? 0 : -1);
  return out;
}

// A group for each stretch of instances on one device that were written as one. KIND_MODEL: the engine has chosen.
void fill_groups(pb::ModelConfig& to, const msg::ModelSpec& spec, const pb::ModelConfig& written) {
  constexpr std::string_view kGpu = "cuda:";
  std::vector<std::string> devices = spec.configured.devices;
  devices.resize(spec.instances);
  const std::vector<int> groups = groups_written(written, spec.instances);
  for (size_t i = 0; i < devices.size(); ++i) {
    const std::string& device = devices[i];
    if (i > 0 && device == devices[i - 1] && groups[i] == groups[i - 1]) {
      auto& group = *to.mutable_instance_group(to.instance_group_size() - 1);
      group.set_count(group.count() + 1);
      continue;
    }
    auto& group = *to.add_instance_group();
    if (groups[i] >= 0) group = written.instance_group(groups[i]);
    if (group.name().empty()) group.set_name(spec.name + '_' + std::to_string(to.instance_group_size() - 1));
    group.set_count(1);
    using Group = pb::ModelInstanceGroup;
    group.set_kind(device.empty() ? Group::KIND_MODEL : device == "cpu" ? Group::KIND_CPU : Group::KIND_GPU);
    group.clear_gpus();
    if (auto gpu = base::parse_count(device.starts_with(kGpu) ? device.substr(kGpu.size()) : "", INT32_MAX))
      group.add_gpus(int32_t(*gpu));
  }
  for (const auto& group : written.instance_group())
    if (group.passive()) *to.add_instance_group() = group;
}

template <class Tensors>
auto of_name(const Tensors& written, const std::string& name) {
  auto found = std::find_if(written.begin(), written.end(), [&](const auto& t) { return t.name() == name; });
  return found == written.end() ? typename Tensors::value_type() : *found;
}

void fill(pb::ModelInput& to, const msg::TensorSpec& tensor) {
  to.set_name(tensor.name);
  to.set_data_type(data_type(tensor.dtype));
  to.clear_dims();
  for (int64_t d : tensor.shape.dims()) to.add_dims(d);
  to.set_optional(tensor.optional);
  if (auto format = pb::ModelInput::FORMAT_NONE; pb::ModelInput::Format_Parse(tensor.format, &format))
    to.set_format(format);
}

void fill(pb::ModelOutput& to, const msg::TensorSpec& tensor) {
  to.set_name(tensor.name);
  to.set_data_type(data_type(tensor.dtype));
  to.clear_dims();
  for (int64_t d : tensor.shape.dims()) to.add_dims(d);
  to.set_label_filename(tensor.label_file);
}

// The configuration in Triton's form, with the fields that nothing else here knows; empty where it had another form.
pb::ModelConfig as_written(const msg::ModelSpec& spec) {
  pb::ModelConfig out;
  if (!out.ParseFromString(spec.configured.as_triton)) out.Clear();
  return out;
}

void fill(pb::ModelEnsembling& to, const std::vector<msg::PipelineStep>& steps) {
  for (const auto& step : steps) {
    auto& out = *to.add_step();
    out.set_model_name(step.model);
    auto version = base::parse_count(step.version, INT64_MAX);
    out.set_model_version(version ? int64_t(*version) : -1);
    for (const auto& [model, tensor] : step.inputs) (*out.mutable_input_map())[model] = tensor;
    for (const auto& [model, tensor] : step.outputs) (*out.mutable_output_map())[model] = tensor;
  }
}

std::string backend(const msg::ModelSpec& spec) {
  if (!spec.configured.steps.empty()) return "";  // an ensemble has none
  return spec.engine == "onnx" ? "onnxruntime" : spec.engine;
}

}  // namespace

pb::ModelMetadataResponse metadata(const bus::Catalog& catalog, const bus::Served& served) {
  pb::ModelMetadataResponse out;
  const msg::ModelSpec& spec = served.spec;
  out.set_name(spec.name);
  if (auto model = catalog.models.find(spec.name); model != catalog.models.end())
    for (const auto& [version, unused] : model->second.versions) out.add_versions(version);
  out.set_platform(spec.platform);
  for (const auto& tensor : spec.inputs) fill(*out.add_inputs(), spec, tensor);
  for (const auto& tensor : spec.outputs) fill(*out.add_outputs(), spec, tensor);
  return out;
}

pb::ModelConfig config(const bus::Served& served) {
  const msg::ModelSpec& spec = served.spec;
  const pb::ModelConfig written = as_written(spec);
  pb::ModelConfig out = written;
  out.set_name(spec.name);
  out.set_platform(spec.platform);
  out.set_backend(backend(spec));
  out.set_max_batch_size(int32_t(spec.max_batch));
  fill(*out.mutable_version_policy(), spec.configured.versions);
  out.set_default_model_filename(spec.configured.file);
  out.clear_input(), out.clear_output(), out.clear_instance_group(), out.clear_scheduling_choice();
  for (const auto& tensor : spec.inputs) fill(*out.add_input() = of_name(written.input(), tensor.name), tensor);
  for (const auto& tensor : spec.outputs) fill(*out.add_output() = of_name(written.output(), tensor.name), tensor);
  if (spec.configured.steps.empty()) {
    fill_groups(out, spec, written);
    const msg::BatchPolicy& batching = spec.configured.batching.value_or(spec.batching);
    if (const auto* keeps = dynamic_cast<const msg::KeepsSequences*>(served.inbox.get()))
      fill(*out.mutable_sequence_batching(), keeps->sequences());
    else if (batching.dynamic)
      fill(*out.mutable_dynamic_batching(), batching);
  } else {
    fill(*out.mutable_ensemble_scheduling(), spec.configured.steps);
    out.mutable_ensemble_scheduling()->set_max_inflight_requests(written.ensemble_scheduling().max_inflight_requests());
  }
  for (const auto& [name, value] : spec.parameters) (*out.mutable_parameters())[name].set_string_value(value);
  out.mutable_model_transaction_policy()->set_decoupled(spec.decoupled || spec.text);
  out.mutable_response_cache()->set_enable(bus::cache_stats(served) != nullptr);
  return out;
}

base::Result<pb::ModelStatisticsResponse> statistics(const bus::Catalog& catalog, std::string_view model,
                                                     std::string_view version) {
  pb::ModelStatisticsResponse out;
  const std::string_view own = catalog.own_name(model);
  if (!model.empty()) {
    auto found = catalog.find(model, version);
    if (!found) return std::move(found).error();
    if (!version.empty()) {
      fill(*out.add_model_stats(), **found);
      return out;
    }
  }
  for (const auto& [name, entry] : catalog.models) {
    if (!model.empty() && name != own) continue;
    for (const auto& [number, served] : entry.versions) fill(*out.add_model_stats(), *served);
  }
  return out;
}

pb::RepositoryIndexResponse index(const bus::Catalog& catalog, Which which) {
  pb::RepositoryIndexResponse out;
  for (const auto& row : catalog.index) {
    if (which == Which::kReady && row.state != bus::ModelState::kReady) continue;
    auto& to = *out.add_models();
    to.set_name(row.name);
    to.set_version(row.version);
    to.set_state(std::string(bus::name(row.state)));
    to.set_reason(row.reason);
  }
  return out;
}

}  // namespace weir::oip
