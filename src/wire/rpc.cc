#include "wire/rpc.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "wire/grpc_status.h"
#include "wire/rpc_call.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

using base::Code;

enum class RpcForm : uint8_t {
  kOther,
  kGrpc,
  kWeb,
  kWebText,
  kJson,
  kConnectProto,  // unary
  kConnectJson,
  kConnectStreamProto,
  kConnectStreamJson,
};

constexpr std::string_view kAcceptedTypes =
    "application/grpc, application/grpc-web, application/grpc-web-text, application/proto, application/json, "
    "application/x-ndjson, application/connect+proto, application/connect+json";

// "application/grpc; charset=utf-8" → kGrpc. A message format of gRPC other than proto ("+json") is not served.
RpcForm form_of(const Request& request) {
  std::string_view type = request.fields.find("content-type");
  if (type == "application/grpc") return RpcForm::kGrpc;
  type = trim(type.substr(0, type.find(';')));
  if (same_text(type, "application/json"))
    return request.fields.has("connect-protocol-version") ? RpcForm::kConnectJson : RpcForm::kJson;
  if (same_text(type, "application/x-ndjson")) return RpcForm::kJson;
  if (same_text(type, "application/proto")) return RpcForm::kConnectProto;
  if (same_text(type, "application/connect+proto")) return RpcForm::kConnectStreamProto;
  if (same_text(type, "application/connect+json")) return RpcForm::kConnectStreamJson;
  constexpr std::string_view kProto = "+proto";
  if (type.size() > kProto.size() && same_text(type.substr(type.size() - kProto.size()), kProto))
    type.remove_suffix(kProto.size());
  if (same_text(type, "application/grpc")) return RpcForm::kGrpc;
  if (same_text(type, "application/grpc-web")) return RpcForm::kWeb;
  if (same_text(type, "application/grpc-web-text")) return RpcForm::kWebText;
  return RpcForm::kOther;
}

bool speaks_grpc(const Request& request) {
  RpcForm form = form_of(request);
  return request.method == "POST" && (form == RpcForm::kGrpc || form == RpcForm::kWeb || form == RpcForm::kWebText);
}

bool is_json(RpcForm form) {
  return form == RpcForm::kJson || form == RpcForm::kConnectJson || form == RpcForm::kConnectStreamJson;
}

void refuse_call(Exchange& exchange, int status, std::string_view text) {
  if (!exchange.extra_fields().has(kRequestId)) exchange.extra_fields().add(kRequestId, exchange.record().request_id);
  respond_error(exchange, status, text);
  exchange.attach(make_discard());
}

// Message sizes bound what a call may cost; how many messages a stream carries is its own business.
constexpr Plan kStreamed{BodyPlan::kStream, std::numeric_limits<uint64_t>::max()};

std::unique_ptr<RpcCall> make_call(RpcForm form, const RpcRoute& route, const RpcState& state, Exchange& exchange) {
  switch (form) {
    case RpcForm::kGrpc: return make_grpc_call(route, state, exchange);
    case RpcForm::kWeb: return make_web_call(route, state, exchange, WebCoding::kBinary);
    case RpcForm::kWebText: return make_web_call(route, state, exchange, WebCoding::kText);
    case RpcForm::kConnectProto: return make_connect_unary(route, state, exchange, ConnectCodec::kProto);
    case RpcForm::kConnectJson: return make_connect_unary(route, state, exchange, ConnectCodec::kJson);
    case RpcForm::kConnectStreamProto: return make_connect_stream(route, state, exchange, ConnectCodec::kProto);
    case RpcForm::kConnectStreamJson: return make_connect_stream(route, state, exchange, ConnectCodec::kJson);
    default: return make_json_call(route, state, exchange);
  }
}

void serve_form(RpcForm form, const RpcRoute& route, const RpcState& state, Exchange& exchange) {
  auto call = make_call(form, route, state, exchange);
  RpcCall& begun = *call;
  exchange.attach(std::move(call));
  begun.begin();
}

// Ends a call with `why` before its method sees it, as the caller's protocol writes errors. False: no such protocol.
bool refuse_form(RpcForm form, const RpcRoute& route, const RpcState& state, Exchange& exchange,
                 const base::Status& why) {
  if (form == RpcForm::kOther || (form == RpcForm::kGrpc && exchange.request().version != Version::kHttp2))
    return false;
  auto call = make_call(form, route, state, exchange);
  RpcCall& refused = *call;
  exchange.attach(std::move(call));
  refused.finish(why);
  return true;
}

// One method at its path.
class MethodService final : public Service {
 public:
  MethodService(RpcRoute route, const RpcState& state) : route_(std::move(route)), state_(state) {}

  void serve(Exchange& exchange, const PathArgs&) override {
    if (is_get(exchange)) return serve_connect_get(route_, state_, exchange);
    RpcForm form = form_here(exchange.request());
    if (form == RpcForm::kOther) {
      exchange.extra_fields().add("accept-post", kAcceptedTypes);
      return refuse_call(exchange, 415,
                         "content-type must be application/grpc, application/grpc-web, application/json, or of "
                         "Connect: application/proto of unary methods, application/connect+proto of streams");
    }
    if (form == RpcForm::kGrpc && exchange.request().version != Version::kHttp2)
      return refuse_call(exchange, 505,
                         "gRPC needs HTTP/2; over HTTP/1.1 use application/grpc-web or application/json");
    serve_form(form, route_, state_, exchange);
  }

