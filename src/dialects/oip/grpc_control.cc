#include "dialects/oip/grpc_control.h"

#include "base/encoding.h"
#include "dialects/oip/load_request.h"
#include "dialects/oip/settings.h"
#include "dialects/oip/shared_memory/shared_memory_views.h"
#include "dialects/oip/views.h"
#include "inference.pb.h"
#include "marshal/small_message.h"
#include "marshal/tenant.h"
#include "wire/offload.h"
#include "wire/service_guard.h"

namespace weir::oip {
namespace {

namespace pb = inference;
using base::invalid;
using base::Result;
using base::Status;
using wire::Permission;

constexpr size_t kMostRecorded = 256;  // bytes of a model's name, for the logs

base::Bytes serialized(const google::protobuf::Message& message) {
  return base::Bytes::adopt(message.SerializeAsString());
}

Traces::Settings settings_of(const pb::TraceSettingRequest& request) {
  Traces::Settings out;
  for (const auto& [key, value] : request.settings()) out[key].assign(value.value().begin(), value.value().end());
  return out;
}

msg::Parameters settings_of(const pb::LogSettingsRequest& request) {
  msg::Parameters out;
  for (const auto& [key, value] : request.settings()) {
    if (value.has_bool_param())
      out.emplace_back(key, value.bool_param());
    else if (value.has_uint32_param())
      out.emplace_back(key, int64_t(value.uint32_param()));
    else if (value.has_string_param())
      out.emplace_back(key, value.string_param());
  }
  return out;
}

// The settings that a request has changed; "" where it could change none, or has only asked.
template <class Request>
std::string change_of(const Request& request) {
  if constexpr (requires { settings_of(request); })
    return change_text(settings_of(request));
  else
    return {};
}

// A call that is answered at once.
template <class Request, class Response>
class Cold final : public ControlCall {
 public:
  using Answer = Result<Response> (*)(OipState&, const bus::Catalog&, const Request&);
  // Whether the request asks for more than its route's permission.
  using Changes = bool (*)(const Request&);
  Cold(OipState& state, Answer answer) : state_(state), answer_(answer) {}
  Cold(OipState& state, Answer answer, Changes changes, wire::RpcServer& rpcs)
      : state_(state), answer_(answer), changes_(changes), rpcs_(&rpcs) {}

  void call(wire::Rpc& rpc, base::Bytes message) override {
    Request request;
    if (Status status = marshal::parse_small(message, request); !status.ok()) return rpc.finish(status);
    if (changes_ && changes_(request))
      if (Status status = rpcs_->permit(rpc, Permission::kAdmin); !status.ok()) return rpc.finish(status);
    auto response = answer_(state_, state_.bus.catalog(marshal::models_of(rpc.exchange().request())), request);
    if (!response) return rpc.finish(response.error());
    if (std::string change = change_of(request); !change.empty())
      state_.control.settings_changed(rpc.exchange(), std::move(change));
    rpc.send(serialized(*response));
    rpc.finish({});
  }

