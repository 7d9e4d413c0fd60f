#include "dialects/oip/grpc_control.h"

#include "dialects/oip/settings.h"
#include "dialects/oip/views.h"
#include "inference.pb.h"
#include "marshal/pb_wire.h"

namespace weir::oip {
namespace {

namespace pb = inference;
using base::Code;
using base::invalid;
using base::Result;
using base::Status;
using wire::Permission;

constexpr size_t kMaxCold = 64 << 10;  // a small message cannot become a large one in memory
constexpr size_t kMaxFields = 1024;    // top-level fields of a load, whose values may be large

base::Bytes serialized(const google::protobuf::Message& message) {
  return base::Bytes::adopt(message.SerializeAsString());
}

// A call that is answered at once.
template <class Request, class Response>
class Cold final : public ControlCall {
 public:
  using Answer = Result<Response> (*)(House&, const Request&);
  Cold(House& house, Answer answer) : house_(house), answer_(answer) {}

  void call(wire::Rpc& rpc, base::Bytes message) override {
    Request request;
    if (message.size() > kMaxCold) return rpc.finish(invalid("a request of this call has at most 64 KiB"));
    if (!request.ParseFromArray(message.data(), int(message.size())))
      return rpc.finish(invalid("malformed " + Request::descriptor()->name()));
    auto response = answer_(house_, request);
    if (!response) return rpc.finish(response.error());
    rpc.send(serialized(*response));
    rpc.finish({});
  }

 private:
  House& house_;
  Answer answer_;
};

Result<pb::ServerLiveResponse> server_live(House&, const pb::ServerLiveRequest&) {
  pb::ServerLiveResponse out;
  out.set_live(true);
  return out;
}

Result<pb::ServerReadyResponse> server_ready(House& house, const pb::ServerReadyRequest&) {
  pb::ServerReadyResponse out;
  out.set_ready(house.control.why_not_ready().empty());
  return out;
}

Result<pb::ModelReadyResponse> model_ready(House& house, const pb::ModelReadyRequest& request) {
  pb::ModelReadyResponse out;
  out.set_ready(house.control.accepting() && house.bus.catalog().find(request.name(), request.version()).has_value());
  return out;
}

Result<pb::ServerMetadataResponse> server_metadata(House& house, const pb::ServerMetadataRequest&) {
  pb::ServerMetadataResponse out;
  out.set_name(house.options.server_name);
  out.set_version(house.options.server_version);
  for (auto extension : extensions()) out.add_extensions(std::string(extension));
  return out;
}

Result<pb::ModelMetadataResponse> model_metadata(House& house, const pb::ModelMetadataRequest& request) {
  auto found = house.bus.catalog().find(request.name(), request.version());
  if (!found) return std::move(found).error();
  return metadata(house.bus.catalog(), **found);
}

Result<pb::ModelConfigResponse> model_config(House& house, const pb::ModelConfigRequest& request) {
  auto found = house.bus.catalog().find(request.name(), request.version());
  if (!found) return std::move(found).error();
  pb::ModelConfigResponse out;
  *out.mutable_config() = config(**found);
  return out;
}

Result<pb::ModelStatisticsResponse> model_statistics(House& house, const pb::ModelStatisticsRequest& request) {
  return statistics(house.bus.catalog(), request.name(), request.version());
}

Result<pb::RepositoryIndexResponse> repository_index(House& house, const pb::RepositoryIndexRequest& request) {
  return index(house.bus.catalog(), request.ready() ? Which::kReady : Which::kAll);
}

Result<pb::TraceSettingResponse> trace_setting(House& house, const pb::TraceSettingRequest& request) {
  if (!request.model_name().empty())
    if (auto found = house.bus.catalog().find(request.model_name(), ""); !found) return std::move(found).error();
  Traces::Settings wanted;
  for (const auto& [key, value] : request.settings()) wanted[key].assign(value.value().begin(), value.value().end());
  if (Status status = house.traces.change(request.model_name(), wanted); !status.ok()) return status;
  pb::TraceSettingResponse out;
  for (const auto& [key, values] : house.traces.settings(request.model_name()))
    for (const auto& value : values) (*out.mutable_settings())[key].add_value(value);
  return out;
}

Result<pb::LogSettingsResponse> log_setting(House&, const pb::LogSettingsRequest& request) {
  msg::Parameters wanted;
  for (const auto& [key, value] : request.settings()) {
    if (value.has_bool_param())
      wanted.emplace_back(key, value.bool_param());
    else if (value.has_uint32_param())
      wanted.emplace_back(key, int64_t(value.uint32_param()));
    else if (value.has_string_param())
      wanted.emplace_back(key, value.string_param());
  }
  if (Status status = change_log(wanted); !status.ok()) return status;
  pb::LogSettingsResponse out;
  for (const auto& [key, value] : log_settings()) {
    auto& to = (*out.mutable_settings())[key];
    if (auto* flag = std::get_if<bool>(&value)) to.set_bool_param(*flag);
    if (auto* level = std::get_if<int64_t>(&value)) to.set_uint32_param(uint32_t(*level));
    if (auto* text = std::get_if<std::string>(&value)) to.set_string_param(*text);
  }
  return out;
}

template <class Request, class Response>
Result<Response> no_shared_memory(House&, const Request&) {
  return base::failure(Code::kUnimplemented, "shared memory is not offered");
}

// ---- Loads and unloads take a while.

class RpcWaiter final : public wire::RpcReader {
 public:
  RpcWaiter(House& house, uint64_t wait) : house_(house), wait_(wait) {}
  void on_message(wire::Rpc&, base::Bytes) override {}
  void on_close(wire::Rpc&) override { house_.waiting.erase(wait_); }

