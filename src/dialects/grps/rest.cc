#include "dialects/grps/rest.h"

#include "base/encoding.h"
#include "dialects/grps/batch_timeline.h"
#include "dialects/grps/form_data.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "wire/long_answer.h"

namespace weir::grps {
namespace {

using base::Status;
using wire::Exchange;

// How the Router words what it refuses below /grps/.
void respond_stray(Exchange& exchange, int http, std::string_view text) {
  Status status = base::failure(base::code_from_http(http), std::string(text));
  exchange.record().set_outcome(status);
  exchange.respond(http, "application/json", base::Bytes::adopt(write_failure(http, status.text)));
}

template <ControlCall call>
void control(GrpsState& state, Exchange& exchange) {
  Message request, reply;
  Status status;
  // A body that says nothing, or {}, or is not JSON at all, asks as much as none; only metadata reads it.
  if (call == model_metadata && !exchange.content().empty())
    status = read_json(exchange.content().view(), state.slabs, request);
  if (request.model.empty()) request.model = exchange.request().query_value("model");
  const auto& catalog = state.bus.catalog(marshal::models_of(exchange.request()));
  if (status.ok()) status = call(state, catalog, request, reply);
  respond(state, exchange, status, reply);
}

// Whether a series is one of the server's, or of a model that the caller may see.
bool may_see(std::string_view series, const base::ModelScope* models) {
  if (!models || series.starts_with('*')) return true;
  for (std::string_view end : {"_qps", "_latency_avg(ms)", "_latency_cdf(ms)"})
    if (series.ends_with(end)) return models->allows(series.substr(0, series.size() - end.size()));
  return false;
}

void monitor_series(GrpsState& state, Exchange& exchange) {
  // As the reference server's page asks for it: "name=*fail_rate(%)", a '%' that begins no escape.
  std::string name = query_field(exchange.request().query(), "name");
  const bool seen = may_see(name, marshal::models_of(exchange.request()));
  auto series = seen ? state.monitor.series(name) : std::nullopt;
  if (!series) return respond(state, exchange, base::failure(base::Code::kNotFound, "no series '" + name + "'"));
  exchange.respond(200, "application/json", base::Bytes::adopt(std::move(*series)), Exchange::Compress::kIfAccepted);
}

void monitor_batches(GrpsState& state, Exchange& exchange) {
  const auto& request = exchange.request();
  auto batches = batches_json(state.bus.catalog(marshal::models_of(exchange.request())), request.query_value("model"),
                              request.query_value("version"), state.bus.env().now());
  if (!batches) return respond(state, exchange, batches.error());
  exchange.respond(200, "application/json", base::Bytes::adopt(std::move(*batches)), Exchange::Compress::kIfAccepted);
}

std::string html(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

// Names and values of now: a page for a browser, JSON for everything else that asks for it.
void monitor_metrics(GrpsState& state, Exchange& exchange) {
  bool json = exchange.request().fields.find("accept").find("application/json") != std::string_view::npos;
  std::string out = json ? "{"
                         : "<!doctype html><meta charset=utf-8><title>weir: metrics</title>"
                           "<p><a href=\"/grps/v1/\">charts</a></p><table>\n";
  const auto* models = marshal::models_of(exchange.request());
  for (const auto& [name, last] : state.monitor.rows()) {
    if (!may_see(name, models)) continue;
    if (json) {
      if (out.size() > 1) out += ',';
      marshal::write_string(out, name);
      out += ':';
      marshal::write_number(out, last);
      continue;
    }
    out += "<tr><td><a href=\"series?name=" + base::percent_encode(name) + "\">" + html(name) + "</a><td>";
    marshal::write_number(out, last);
    out += '\n';
  }
  out += json ? "}" : "</table>\n";
  exchange.respond(200, json ? "application/json" : "text/html; charset=utf-8", base::Bytes::adopt(std::move(out)),
                   Exchange::Compress::kIfAccepted);
}

// The console has the charts of the series; without it GET / links monitor_metrics().
void monitor_page(GrpsState&, Exchange& exchange) {
  wire::Response response;
  response.status = 302;
  response.fields.add("location", "/#/docs/grps");
  exchange.respond(std::move(response), {});
}

using wire::Permission;

struct Row {
  const char* path;
  Serve serve;
  Permission permission = Permission::kRead;
};

// As documented, GET does what POST does, also where it changes something.
constexpr Row kControls[] = {
    {"/grps/v1/health/online", control<go_online>, Permission::kAdmin},
    {"/grps/v1/health/offline", control<go_offline>, Permission::kAdmin},
    {"/grps/v1/health/live", control<check_liveness>, Permission::kHealth},
    {"/grps/v1/health/ready", control<check_readiness>, Permission::kHealth},
    {"/grps/v1/metadata/server", control<server_metadata>},
    {"/grps/v1/metadata/model", control<model_metadata>},
};
constexpr uint64_t kControlBody = 64 << 10;

}  // namespace

void respond(const GrpsState& state, Exchange& exchange, const Status& status, Message reply) {
  if (status.ok() && reply.kind == Kind::kBin)
    return respond(exchange, status, code_of(status), "application/octet-stream", reply.data);
  auto send = [&exchange, status](base::Result<base::Bytes> json) {
    const Status outcome = json ? status : json.error();
    if (!json) json = base::Bytes::adopt(write_json(outcome, {}));
    respond(exchange, outcome, code_of(outcome), "application/json", *std::move(json));
  };
  const uint64_t most = most_json(reply);
  if (!wire::is_long(state.options.offload, most))
    return send(wire::write_body(exchange, most, [&] { return base::Bytes::adopt(write_json(status, reply)); }));
  auto make = [status, reply = std::move(reply)] { return base::Bytes::adopt(write_json(status, reply)); };
  wire::write_on_worker(*state.options.offload, exchange, most, std::move(make), std::move(send));
}

void respond(Exchange& exchange, const Status& status, int http, std::string_view type, base::Bytes body) {
  exchange.record().set_outcome(status);
  if (http != 429 && http != 503) return exchange.respond(http, type, std::move(body), Exchange::Compress::kIfAccepted);
  wire::Response response;
  response.status = http;
  response.fields.add("content-type", type);
  if (wire::wants_retry_after(exchange, http)) response.fields.add("retry-after", "1");
  exchange.respond(std::move(response), std::move(body));
}

void add_routes(GrpsState& state, wire::Router& router, std::vector<std::unique_ptr<Endpoint>>& services) {
  for (const Row& row : kControls) {
    auto* service = services.emplace_back(std::make_unique<Endpoint>(state, row.serve)).get();
    router.add({"GET", row.path, service, kRest, {wire::BodyPlan::kIgnore}, row.permission});
    router.add({"POST", row.path, service, kRest, {wire::BodyPlan::kWhole, kControlBody}, row.permission});
  }
  auto* service = services.emplace_back(std::make_unique<Endpoint>(state, predict)).get();
  router.add({"POST",
              "/grps/v1/infer/predict",
              service,
              kRest,
              {wire::BodyPlan::kWhole, state.options.max_body, "limits.body"},
              Permission::kInfer});
  const Row pages[] = {{"/grps/v1/monitor/series", monitor_series, Permission::kMetrics},
                       {"/grps/v1/monitor/metrics", monitor_metrics, Permission::kMetrics},
                       {"/grps/v1/monitor/batches", monitor_batches, Permission::kMetrics},
                       {"/grps/v1/monitor", monitor_page, Permission::kMetrics},
                       {"/grps/v1", monitor_page, Permission::kMetrics},
                       {"/grps/v1/", monitor_page, Permission::kMetrics}};
  for (const Row& row : pages) {
    auto* page = services.emplace_back(std::make_unique<Endpoint>(state, row.serve)).get();
    router.add({"GET", row.path, page, "grps-monitor", {wire::BodyPlan::kIgnore}, row.permission});
  }
  router.error_form("/grps/", respond_stray);
}

}  // namespace weir::grps