 private:
  OipState& state_;
  Answer answer_;
  Changes changes_ = nullptr;        // null: it never does
  wire::RpcServer* rpcs_ = nullptr;  // who is asked then
};

template <class Request>
bool has_settings(const Request& request) {
  return request.settings_size() > 0;
}

Result<pb::ServerLiveResponse> server_live(OipState&, const bus::Catalog&, const pb::ServerLiveRequest&) {
  pb::ServerLiveResponse out;
  out.set_live(true);
  return out;
}

Result<pb::ServerReadyResponse> server_ready(OipState& state, const bus::Catalog&, const pb::ServerReadyRequest&) {
  pb::ServerReadyResponse out;
  out.set_ready(state.control.why_not_ready().empty());
  return out;
}

Result<pb::ServerMetadataResponse> server_metadata(OipState& state, const bus::Catalog&,
                                                   const pb::ServerMetadataRequest&) {
  pb::ServerMetadataResponse out;
  out.set_name(state.options.server_name);
  out.set_version(state.options.server_version);
  for (auto extension : extensions(state)) out.add_extensions(std::string(extension));
  return out;
}

Result<pb::ModelMetadataResponse> model_metadata(OipState&, const bus::Catalog& catalog,
                                                 const pb::ModelMetadataRequest& request) {
  auto found = catalog.find(request.name(), request.version());
  if (!found) return std::move(found).error();
  return metadata(catalog, **found);
}

Result<pb::ModelConfigResponse> model_config(OipState&, const bus::Catalog& catalog,
                                             const pb::ModelConfigRequest& request) {
  auto found = catalog.find(request.name(), request.version());
  if (!found) return std::move(found).error();
  pb::ModelConfigResponse out;
  *out.mutable_config() = config(**found);
  return out;
}

Result<pb::ModelStatisticsResponse> model_statistics(OipState&, const bus::Catalog& catalog,
                                                     const pb::ModelStatisticsRequest& request) {
  return statistics(catalog, request.name(), request.version());
}

Result<pb::RepositoryIndexResponse> repository_index(OipState&, const bus::Catalog& catalog,
                                                     const pb::RepositoryIndexRequest& request) {
  return index(catalog, request.ready() ? Which::kReady : Which::kAll);
}

Result<pb::TraceSettingResponse> trace_setting(OipState& state, const bus::Catalog& catalog,
                                               const pb::TraceSettingRequest& request) {
  if (!request.model_name().empty())
    if (auto found = catalog.find(request.model_name(), ""); !found) return std::move(found).error();
  const std::string_view model = catalog.own_name(request.model_name());
  if (Status status = state.traces.change(model, settings_of(request)); !status.ok()) return status;
  pb::TraceSettingResponse out;
  for (const auto& [key, values] : state.traces.settings(model))
    for (const auto& value : values) (*out.mutable_settings())[key].add_value(value);
  return out;
}

Result<pb::LogSettingsResponse> log_setting(OipState&, const bus::Catalog&, const pb::LogSettingsRequest& request) {
  if (Status status = change_log(settings_of(request)); !status.ok()) return status;
  pb::LogSettingsResponse out;
  for (const auto& [key, value] : log_settings()) {
    auto& to = (*out.mutable_settings())[key];
    if (auto* flag = std::get_if<bool>(&value)) to.set_bool_param(*flag);
    if (auto* level = std::get_if<int64_t>(&value)) to.set_uint32_param(uint32_t(*level));
    if (auto* text = std::get_if<std::string>(&value)) to.set_string_param(*text);
  }
  return out;
}

// ---- Shared memory: a call that must know whose regions it is about.

template <class Request, class Response>
class RegionCall final : public ControlCall {
 public:
  using Answer = Result<Response> (*)(OipState&, const wire::Request&, const Request&);
  RegionCall(OipState& state, Answer answer) : state_(state), answer_(answer) {}

  void call(wire::Rpc& rpc, base::Bytes message) override {
    Request request;
    Status status = marshal::parse_small(message, request);
    if (!status.ok()) return rpc.finish(status);
    auto response = answer_(state_, rpc.exchange().request(), request);
    if (!response) return rpc.finish(response.error());
    rpc.send(serialized(*response));
    rpc.finish({});
  }