 private:
  House& house_;
  uint64_t wait_;
};

Control::Done wait_for(House& house, wire::Rpc& rpc) {
  uint64_t wait = house.wait([&rpc](Status status) {
    if (status.ok()) rpc.send(base::Bytes());
    rpc.finish(status);
  });
  rpc.attach(std::make_unique<RpcWaiter>(house, wait));
  return house.finisher(wait);
}

template <class Request>
Status parse_large(const base::Bytes& message, Request& request) {
  marshal::PbReader r(message.view());
  size_t fields = 0;
  while (r.next())
    if (++fields > kMaxFields) return invalid("more than 1024 fields in " + Request::descriptor()->name());
  if (!r.ok() || !request.ParseFromArray(message.data(), int(message.size())))
    return invalid("malformed " + Request::descriptor()->name());
  return check_model_name(request.model_name());
}

class Load final : public ControlCall {
 public:
  explicit Load(House& house) : house_(house) {}
  void call(wire::Rpc& rpc, base::Bytes message) override {
    pb::RepositoryModelLoadRequest request;
    if (Status status = parse_large(message, request); !status.ok()) return rpc.finish(status);
    Control::LoadParameters parameters;
    for (const auto& [key, value] : request.parameters()) {
      if (!value.has_string_param() && !value.has_bytes_param())
        return rpc.finish(invalid("load parameter '" + key + "' takes a string or bytes"));
      parameters[key] = value.has_string_param() ? value.string_param() : value.bytes_param();
    }
    house_.control.load(request.model_name(), std::move(parameters), wait_for(house_, rpc));
  }

 private:
  House& house_;
};

class Unload final : public ControlCall {
 public:
  explicit Unload(House& house) : house_(house) {}
  void call(wire::Rpc& rpc, base::Bytes message) override {
    pb::RepositoryModelUnloadRequest request;
    if (Status status = parse_large(message, request); !status.ok()) return rpc.finish(status);
    auto at = request.parameters().find("unload_dependents");
    bool dependents = at != request.parameters().end() && at->second.bool_param();
    house_.control.unload(request.model_name(), dependents ? Control::Dependents::kUnload : Control::Dependents::kKeep,
                          wait_for(house_, rpc));
  }

