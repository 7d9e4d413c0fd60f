#include "wire/router.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/encoding.h"
#include "base/overload.h"
#include "wire/authenticator.h"
#include "wire/grpc_status.h"
#include "wire/limits.h"
#include "wire/path_table.h"
#include "wire/service_guard.h"
#include "wire/text.h"
#include "wire/trace_context.h"
#include "wire/tracer.h"

namespace weir::wire {
namespace {

constexpr size_t kMaxQuoted = 128;           // of a path, in an error text
constexpr size_t kMostSpare = 1024;          // Matches kept for the next requests
constexpr std::string_view kMaxAge = "600";  // seconds that a browser may keep a preflight's answer
constexpr std::string_view kExposed =
    "grpc-status, grpc-message, grpc-status-details-bin, grpc-retry-pushback-ms, inference-header-content-length, "
    "x-request-id";

bool safe_id(std::string_view id) {
  if (id.empty() || id.size() > 64) return false;
  return std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') || c == '_' || c == '-';
  });
}

// The 16 hexadecimal digits of random bits, in any order: eight nibbles at a time are spread over eight bytes.
std::array<char, 16> hex_digits(uint64_t bits) {
  std::array<char, 16> digits;
  for (size_t half = 0; half < 2; ++half, bits >>= 32) {
    uint64_t v = bits & 0xffffffff;
    v = (v | v << 16) & 0x0000ffff0000ffff;
    v = (v | v << 8) & 0x00ff00ff00ff00ff;
    v = (v | v << 4) & 0x0f0f0f0f0f0f0f0f;
    const uint64_t letters = (v + 0x0606060606060606) >> 4 & 0x0101010101010101;
    v += 0x3030303030303030 + letters * ('a' - '0' - 10);
    std::memcpy(&digits[8 * half], &v, 8);
  }
  return digits;
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
  bool same_for_head(const Request& request) const;
  const Cors& cors() const { return access.cors(); }
  void allow_origin(Exchange& x, std::string_view origin) const;
  void preflight(Exchange& x, const PathEntry& entry) const;
  void refuse(Exchange& x, Response&& with, int status, std::string_view text) const;
  Plan no_route(Exchange& x);
  Plan no_method(Exchange& x, const PathEntry& entry);
  Plan deny(Exchange& x, const Route* route, const Denial& denial) const;
  std::optional<Denial> let_in(Exchange& x, const Route* route, Authenticator& authenticator) const;
};

// The client's request id if it is harmless, else a new one; it goes back to the client and into the access log.
void Router::Table::identify(Exchange& x) {
  const Fields& fields = x.request().fields;
  RequestRecord& record = x.record();
  if (record.began == base::kNever) record.began = x.now();
  std::string_view id = fields.find("x-request-id");
  bool theirs = safe_id(id);
  if (theirs) {
    record.request_id = id;
  } else {
    make_id(x);
  }
  // A gRPC client that sent none has it with an error alone (rpc_call.h).
  if (theirs || !is_grpc_or_web(x.request().fields.find("content-type")))
    x.extra_fields().add("x-request-id", record.request_id);
  if (tracer) return tracer->begin(x);
  if (auto sender = context_of(fields)) {
    record.traceparent = sender->traceparent();
    x.extra_fields().add("traceparent", record.traceparent);
  }
}

void Router::Table::make_id(Exchange& x) const {
  const auto digits = hex_digits(env.random());
  x.record().request_id.assign(digits.data(), digits.size());
}

// Of a request that has been let in to its route.
bool Router::Table::same_for_head(const Request& request) const {
  const Fields& fields = request.fields;
  for (std::string_view name : {"x-request-id", "traceparent", "origin"})
    if (fields.has(name)) return false;
  return !is_grpc_or_web(fields.find("content-type"));
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
  if (std::string near = paths.nearest(path); !near.empty()) text += "; did you mean " + near + "?";
  x.record().code = base::Code::kNotFound;
  refuse(x, {}, 404, text);
  return {BodyPlan::kIgnore};
}

Plan Router::Table::no_method(Exchange& x, const PathEntry& entry) {
  if (x.request().method == "OPTIONS") {
    preflight(x, entry);
    return {BodyPlan::kIgnore};
  }
  Response with;
  with.fields.add("allow", entry.allow + ", OPTIONS");
  x.record().route = entry.pattern;
  refuse(x, std::move(with), 405, x.request().method + " is not for this path; it takes " + entry.allow);
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

void Router::fallback(Service& service, Claims claims, std::string_view protocol, Plan plan) {
  table_->claims = claims;
  table_->fallback = Route{"", "", &service, protocol, plan, Permission::kRead};
}

// What begin() would find again is left out. Who asks is asked as ever: limits and keys change.
Plan Router::begin_again(Exchange& exchange) {
  Table& t = *table_;
  RouteMatch& match = *exchange.match;
  RequestRecord& record = exchange.record();
  if (record.began == base::kNever) record.began = exchange.now();
  t.make_id(exchange);
  exchange.extra_fields().add("x-request-id", record.request_id);
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
  return route.plan;
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
  const PathEntry* entry = t.paths.find(request.path(), match->args);
  const Route* route = entry ? entry->find(request.method) : nullptr;
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
  if (route) {
    if (!entry) exchange.record().protocol = route->protocol;
    t.remember(exchange, *route, std::move(match));
    plan = route->plan;
    exchange.match->same_for_head =
        entry && request.kept != HeadKept::kNot && plan.body == BodyPlan::kWhole && t.same_for_head(request);
  } else if (!entry) {
    plan = t.no_route(exchange);
  } else {
    plan = t.no_method(exchange, *entry);
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

void Router::whole(Exchange& exchange) {
  auto* match = exchange.match.get();
  assert(match && "whole() without a begin() that asked for it");
  exchange.record().times.whole = exchange.now();
  if (auto& trace = exchange.record().trace) trace->whole = exchange.now();
  guarded(exchange, [match, &exchange] { match->route->service->serve(exchange, match->args); });
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
