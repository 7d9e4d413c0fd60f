#include "wire/router.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/encoding.h"
#include "base/overload.h"
#include "wire/authenticator.h"
#include "wire/grpc_status.h"
#include "wire/limits.h"
#include "wire/path_table.h"
#include "wire/request_id.h"
#include "wire/service_guard.h"
#include "wire/text.h"
#include "wire/trace_context.h"
#include "wire/tracer.h"
#include "wire/websocket.h"

namespace weir::wire {
namespace {

constexpr size_t kMaxQuoted = 128;           // of a path, in an error text
constexpr size_t kMostSpare = 1024;          // Matches kept for the next requests
constexpr std::string_view kMaxAge = "600";  // seconds that a browser may keep a preflight's answer
constexpr std::string_view kExposed =
    "grpc-status, grpc-message, grpc-status-details-bin, grpc-retry-pushback-ms, inference-header-content-length, "
    "x-request-id, request-id";

// An extended CONNECT that is not for this route. HTTP/1.1's Upgrade is an offer, which a service may pass over.
bool is_stray_connect(const Request& request, const Route& route) {
  return request.version == Version::kHttp2 && request.method == "GET" && route.upgrade == Upgrade::kNone &&
         wants_websocket(request);
}

}  // namespace

std::string_view PathArgs::operator[](std::string_view name) const {
  for (const auto& [n, value] : args_)
    if (n == name) return value;
  return {};
}

struct Router::Table {
  base::Env& env;
  AccessRules access;
  Tracer* tracer = nullptr;  // or null
  PathTable paths;
  std::vector<std::pair<std::string, ErrorForm>> forms;  // longest prefix first
  std::vector<std::pair<std::string_view, ErrorForm>> protocol_forms;
  Claims claims = nullptr;
  Route fallback;  // of all paths that are in no route, if `claims` says so
  // Matches are reused: the strings of PathArgs keep no memory, but the vector does.
  std::vector<std::unique_ptr<RouteMatch>> spare;

  Table(base::Env& e, Cors cors, TrustedHosts hosts) : env(e), access(std::move(cors), std::move(hosts)) {}

  std::unique_ptr<RouteMatch> fresh() {
    if (spare.empty()) return std::make_unique<RouteMatch>();
    auto match = std::move(spare.back());
    spare.pop_back();
    return match;
  }
  static void remember(Exchange& x, const Route& route, std::unique_ptr<RouteMatch> match) {
    match->route = &route;
    match->pattern = x.record().route;
    match->asked_for_admin = false;
    match->same_for_head = same_for_head(x.request(), *match);
    x.match = std::move(match);
  }
  void forget(Exchange& x) {
    if (x.request().kept != HeadKept::kNot && x.match && x.match->same_for_head) return;
    auto match = std::move(x.match);
    if (!match || spare.size() >= kMostSpare) return;
    match->args.clear();
    spare.push_back(std::move(match));
  }