 private:
  House& house_;
};

class Registrar {
 public:
  Registrar(House& house, wire::RpcServer& rpcs, std::vector<std::unique_ptr<ControlCall>>& methods)
      : house_(house), rpcs_(rpcs), methods_(methods) {}

  template <class Request, class Response>
  void cold(const char* method, Permission permission, Result<Response> (*answer)(House&, const Request&)) {
    add<Request, Response>(method, permission, std::make_unique<Cold<Request, Response>>(house_, answer));
  }
  template <class Request, class Response>
  void refused(const char* method, Permission permission) {
    cold<Request, Response>(method, permission, no_shared_memory<Request, Response>);
  }
  template <class Request, class Response>
  void add(const char* method, Permission permission, std::unique_ptr<ControlCall> target) {
    rpcs_.add({std::string(kService), method, wire::RpcKind::kUnary, target.get(), Request::descriptor()->full_name(),
               Response::descriptor()->full_name(), kGrpc, permission});
    methods_.push_back(std::move(target));
  }

 private:
  House& house_;
  wire::RpcServer& rpcs_;
  std::vector<std::unique_ptr<ControlCall>>& methods_;
};

}  // namespace

void add_control_calls(House& house, wire::RpcServer& rpcs, std::vector<std::unique_ptr<ControlCall>>& methods) {
  Registrar r(house, rpcs, methods);
  r.cold("ServerLive", Permission::kRead, server_live);
  r.cold("ServerReady", Permission::kRead, server_ready);
  r.cold("ModelReady", Permission::kRead, model_ready);
  r.cold("ServerMetadata", Permission::kRead, server_metadata);
  r.cold("ModelMetadata", Permission::kRead, model_metadata);
  r.cold("ModelConfig", Permission::kRead, model_config);
  r.cold("ModelStatistics", Permission::kRead, model_statistics);
  r.cold("RepositoryIndex", Permission::kRead, repository_index);
  r.add<pb::RepositoryModelLoadRequest, pb::RepositoryModelLoadResponse>("RepositoryModelLoad", Permission::kAdmin,
                                                                         std::make_unique<Load>(house));
  r.add<pb::RepositoryModelUnloadRequest, pb::RepositoryModelUnloadResponse>(
      "RepositoryModelUnload", Permission::kAdmin, std::make_unique<Unload>(house));
  r.cold("TraceSetting", Permission::kAdmin, trace_setting);
  r.cold("LogSettings", Permission::kAdmin, log_setting);
  r.refused<pb::SystemSharedMemoryStatusRequest, pb::SystemSharedMemoryStatusResponse>("SystemSharedMemoryStatus",
                                                                                       Permission::kRead);
  r.refused<pb::SystemSharedMemoryRegisterRequest, pb::SystemSharedMemoryRegisterResponse>("SystemSharedMemoryRegister",
                                                                                           Permission::kAdmin);
  r.refused<pb::SystemSharedMemoryUnregisterRequest, pb::SystemSharedMemoryUnregisterResponse>(
      "SystemSharedMemoryUnregister", Permission::kAdmin);
  r.refused<pb::CudaSharedMemoryStatusRequest, pb::CudaSharedMemoryStatusResponse>("CudaSharedMemoryStatus",
                                                                                   Permission::kRead);
  r.refused<pb::CudaSharedMemoryRegisterRequest, pb::CudaSharedMemoryRegisterResponse>("CudaSharedMemoryRegister",
                                                                                       Permission::kAdmin);
  r.refused<pb::CudaSharedMemoryUnregisterRequest, pb::CudaSharedMemoryUnregisterResponse>("CudaSharedMemoryUnregister",
                                                                                           Permission::kAdmin);
}

}  // namespace weir::oip