  // For a call by the method's short name: it was admitted with few rights, and needs those of its route.
  void serve_short(Router& router, Exchange& exchange) {
    const base::Status may = router.permit(exchange, route_.permission);
    may.ok() ? serve(exchange, {}) : void(refuse(exchange, may));
  }

  bool refuse(Exchange& exchange, const base::Status& why) override {
    if (is_get(exchange)) return refuse_connect_get(route_, state_, exchange, why), true;
    return refuse_form(form_here(exchange.request()), route_, state_, exchange, why);
  }

 private:
  static bool is_get(const Exchange& exchange) { return exchange.request().method != "POST"; }

  // Connect has one type for unary methods and another for streams.
  RpcForm form_here(const Request& request) const {
    RpcForm form = form_of(request);
    if (is_json(form) && !state_.json) return RpcForm::kOther;
    const bool unary = route_.kind == RpcKind::kUnary;
    if (form == RpcForm::kConnectJson && !unary) return RpcForm::kJson;
    if (form == RpcForm::kConnectProto && !unary) return RpcForm::kOther;
    const bool stream = form == RpcForm::kConnectStreamProto || form == RpcForm::kConnectStreamJson;
    return stream && unary ? RpcForm::kOther : form;
  }

  RpcRoute route_;
  const RpcState& state_;
};

// Ends every call with UNIMPLEMENTED, naming what is not there.
class Nobody final : public RpcMethod {
 public:
  explicit Nobody(const std::set<std::string, std::less<>>& services) : services_(services) {}
  void open(Rpc& rpc) override {
    std::string_view path = rpc.exchange().request().path();
    path.remove_prefix(std::min<size_t>(1, path.size()));
    size_t slash = path.rfind('/');
    std::string_view service = path.substr(0, slash);
    std::string text = services_.contains(service) && slash != path.npos
                           ? "unknown method " + std::string(path.substr(slash + 1)) + " of " + std::string(service)
                           : "unknown service " + std::string(service);
    rpc.finish(base::failure(Code::kUnimplemented, std::move(text)));
  }

 private:
  const std::set<std::string, std::less<>>& services_;
};

}  // namespace

struct RpcServer::Parts {
  Router& router;
  RpcState state;
  std::vector<std::unique_ptr<MethodService>> methods;
  std::map<std::string, MethodService*, std::less<>> short_paths;  // null: of more than one service
  std::set<std::string, std::less<>> services;
  Nobody nobody{services};
  RpcRoute unknown{.kind = RpcKind::kBidi, .target = &nobody, .protocol = "grpc"};
};

RpcServer::RpcServer(Router& router, base::Env& env, base::SlabSource& slabs, JsonForm* json, RpcOptions options)
    : parts_(new Parts{router, RpcState{env, slabs, json, options, nullptr}, {}, {}, {}}) {
  router.fallback(*this, speaks_grpc, "grpc", kStreamed);
}

RpcServer::~RpcServer() = default;

void RpcServer::set_worker_pool(Offload& offload) { parts_->state.offload = &offload; }

void RpcServer::add(RpcRoute route) {
  std::string path = "/" + route.service + "/" + route.method;
  std::string_view protocol = route.protocol;
  Permission permission = route.permission;
  const bool safe = route.kind == RpcKind::kUnary && only_reads(permission);
  parts_->services.insert(route.service);
  const std::string short_path = path.substr(0, 1) + path.substr(path.rfind('.') + 1);
  parts_->methods.push_back(std::make_unique<MethodService>(std::move(route), parts_->state));
  if (auto [at, first] = parts_->short_paths.emplace(short_path, parts_->methods.back().get()); !first)
    at->second = nullptr;
  Service* service = parts_->methods.back().get();
  if (safe) parts_->router.add({"GET", path, service, protocol, Plan{BodyPlan::kWhole, 0}, permission});
  parts_->router.add({"POST", std::move(path), service, protocol, kStreamed, permission});
}

base::Status RpcServer::permit(Rpc& rpc, Permission permission) {
  return parts_->router.permit(rpc.exchange(), permission);
}

void RpcServer::serve(Exchange& exchange, const PathArgs&) {
  RpcForm form = form_of(exchange.request());
  if (form == RpcForm::kGrpc && exchange.request().version != Version::kHttp2)
    return refuse_call(exchange, 505, "gRPC needs HTTP/2; over HTTP/1.1 use application/grpc-web");
  const auto known = parts_->short_paths.find(exchange.request().path());
  if (known != parts_->short_paths.end() && known->second) return known->second->serve_short(parts_->router, exchange);
  serve_form(form, parts_->unknown, parts_->state, exchange);
}

bool RpcServer::refuse(Exchange& exchange, const base::Status& why) {
  return refuse_form(form_of(exchange.request()), parts_->unknown, parts_->state, exchange, why);
}

}  // namespace weir::wire
