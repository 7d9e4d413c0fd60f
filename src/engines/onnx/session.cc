#include "engines/onnx/session.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "engines/onnx/error.h"
#include "engines/onnx/tensors.h"

namespace weir::onnx {
namespace {

using base::Status;

base::Result<Owned<OrtSessionOptions>> make_options(const Api& api, const SessionOptions& options,
                                                    const FileSummary& file, const std::string& id) {
  OrtSessionOptions* raw = nullptr;
  if (auto s = to_status(api, api.create_options(&raw)); !s.ok()) return s;
  Owned<OrtSessionOptions> out(raw, api.release_options);
  Status status;
  auto set = [&](OrtStatus* result) {
    Status s = to_status(api, result);
    if (status.ok()) status = std::move(s);
  };
  const char* spinning = options.spinning == Spinning::kOn ? "1" : "0";
  set(api.set_log_id(raw, id.c_str()));
  set(api.set_intra_op_threads(raw, int(options.intra_op_threads)));
  set(api.set_inter_op_threads(raw, int(options.inter_op_threads)));
  set(api.set_execution(raw, options.inter_op_threads == 1 ? Execution::kSequential : Execution::kParallel));
  set(api.set_optimization(raw, options.optimization));
  set(options.arena == Arena::kOn ? api.enable_arena(raw) : api.disable_arena(raw));
  // The library keeps one memory plan per set of input shapes for ever; free dimensions would let clients grow that.
  if (file.varying || (file.free_first && options.rows == Rows::kAny)) set(api.disable_memory_pattern(raw));
  set(api.set_option(raw, "session.load_model_format", "ONNX"));
  set(api.set_option(raw, "session.intra_op.allow_spinning", spinning));
  set(api.set_option(raw, "session.inter_op.allow_spinning", spinning));
  for (const auto& [key, value] : options.entries) set(api.set_option(raw, key.c_str(), value.c_str()));
  if (!status.ok()) return status;
  return out;
}

// Clients read the failure of a load: it names the library without its path, which the log has.
Status add_custom_ops(const Api& api, OrtSessionOptions* options, const std::vector<std::string>& libraries) {
  for (const std::string& library : libraries) {
    Status status = to_status(api, api.register_custom_ops(options, library.c_str()));
    if (status.ok()) continue;
    base::log::error("a library of custom operators was not loaded", {{"library", library}, {"reason", status.text}});
    return base::failure(base::Code::kFailedPrecondition, "the library of custom operators '" +
                                                              library.substr(library.find_last_of('/') + 1) +
                                                              "' (engines.onnx.custom_ops) cannot be loaded");
  }
  return {};
}

// The library gets what the model's external tensors are in, and opens no file.
Status add_external(const Library& library, OrtSessionOptions* options, const ExternalData& external) {
  if (external.files().empty()) return {};
  if (!library.api.add_external_files)
    return base::failure(base::Code::kUnimplemented,
                         "ONNX Runtime " + library.version + " cannot load a model with external data; 1.18 can");
  std::vector<const char*> names;
  std::vector<char*> data;
  std::vector<size_t> sizes;
  for (const auto& file : external.files()) {
    names.push_back(file.name.c_str()), data.push_back(file.data), sizes.push_back(file.size);
  }
  return to_status(library.api,
                   library.api.add_external_files(options, names.data(), data.data(), sizes.data(), names.size()));
}

struct Side {
  OrtStatus* (*count)(const OrtSession*, size_t*);
  OrtStatus* (*type)(const OrtSession*, size_t, OrtTypeInfo**);
  OrtStatus* (*name)(const OrtSession*, size_t, OrtAllocator*, char**);
};

Status read_type(const Api& api, const OrtTypeInfo* type, GraphTensor& out) {
  ValueKind kind = ValueKind::kUnknown;
  const OrtTensorInfo* info = nullptr;
  if (auto s = to_status(api, api.kind_of_type(type, &kind)); !s.ok()) return s;
  if (kind != ValueKind::kTensor) return {};
  if (auto s = to_status(api, api.tensor_info_of_type(type, &info)); !s.ok()) return s;
  if (!info) return {};
  int element = 0;
  size_t rank = 0;
  if (auto s = to_status(api, api.element_type(info, &element)); !s.ok()) return s;
  if (auto s = to_status(api, api.rank(info, &rank)); !s.ok()) return s;
  if (rank > msg::Shape::kMaxRank)
    return base::invalid("tensor '" + out.name + "' of the model file has rank " + std::to_string(rank) +
                         "; 16 is the most");
  int64_t dims[msg::Shape::kMaxRank] = {};
  const char* symbols[msg::Shape::kMaxRank] = {};
  if (auto s = to_status(api, api.dims(info, dims, rank)); !s.ok()) return s;
  if (auto s = to_status(api, api.symbols(info, symbols, rank)); !s.ok()) return s;
  for (size_t i = 0; i < rank; ++i) out.shape.push(dims[i] < 0 ? -1 : dims[i]);
  if (rank > 0 && dims[0] < 0 && symbols[0]) out.first_symbol = symbols[0];
  out.dtype = dtype_of(element);
  return {};
}

Status read_side(const Library& library, const OrtSession* session, const Side& side, const FileSummary& file,
                 std::vector<GraphTensor>& out) {
  const Api& api = library.api;
  size_t count = 0;
  if (auto s = to_status(api, side.count(session, &count)); !s.ok()) return s;
  for (size_t i = 0; i < count; ++i) {
    char* name = nullptr;
    OrtTypeInfo* raw = nullptr;
    if (auto s = to_status(api, side.name(session, i, library.allocator, &name)); !s.ok()) return s;
    GraphTensor tensor;
    tensor.name = name;
    to_status(api, api.allocator_free(library.allocator, name));
    if (auto s = to_status(api, side.type(session, i, &raw)); !s.ok()) return s;
    Owned<OrtTypeInfo> type(raw, api.release_type);
    if (auto s = read_type(api, raw, tensor); !s.ok()) return s;
    tensor.ranked = std::find(file.unranked.begin(), file.unranked.end(), tensor.name) == file.unranked.end();
    out.push_back(std::move(tensor));
  }
  return {};
}

Status read_signature(const Library& library, const OrtSession* session, const FileSummary& file, Signature& out) {
  const Api& api = library.api;
  if (auto s = read_side(library, session, {api.input_count, api.input_type, api.input_name}, file, out.inputs);
      !s.ok())
    return s;
  size_t required = out.inputs.size();
  if (auto s =
          read_side(library, session, {api.optional_count, api.optional_type, api.optional_name}, file, out.inputs);
      !s.ok())
    return s;
  for (size_t i = required; i < out.inputs.size(); ++i) out.inputs[i].optional = true;
  return read_side(library, session, {api.output_count, api.output_type, api.output_name}, file, out.outputs);
}

void log_loaded(const Library& library, const OrtSession* session, const std::string& id) {
  const Api& api = library.api;
  OrtModelMetadata* raw = nullptr;
  char* producer = nullptr;
  int64_t version = 0;
  if (!to_status(api, api.metadata(session, &raw)).ok()) return;
  Owned<OrtModelMetadata> metadata(raw, api.release_metadata);
  if (!to_status(api, api.model_version(raw, &version)).ok()) return;
  if (!to_status(api, api.producer(raw, library.allocator, &producer)).ok()) return;
  base::log::verbose("onnx session made", {{"model", id}, {"producer", producer}, {"model_version", version}});
  to_status(api, api.allocator_free(library.allocator, producer));
}

}  // namespace

base::Result<Owned<OrtRunOptions>> make_run_options(const Library& library, const void* stream, const char* graph) {
  const Api& api = library.api;
  OrtRunOptions* raw = nullptr;
  if (auto s = to_status(api, api.create_run_options(&raw)); !s.ok()) return s;
  Owned<OrtRunOptions> options(raw, api.release_run_options);
  Status status = to_status(api, api.set_run_log_level(raw, LogLevel::kFatal));
  if (status.ok() && stream)
    status = to_status(api, api.set_run_option(raw, "disable_synchronize_execution_providers", "1"));
  if (status.ok() && graph) status = to_status(api, api.set_run_option(raw, "gpu_graph_id", graph));
  if (!status.ok()) return status;
  return options;
}

base::Result<std::shared_ptr<const Session>> Session::make(std::shared_ptr<const Library> library,
                                                           const SessionOptions& options, std::string_view file,
                                                           const FileSummary& summary, const ExternalData& external,
                                                           const std::string& id) {
  const Api& api = library->api;
  auto settings = make_options(api, options, summary, id);
  if (!settings) return settings.error();
  if (auto s = add_custom_ops(api, settings->get(), options.custom_ops); !s.ok()) return s;
  if (auto s = add_external(*library, settings->get(), external); !s.ok()) return s;
  for (const auto& provider : options.providers)
    if (auto s = append_provider(api, settings->get(), provider, options.placement); !s.ok()) return s;
  OrtSession* raw = nullptr;
  Status status =
      to_status(api, api.create_session(library->env.get(), file.data(), file.size(), settings->get(), &raw));
  if (!status.ok()) return base::invalid("ONNX Runtime refuses the model file: " + status.text);
  std::shared_ptr<Session> session(new Session(std::move(library), {raw, api.release_session}));
  if (auto s = read_signature(session->library(), raw, summary, session->signature_); !s.ok()) return s;
  auto run_options = make_run_options(session->library(), options.placement.stream, nullptr);
  if (!run_options) return run_options.error();
  session->run_options_ = std::move(*run_options);
  log_loaded(session->library(), raw, id);
  return std::shared_ptr<const Session>(std::move(session));
}

}  // namespace weir::onnx