 private:
  OipState& state_;
  Answer answer_;
};

template <class Response>
Result<Response> done(Status status) {
  if (!status.ok()) return status;
  return Response();
}

using wire::Request;

Result<pb::SystemSharedMemoryStatusResponse> get_system(OipState& state, const Request& caller,
                                                        const pb::SystemSharedMemoryStatusRequest& request) {
  return system_status(state, caller, request.name());
}
Result<pb::SystemSharedMemoryRegisterResponse> enter_system(OipState& state, const Request& caller,
                                                            const pb::SystemSharedMemoryRegisterRequest& request) {
  return done<pb::SystemSharedMemoryRegisterResponse>(register_system(state, caller, request));
}
Result<pb::SystemSharedMemoryUnregisterResponse> remove_system(OipState& state, const Request& caller,
                                                               const pb::SystemSharedMemoryUnregisterRequest& request) {
  return done<pb::SystemSharedMemoryUnregisterResponse>(unregister(state, caller, RegionKind::kSystem, request.name()));
}
Result<pb::CudaSharedMemoryStatusResponse> get_cuda(OipState& state, const Request& caller,
                                                    const pb::CudaSharedMemoryStatusRequest& request) {
  return cuda_status(state, caller, request.name());
}
Result<pb::CudaSharedMemoryRegisterResponse> enter_cuda(OipState& state, const Request& caller,
                                                        const pb::CudaSharedMemoryRegisterRequest& request) {
  return done<pb::CudaSharedMemoryRegisterResponse>(register_cuda(state, caller, request));
}
Result<pb::CudaSharedMemoryUnregisterResponse> remove_cuda(OipState& state, const Request& caller,
                                                           const pb::CudaSharedMemoryUnregisterRequest& request) {
  return done<pb::CudaSharedMemoryUnregisterResponse>(unregister(state, caller, RegionKind::kCuda, request.name()));
}

// ---- Loads and unloads take a while.

class RpcWaiter final : public wire::RpcListener {
 public:
  RpcWaiter(OipState& state, uint64_t wait) : state_(state), wait_(wait) {}
  void on_message(wire::Rpc&, base::Bytes) override {}
  void on_close(wire::Rpc&) override { state_.waiting.erase(wait_); }

 private:
  OipState& state_;
  uint64_t wait_;
};

ServerControl::Done wait_for(OipState& state, wire::Rpc& rpc) {
  uint64_t wait = state.wait([&rpc](const Status& status) {
    wire::guarded(rpc.exchange(), [&] {
      if (status.ok()) rpc.send(base::Bytes());
      rpc.finish(status);
    });
  });
  rpc.attach(std::make_unique<RpcWaiter>(state, wait));
  return state.finisher(wait);
}

// While a worker reads the request.
class LoadReader final : public wire::RpcListener {
 public:
  void on_message(wire::Rpc&, base::Bytes) override {}
  void on_close(wire::Rpc&) override { sent = nullptr; }
  std::unique_ptr<wire::SentTask> sent;
};

class Load final : public ControlCall {
 public:
  explicit Load(OipState& state) : state_(state) {}
  void call(wire::Rpc& rpc, base::Bytes message) override {
    const size_t bytes = message.size();
    auto read = std::make_unique<ReadLoad>(std::move(message), read_load_message);
    if (state_.options.offload && bytes > wire::kLongBody) return run_on_worker(rpc, std::move(read), bytes);
    read->run();
    begin(rpc, *read);
  }

 private:
  void run_on_worker(wire::Rpc& rpc, std::unique_ptr<ReadLoad> read, size_t bytes) {
    auto waiter = std::make_unique<LoadReader>();
    LoadReader& reader = *waiter;
    rpc.attach(std::move(waiter));
    auto done = [this, &rpc](const Status& sent, std::unique_ptr<base::OffloadTask> task) {
      wire::guarded(rpc.exchange(), [&] { sent.ok() ? begin(rpc, static_cast<ReadLoad&>(*task)) : rpc.finish(sent); });
    };
    auto sent = state_.options.offload->send(std::move(read), bytes, wire::Offload::Part::kRequest, rpc.exchange(),
                                             std::move(done));
    if (!sent) return rpc.finish(sent.error());
    reader.sent = std::move(*sent);
  }
  void begin(wire::Rpc& rpc, ReadLoad& read) {
    LoadRequest& request = read.request;
    rpc.exchange().record().model = base::cut_text(request.model, kMostRecorded);
    Status status = std::move(read.status);
    if (status.ok()) status = check_model_name(request.model);
    if (status.ok()) status = check_scope(rpc.exchange().request(), request.model);
    if (status.ok() && !request.parameters.empty()) status = check_may_configure(rpc.exchange().request());
    if (!status.ok()) return rpc.finish(status);
    state_.control.load(request.model, std::move(request.parameters), wait_for(state_, rpc));
  }

