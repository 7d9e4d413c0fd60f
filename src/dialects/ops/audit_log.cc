#include "dialects/ops/audit_log.h"

#include <algorithm>

#include "base/log.h"
#include "dialects/ops/json_line.h"
#include "wire/identity.h"

namespace weir::ops {
namespace {

constexpr const char* kAuditEvent = "admin action";

// The members of a line about a request. The views are borrowed from its Exchange.
struct AdminAction {
  std::string action, who, change;
  std::string_view request_id, certificate, peer, protocol, model, path, reason;
  uint64_t status = 0;
  base::Code code = base::Code::kOk;
};

AdminAction action_of(const wire::Exchange& exchange) {
  const wire::RequestRecord& record = exchange.record();
  const wire::Request& request = exchange.request();
  AdminAction out;
  out.action = request.method + ' ' + std::string(record.route);
  out.request_id = record.request_id, out.protocol = record.protocol, out.model = record.model;
  out.path = request.path(), out.reason = record.reject;
  out.status = uint64_t(record.status), out.code = record.code;
  if (!request.peer) return out;
  out.peer = request.peer->address;
  if (const auto& names = request.peer->certificate_names; names && !names->empty()) out.certificate = names->front();
  return out;
}

}  // namespace

base::Result<std::unique_ptr<AuditLog>> AuditLog::open(const std::string& where, base::Metrics& metrics) {
  if (where.empty()) return std::unique_ptr<AuditLog>(new AuditLog(nullptr));
  auto file =
      base::LineFile::open({"the audit log", "audit_log", "weir_audit_log_dropped_total"}, where, 0600, metrics);
  if (!file) return file.error();
  return std::unique_ptr<AuditLog>(new AuditLog(std::move(*file)));
}

void AuditLog::reopen() {
  if (file_) file_->reopen();
}

void AuditLog::note(base::WallTime at, std::string_view action, std::string_view path, const base::Status& outcome) {
  const std::string_view code = base::name(outcome.code);
  if (!file_)
    return base::log::info(kAuditEvent, {{"action", action}, {"path", path}, {"code", code}, {"reason", outcome.text}});
  std::string text;
  JsonLine line(text, at);
  line.text("action", action).text("path", path).text("code", code).text("reason", outcome.text).end();
  file_->put(text, 1);
}

AuditLog::ShardLog::ShardLog(AuditLog& log, base::Env& env, const wire::Router& router,
                             wire::Authenticator* authenticator)
    : log_(log), env_(env), authenticator_(authenticator) {
  for (const wire::Route* route : router.routes())
    if (route->permission == wire::Permission::kAdmin) admin_.emplace(route->pattern, route->method);
}

bool AuditLog::ShardLog::is_admin(const wire::Exchange& exchange) const {
  if (const wire::Route* route = wire::Router::route_of(exchange)) return route->permission == wire::Permission::kAdmin;
  auto [begin, end] = admin_.equal_range(exchange.record().route);  // it was refused
  return std::any_of(begin, end, [&](const auto& route) { return route.second == exchange.request().method; });
}

// The name of the caller; empty if it is not known. A refused request has no Identity, so its key or token is looked up
// again, but only for errors that authenticated callers get: else a wrong token would be verified a second time.
std::string AuditLog::ShardLog::who(const wire::Exchange& exchange) const {
  const wire::Request& request = exchange.request();
  if (request.identity) return request.identity->name;
  const bool known = exchange.record().code == base::Code::kPermissionDenied ||
                     exchange.record().code == base::Code::kResourceExhausted;
  return authenticator_ && known ? authenticator_->name_of(request) : std::string();
}

void AuditLog::ShardLog::finished(const wire::Exchange& exchange) {
  if (!is_admin(exchange) && !wire::Router::asked_for_admin(exchange)) return;
  AdminAction a = action_of(exchange);
  a.who = who(exchange);
  if (auto change = changes_.extract(&exchange)) a.change = std::move(change.mapped());
  const std::string_view code = base::name(a.code);
  if (!log_.file_)
    return base::log::info(kAuditEvent, {{"request_id", a.request_id},
                                         {"who", a.who},
                                         {"certificate", a.certificate},
                                         {"peer", a.peer},
                                         {"protocol", a.protocol},
                                         {"action", a.action},
                                         {"model", a.model},
                                         {"path", a.path},
                                         {"change", a.change},
                                         {"status", a.status},
                                         {"code", code},
                                         {"reason", a.reason}});
  std::string text;
  JsonLine line(text, env_.wall());
  line.text("request_id", a.request_id).text("who", a.who).text("certificate", a.certificate).text("peer", a.peer);
  line.text("protocol", a.protocol).text("action", a.action).text("model", a.model).text("path", a.path);
  line.text("change", a.change).number("status", a.status).text("code", code).text("reason", a.reason).end();
  log_.file_->put(text, 1);
}

}  // namespace weir::ops