  void identify(Exchange& x);
  void make_id(Exchange& x) const;
  static bool same_for_head(const Request& request, RouteMatch& match);
  const Cors& cors() const { return access.cors(); }
  void allow_origin(Exchange& x, std::string_view origin) const;
  void preflight(Exchange& x, const PathEntry& entry) const;
  void refuse(Exchange& x, Response&& with, int status, std::string_view text) const;
  void word(Exchange& x, int status, std::string_view text) const;
  Plan no_route(Exchange& x);
  Plan no_method(Exchange& x, const PathEntry& entry);
  Plan no_websocket(Exchange& x);
  Plan deny(Exchange& x, const Route* route, const Denial& denial) const;
  std::optional<Denial> let_in(Exchange& x, const Route* route, Authenticator& authenticator) const;
};

// The client's request id if it is harmless, else a new one; it goes back to the client and into the access log.
void Router::Table::identify(Exchange& x) {
  const Fields& fields = x.request().fields;
  RequestRecord& record = x.record();
  if (record.began == base::kNever) record.began = x.now();
  const IdFields found = id_fields_of(fields);
  const std::string_view id = found.id;
  bool theirs = is_safe_id(id);
  if (theirs) {
    record.request_id = id;
  } else {
    make_id(x);
  }
  // A gRPC client that sent none has it with an error alone (rpc_call.h).
  if (theirs || !is_grpc_or_web(found.content_type)) x.extra_fields().add("x-request-id", record.request_id);
  if (tracer) return tracer->begin(x);
  if (auto sender = found.traced ? context_of(fields) : std::nullopt) {
    record.traceparent = sender->traceparent();
    x.extra_fields().add("traceparent", record.traceparent);
  }
}

void Router::Table::make_id(Exchange& x) const {
  const auto digits = wire::make_id(env.random());
  x.record().request_id.assign(digits.data(), digits.size());
}

// The request has been let in to its route.
bool Router::Table::same_for_head(const Request& request, RouteMatch& match) {
  if (request.kept == HeadKept::kNot || match.pattern.empty()) return false;
  const IdFields found = id_fields_of(request.fields);
  match.tells_id = !is_grpc_or_web(found.content_type);
  return !found.id.data() && !found.traced && !request.fields.has("origin");
}

// Fetch standard, "CORS protocol".
void Router::Table::allow_origin(Exchange& x, std::string_view origin) const {
  const auto& origins = cors().origins;
  bool any = std::find(origins.begin(), origins.end(), "*") != origins.end();
  x.extra_fields().add("access-control-allow-origin", any ? std::string_view("*") : origin);
  x.extra_fields().add("access-control-expose-headers", kExposed);
  if (!any) x.extra_fields().add("vary", "origin");
}

void Router::Table::preflight(Exchange& x, const PathEntry& entry) const {
  const Fields& fields = x.request().fields;
  Response response;
  response.status = 204;
  response.fields.add("allow", entry.allow + ", OPTIONS");
  std::string_view origin = fields.find("origin");
  if (!origin.empty() && cors().lists(origin) && fields.has("access-control-request-method")) {
    response.fields.add("access-control-allow-methods", entry.allow);
    if (auto wanted = fields.find("access-control-request-headers"); !wanted.empty() && wanted.size() <= 1024)
      response.fields.add("access-control-allow-headers", wanted);
    response.fields.add("access-control-max-age", kMaxAge);
  }
  x.record().route = entry.pattern;
  x.respond(std::move(response), {});
}

void Router::Table::refuse(Exchange& x, Response&& with, int status, std::string_view text) const {
  x.record().code = base::code_from_http(status);
  // An extra field is the one way to add to an answer that an ErrorForm words.
  for (size_t i = 0; i < with.fields.size(); ++i) x.extra_fields().add(with.fields[i].name, with.fields[i].value);
  word(x, status, text);
}

void Router::Table::word(Exchange& x, int status, std::string_view text) const {
  for (const auto& [protocol, form] : protocol_forms)
    if (protocol == x.record().protocol) return form(x, status, text);
  std::string_view path = x.request().path();
  for (const auto& [prefix, form] : forms)
    if (path.starts_with(prefix)) return form(x, status, text);
  respond_error(x, status, text);
}

Plan Router::Table::no_route(Exchange& x) {
  const Request& request = x.request();
  std::string_view path = request.path();
  if (request.method == "OPTIONS" && path == "*") {
    x.respond(Response{204, {}}, {});
    return {BodyPlan::kIgnore};
  }
  std::string text = "no such path: " + std::string(path.substr(0, kMaxQuoted));
  if (std::string near = paths.nearest(path); !near.empty() && near != path) text += "; did you mean " + near + "?";
  x.record().code = base::Code::kNotFound;
  refuse(x, {}, 404, text);
  return {BodyPlan::kIgnore};
}

Plan Router::Table::no_method(Exchange& x, const PathEntry& entry) {
  if (x.request().method == "OPTIONS") return preflight(x, entry), Plan{BodyPlan::kIgnore};
  x.record().route = entry.pattern;
  // The path is one protocol's, whatever the method: the refusal has that protocol's form.
  if (std::string_view protocol = entry.protocol(); !protocol.empty()) x.record().protocol = protocol;
  if (const Route* typed = entry.first(x.request().method)) {
    refuse(x, {}, 415, "this path takes bodies of type " + std::string(typed->content_type));
    return {BodyPlan::kIgnore};
  }
  Response with;
  with.fields.add("allow", entry.allow + ", OPTIONS");
  refuse(x, std::move(with), 405, x.request().method + " is not for this path; it takes " + entry.allow);
  return {BodyPlan::kIgnore};
}

Plan Router::Table::no_websocket(Exchange& x) {
  refuse(x, {}, 400, "this path is not for WebSockets");
  return {BodyPlan::kIgnore};
}

Plan Router::Table::deny(Exchange& x, const Route* route, const Denial& denial) const {
  x.record().reject = denial.reason;
  x.record().code = denial.status.code;
  if (!route || !route->service->refuse(x, denial.status)) {
    refuse(x, {}, base::http_status(denial.status.code), denial.status.text);
    return {BodyPlan::kIgnore};
  }
  return route->plan;
}

// Fields go with the refusal in HTTP: the scheme to show a key in (RFC 9110 §11.6.1), when to come again (§10.2.3).
std::optional<Denial> Router::Table::let_in(Exchange& x, const Route* route, Authenticator& authenticator) const {
  const Permission permission = route ? route->permission : Permission::kRead;
  auto caller = authenticator.admit(x.request(), permission, route ? route->protocol : std::string_view());
  if (caller) {
    x.set_caller(std::move(*caller));
    return {};
  }
  const base::Status& why = caller.error();
  if (why.code == base::Code::kUnauthenticated) x.extra_fields().add("www-authenticate", "Bearer");
  if (base::worth_trying_again(why))
    x.extra_fields().add("retry-after", std::to_string(base::retry_after(why).count()));
  const bool limits = why.code == base::Code::kResourceExhausted;
  return Denial{why, limits ? reason::kUsage : reason::kAuth};
}

Router::Router(base::Env& env, Cors cors, TrustedHosts hosts)
    : table_(std::make_unique<Table>(env, std::move(cors), std::move(hosts))) {}
Router::~Router() = default;

void Router::trace(Tracer& tracer) { table_->tracer = &tracer; }

void Router::add(Route route) { table_->paths.add(std::move(route)); }

std::vector<const Route*> Router::routes() const {
  std::vector<const Route*> out;
  for (const auto& entry : table_->paths.entries())
    for (const Route& route : entry->routes) out.push_back(&route);
  return out;
}

void Router::error_form(std::string prefix, ErrorForm form) {
  auto& forms = table_->forms;
  forms.emplace_back(std::move(prefix), form);
  std::stable_sort(forms.begin(), forms.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
}

void Router::word_error(Exchange& exchange, int status, std::string_view text) const {
  table_->word(exchange, status, text);
}

void Router::fallback(Service& service, Claims claims, std::string_view protocol, Plan plan) {
  table_->claims = claims;
  table_->fallback = Route{"", "", &service, protocol, plan, Permission::kRead};
}

void Router::error_form_of(std::string_view protocol, ErrorForm form) {
  table_->protocol_forms.emplace_back(protocol, form);
}

// Leaves out what begin() would find again. Who asks is asked as ever: limits and keys change.
Plan Router::begin_again(Exchange& exchange) {
  Table& t = *table_;
  RouteMatch& match = *exchange.match;
  RequestRecord& record = exchange.record();
  if (record.began == base::kNever) record.began = exchange.now();
  t.make_id(exchange);
  if (match.tells_id) exchange.extra_fields().add("x-request-id", record.request_id);
  if (t.tracer) t.tracer->begin(exchange);
  record.protocol = match.route->protocol;
  record.route = match.pattern;
  match.asked_for_admin = false;
  const Route& route = *match.route;
  if (authenticator_) {
    if (auto denial = t.let_in(exchange, &route, *authenticator_)) {
      exchange.match.reset();
      Plan plan;
      guarded(exchange, [&] { plan = t.deny(exchange, &route, *denial); });
      return exchange.listener() ? plan : Plan{BodyPlan::kIgnore};
    }
  }
  const Plan plan = route.plan;
  if (plan.body != BodyPlan::kWhole) guarded(exchange, [&] { route.service->serve(exchange, match.args); });
  return plan;
}

Plan Router::begin(Exchange& exchange) {
  Table& t = *table_;
  if (exchange.request().kept == HeadKept::kAgain && exchange.match) return begin_again(exchange);
  exchange.match.reset();
  t.identify(exchange);
  const Request& request = exchange.request();
  if (!t.cors().origins.empty())
    if (auto origin = request.fields.find("origin"); !origin.empty() && t.cors().lists(origin))
      t.allow_origin(exchange, origin);

  auto match = t.fresh();
  match->router = this;
  const PathEntry* entry = t.paths.find(request.path(), match->args);
  const Route* route = entry ? entry->find(request.method, request.fields) : nullptr;
  if (route) {
    exchange.record().protocol = route->protocol;
    exchange.record().route = entry->pattern;
  }
  if (!entry && t.claims && t.claims(request)) route = &t.fallback;
  Plan plan;
  auto denial = t.access.check(request, route ? route->permission : Permission::kRead);
  if (!denial && authenticator_ && (route || request.method != "OPTIONS"))
    denial = t.let_in(exchange, route, *authenticator_);
  if (denial) {
    guarded(exchange, [&] { plan = t.deny(exchange, route, *denial); });
    return exchange.listener() ? plan : Plan{BodyPlan::kIgnore};
  }
  if (route && is_stray_connect(request, *route)) {
    plan = t.no_websocket(exchange);
  } else if (route) {
    if (!entry) exchange.record().protocol = route->protocol;
    t.remember(exchange, *route, std::move(match));
    plan = route->plan;
  } else {
    plan = entry ? t.no_method(exchange, *entry) : t.no_route(exchange);
  }
  if (auto* found = exchange.match.get(); found && plan.body != BodyPlan::kWhole)
    guarded(exchange, [&] { found->route->service->serve(exchange, found->args); });
  return plan;
}

base::Status Router::permit(Exchange& exchange, Permission permission) {
  const Request& request = exchange.request();
  if (exchange.match && permission == Permission::kAdmin) exchange.match->asked_for_admin = true;
  if (auto denial = table_->access.check(request, permission)) {
    exchange.record().reject = denial->reason;
    return denial->status;
  }
  if (!authenticator_) return {};
  base::Status status = authenticator_->permit(request, permission);
  if (!status.ok()) exchange.record().reject = reason::kAuth;
  return status;
}

base::Status Router::may(const Exchange& exchange, Permission permission) const {
  const Request& request = exchange.request();
  if (auto denial = table_->access.check(request, permission)) return denial->status;
  return authenticator_ ? authenticator_->permit(request, permission) : base::Status();
}

bool Router::asked_for_admin(const Exchange& exchange) { return exchange.match && exchange.match->asked_for_admin; }
const Route* Router::route_of(const Exchange& exchange) { return exchange.match ? exchange.match->route : nullptr; }

void Router::whole(Exchange& exchange) {
  auto* match = exchange.match.get();
  assert(match && "whole() without a begin() that asked for it");
  exchange.record().times.whole = exchange.now();
  if (auto& trace = exchange.record().trace) trace->whole = exchange.now();
  guarded(exchange, [match, &exchange] { match->route->service->serve(exchange, match->args); });
}

void Router::refuse(Exchange& exchange, int status, std::string_view text) {
  RequestRecord& record = exchange.record();
  if (record.code == base::Code::kOk) record.code = base::code_from_http(status);
  guarded(exchange, [&] { table_->word(exchange, status, text); });
}

void Router::closed(Exchange& exchange) {
  for (Observer* o : observers_) o->finished(exchange);
  exchange.set_caller({});
  table_->forget(exchange);
}

void Router::rejected(std::string_view reason, const PeerInfo& peer) {
  for (Observer* o : observers_) o->rejected(reason, peer);
}

bool wants_retry_after(const Exchange& exchange, int status) {
  return (status == 429 || status == 503) && !exchange.extra_fields().has("retry-after");
}

void respond_error(Exchange& exchange, int status, std::string_view text) {
  RequestRecord& record = exchange.record();
  if (record.code == base::Code::kOk) record.code = base::code_from_http(status);
  if (record.trace && record.trace->error.empty()) record.trace->error = text;
  Response response;
  response.status = status;
  response.fields.add("content-type", "application/json");
  if (wants_retry_after(exchange, status)) response.fields.add("retry-after", "1");
  exchange.respond(std::move(response), base::Bytes::adopt(error_json(text)));
}

void respond_error(Exchange& exchange, const base::Status& status) {
  exchange.record().code = status.code;
  respond_error(exchange, base::http_status(status), status.text);
}

}  // namespace weir::wire