  OipState& state_;
};

class Unload final : public ControlCall {
 public:
  explicit Unload(OipState& state) : state_(state) {}
  void call(wire::Rpc& rpc, base::Bytes message) override {
    pb::RepositoryModelUnloadRequest request;
    Status status = marshal::parse_small(message, request);
    rpc.exchange().record().model = base::cut_text(request.model_name(), kMostRecorded);
    if (status.ok()) status = check_model_name(request.model_name());
    if (status.ok()) status = check_scope(rpc.exchange().request(), request.model_name());
    if (!status.ok()) return rpc.finish(status);
    auto at = request.parameters().find("unload_dependents");
    bool dependents = at != request.parameters().end() && at->second.bool_param();
    state_.control.unload(request.model_name(),
                          dependents ? ServerControl::Dependents::kUnload : ServerControl::Dependents::kKeep,
                          wait_for(state_, rpc));
  }

 private:
  OipState& state_;
};

class Registrar {
 public:
  Registrar(OipState& state, wire::RpcServer& rpcs, std::vector<std::unique_ptr<ControlCall>>& methods)
      : state_(state), rpcs_(rpcs), methods_(methods) {}

  template <class Request, class Response>
  void cold(const char* method, Permission permission,
            Result<Response> (*answer)(OipState&, const bus::Catalog&, const Request&)) {
    add<Request, Response>(method, permission, std::make_unique<Cold<Request, Response>>(state_, answer));
  }
  template <class Request, class Response>
  void region(const char* method, Permission permission,
              Result<Response> (*answer)(OipState&, const wire::Request&, const Request&)) {
    add<Request, Response>(method, permission, std::make_unique<RegionCall<Request, Response>>(state_, answer));
  }
  // Settings are read by whoever may read, and changed by admins: as GET and POST of REST, in one method.
  template <class Request, class Response>
  void settings(const char* method, Result<Response> (*answer)(OipState&, const bus::Catalog&, const Request&)) {
    add<Request, Response>(method, Permission::kRead,
                           std::make_unique<Cold<Request, Response>>(state_, answer, has_settings<Request>, rpcs_));
  }
  template <class Request, class Response>
  void add(const char* method, Permission permission, std::unique_ptr<ControlCall> target) {
    rpcs_.add({std::string(Oip::kService), method, wire::RpcKind::kUnary, target.get(),
               Request::descriptor()->full_name(), Response::descriptor()->full_name(), kGrpc, permission});
    methods_.push_back(std::move(target));
  }

 private:
  OipState& state_;
  wire::RpcServer& rpcs_;
  std::vector<std::unique_ptr<ControlCall>>& methods_;
};

}  // namespace

void add_control_calls(OipState& state, wire::RpcServer& rpcs, std::vector<std::unique_ptr<ControlCall>>& methods) {
  Registrar r(state, rpcs, methods);
  r.cold("ServerLive", Permission::kHealth, server_live);
  r.cold("ServerReady", Permission::kHealth, server_ready);
  r.add<pb::ModelReadyRequest, pb::ModelReadyResponse>("ModelReady", Permission::kRead, make_model_ready(state));
  r.cold("ServerMetadata", Permission::kRead, server_metadata);
  r.cold("ModelMetadata", Permission::kRead, model_metadata);
  r.cold("ModelConfig", Permission::kRead, model_config);
  r.cold("ModelStatistics", Permission::kRead, model_statistics);
  r.cold("RepositoryIndex", Permission::kRead, repository_index);
  r.add<pb::RepositoryModelLoadRequest, pb::RepositoryModelLoadResponse>("RepositoryModelLoad", Permission::kAdmin,
                                                                         std::make_unique<Load>(state));
  r.add<pb::RepositoryModelUnloadRequest, pb::RepositoryModelUnloadResponse>(
      "RepositoryModelUnload", Permission::kAdmin, std::make_unique<Unload>(state));
  r.settings("TraceSetting", trace_setting);
  r.settings("LogSettings", log_setting);
  r.region("SystemSharedMemoryStatus", Permission::kRead, get_system);
  r.region("SystemSharedMemoryRegister", Permission::kInfer, enter_system);
  r.region("SystemSharedMemoryUnregister", Permission::kInfer, remove_system);
  r.region("CudaSharedMemoryStatus", Permission::kRead, get_cuda);
  r.region("CudaSharedMemoryRegister", Permission::kInfer, enter_cuda);
  r.region("CudaSharedMemoryUnregister", Permission::kInfer, remove_cuda);
}

}  // namespace weir::oip
