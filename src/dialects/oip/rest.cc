#include "dialects/oip/rest.h"

#include "base/attempt.h"
#include "base/encoding.h"
#include "base/offload_task.h"
#include "dialects/oip/async_infer.h"
#include "dialects/oip/generate.h"
#include "dialects/oip/load_request.h"
#include "dialects/oip/pb_json.h"
#include "dialects/oip/settings.h"
#include "dialects/oip/shared_memory/shared_memory_rest.h"
#include "dialects/oip/views.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "wire/offload.h"
#include "wire/service_guard.h"

namespace weir::oip {
namespace {

using base::Status;
using wire::Exchange;
using wire::PathArgs;
using wire::respond_error;

constexpr int kManyModels = 256;

void respond_message(Exchange& exchange, const google::protobuf::Message& message) {
  std::string out;
  write_json(out, message);
  respond_json(exchange, std::move(out));
}

bus::Served* find(OipState& state, Exchange& exchange, const PathArgs& args) {
  auto found = state.bus.catalog(marshal::models_of(exchange.request())).find(args["model"], args["version"]);
  if (!found) {
    respond_error(exchange, found.error());
    return nullptr;
  }
  exchange.record().model = (*found)->spec.name;
  return *found;
}

// `{"ready":false,"error":…}` under 400, as the protocol wants "not ready" told.
void respond_not_ready(Exchange& exchange, std::string fields, std::string_view why) {
  exchange.record().code = base::Code::kUnavailable;
  std::string out = "{" + fields + "\"ready\":false,\"error\":";
  marshal::write_string(out, why);
  exchange.respond(400, "application/json", base::Bytes::adopt(out + "}"));
}

// ---- Health and metadata

void server_metadata(OipState& state, Exchange& exchange, const PathArgs&) {
  std::string out = "{\"name\":";
  marshal::write_string(out, state.options.server_name);
  out += ",\"version\":";
  marshal::write_string(out, state.options.server_version);
  out += ",\"extensions\":[";
  for (auto extension : extensions(state)) {
    if (out.back() != '[') out += ',';
    marshal::write_string(out, extension);
  }
  respond_json(exchange, out + "]}");
}

void live(OipState&, Exchange& exchange, const PathArgs&) { respond_json(exchange, "{\"live\":true}"); }

void ready(OipState& state, Exchange& exchange, const PathArgs&) {
  std::string why = state.control.why_not_ready();
  if (why.empty()) return respond_json(exchange, "{\"ready\":true}");
  respond_not_ready(exchange, "", why);
}

class ReadyWaiter final : public wire::ExchangeListener {
 public:
  ReadyWaiter(bus::ModelReadiness& readiness, uint64_t number) : readiness_(readiness), number_(number) {}
  void on_close(Exchange&, bool) override { readiness_.forget(number_); }

 private:
  bus::ModelReadiness& readiness_;
  uint64_t number_;
};

// A model that says itself whether it is ready is asked; `name` begins the answer.
void respond_ready(OipState& state, Exchange& exchange, const bus::Served& served, const std::string& name) {
  const auto probe = state.probe(served);
  if (!probe) return respond_json(exchange, "{" + name + "\"ready\":true}");
  const auto tell = [&exchange, name](const std::string& why_not) {
    why_not.empty() ? respond_json(exchange, "{" + name + "\"ready\":true}")
                    : respond_not_ready(exchange, name, why_not);
  };
  const auto number = state.readiness->ask(
      probe, [&exchange, tell](const std::string& why_not) { wire::guarded(exchange, [&] { tell(why_not); }); });
  if (!number) {
    if (const std::string* last = state.readiness->last_answer(probe)) return tell(*last);
    return respond_error(exchange,
                         base::failure(base::Code::kUnavailable, std::string(bus::ModelReadiness::kTooManyAsk)));
  }
  exchange.attach(std::make_unique<ReadyWaiter>(*state.readiness, *number));
}

void model_ready(OipState& state, Exchange& exchange, const PathArgs& args) {
  auto found = state.bus.catalog(marshal::models_of(exchange.request())).find(args["model"], args["version"]);
  if (!found && found.error().code != base::Code::kUnavailable) return respond_error(exchange, found.error());
  std::string name = "\"name\":";
  marshal::write_string(name, args["model"]);
  name += ",";
  if (!found) return respond_not_ready(exchange, name, found.error().text);
  exchange.record().model = (*found)->spec.name;
  if (!state.control.accepting()) return respond_not_ready(exchange, name, "the server is not ready");
  respond_ready(state, exchange, **found, name);
}

void model_metadata(OipState& state, Exchange& exchange, const PathArgs& args) {
  if (auto* served = find(state, exchange, args))
    respond_message(exchange, metadata(state.bus.catalog(marshal::models_of(exchange.request())), *served));
}

void model_config(OipState& state, Exchange& exchange, const PathArgs& args) {
  if (auto* served = find(state, exchange, args)) respond_message(exchange, config(*served));
}

// It takes 10 ms and more where there are thousands of models: a worker does it.
class WriteStatistics final : public base::OffloadTask {
 public:
  explicit WriteStatistics(inference::ModelStatisticsResponse message) : message_(std::move(message)) {}
  void run() override {
    status = base::attempt("the statistics", [this] { write_json(text, message_); });
  }

  Status status;  // these after run()
  std::string text;

 private:
  const inference::ModelStatisticsResponse message_;
};

void model_stats(OipState& state, Exchange& exchange, const PathArgs& args) {
  auto stats = statistics(state.bus.catalog(marshal::models_of(exchange.request())), args["model"], args["version"]);
  if (!stats) return respond_error(exchange, stats.error());
  if (!state.options.offload || stats->model_stats_size() <= kManyModels) return respond_message(exchange, *stats);
  auto then = [&exchange](const Status& sent, std::unique_ptr<base::OffloadTask> task) {
    if (!sent.ok()) return respond_error(exchange, sent);
    auto& written = static_cast<WriteStatistics&>(*task);
    if (!written.status.ok()) return respond_error(exchange, written.status);
    respond_json(exchange, std::move(written.text));
  };
  const size_t bytes = stats->ByteSizeLong();
  wire::run_on_worker(*state.options.offload, std::make_unique<WriteStatistics>(*std::move(stats)), bytes,
                      wire::Offload::Part::kRequest, exchange, std::move(then));
}

void model_list(OipState& state, Exchange& exchange, const PathArgs&) {
  std::string out = "{\"models\":[";
  for (const auto& [name, unused] : state.bus.catalog(marshal::models_of(exchange.request())).models) {
    if (out.back() != '[') out += ',';
    marshal::write_string(out, name);
  }
  respond_json(exchange, out + "]}");
}

// ---- Repository

void repository_index(OipState& state, Exchange& exchange, const PathArgs&) {
  auto body = read_flat(exchange.content().view());
  if (!body) return respond_error(exchange, body.error());
  Which which = Which::kAll;
  if (auto* value = msg::find(*body, "ready")) {
    auto* only = std::get_if<bool>(value);
    if (!only) return respond_error(exchange, base::invalid("'ready' takes true or false"));
    if (*only) which = Which::kReady;
  }
  auto rows = index(state.bus.catalog(marshal::models_of(exchange.request())), which);
  std::string out = "[";
  for (const auto& row : rows.models()) {
    if (out.back() != '[') out += ',';
    write_json(out, row);
  }
  respond_json(exchange, out + "]");
}

class RestWaiter final : public wire::ExchangeListener {
 public:
  RestWaiter(OipState& state, uint64_t wait) : state_(state), wait_(wait) {}
  void on_close(Exchange&, bool) override { state_.waiting.erase(wait_); }

 private:
  OipState& state_;
  uint64_t wait_;
};

ServerControl::Done wait_for(OipState& state, Exchange& exchange, std::string answer) {
  uint64_t wait = state.wait([&exchange, answer = std::move(answer)](const Status& status) {
    wire::guarded(exchange, [&] { status.ok() ? respond_json(exchange, answer) : respond_error(exchange, status); });
  });
  exchange.attach(std::make_unique<RestWaiter>(state, wait));
  return state.finisher(wait);
}

std::string done_json(std::string_view model, std::string_view what) {
  std::string out = "{\"name\":";
  marshal::write_string(out, model);
  return out + ",\"" + std::string(what) + "\":true}";
}

// Errors: a name that is malformed, or that the caller may not use.
Status check_named(Exchange& exchange, const std::string& model) {
  exchange.record().model = model;
  if (Status status = check_model_name(model); !status.ok()) return status;
  return check_scope(exchange.request(), model);
}

void begin_load(OipState& state, Exchange& exchange, const std::string& model, ReadLoad& read) {
  Status status = std::move(read.status);
  if (status.ok() && !read.request.parameters.empty()) status = check_may_configure(exchange.request());
  if (!status.ok()) return respond_error(exchange, status);
  state.control.load(model, std::move(read.request.parameters), wait_for(state, exchange, done_json(model, "load")));
}

void load(OipState& state, Exchange& exchange, const PathArgs& args) {
  const std::string model(args["model"]);
  if (Status status = check_named(exchange, model); !status.ok()) return respond_error(exchange, status);
  const size_t bytes = exchange.content().size();
  auto read = std::make_unique<ReadLoad>(exchange.content(), read_load_json);
  if (!state.options.offload || bytes <= wire::kLongBody) {
    read->run();
    return begin_load(state, exchange, model, *read);
  }
  auto then = [&state, &exchange, model](const Status& sent, std::unique_ptr<base::OffloadTask> task) {
    if (!sent.ok()) return respond_error(exchange, sent);
    begin_load(state, exchange, model, static_cast<ReadLoad&>(*task));
  };
  wire::run_on_worker(*state.options.offload, std::move(read), bytes, wire::Offload::Part::kRequest, exchange,
                      std::move(then));
}

void unload(OipState& state, Exchange& exchange, const PathArgs& args) {
  const std::string model(args["model"]);
  if (Status status = check_named(exchange, model); !status.ok()) return respond_error(exchange, status);
  auto body = read_parameters(exchange.content().view());
  if (!body) return respond_error(exchange, body.error());
  auto* value = msg::find(*body, "unload_dependents");
  auto* dependents = value ? std::get_if<bool>(value) : nullptr;
  if (value && !dependents) return respond_error(exchange, base::invalid("'unload_dependents' takes true or false"));
  state.control.unload(
      model, dependents && *dependents ? ServerControl::Dependents::kUnload : ServerControl::Dependents::kKeep,
      wait_for(state, exchange, done_json(model, "unload")));
}

// ---- Settings

void respond_traces(OipState& state, Exchange& exchange, std::string_view model) {
  std::string out = "{";
  for (const auto& [key, values] : state.traces.settings(model)) {
    if (out.back() != '{') out += ',';
    marshal::write_string(out, key);
    const bool list = key == "trace_level";
    out += list ? ":[" : ":";
    for (const auto& value : values) {
      if (&value != &values.front()) out += ',';
      marshal::write_string(out, value);
    }
    if (list) out += ']';
  }
  respond_json(exchange, out + "}");
}

void get_trace(OipState& state, Exchange& exchange, const PathArgs& args) {
  if (!args["model"].empty() && !find(state, exchange, args)) return;
  respond_traces(state, exchange, exchange.record().model);
}

void set_trace(OipState& state, Exchange& exchange, const PathArgs& args) {
  if (!args["model"].empty() && !find(state, exchange, args)) return;
  const std::string& model = exchange.record().model;  // its own name; empty: all
  auto wanted = read_trace(exchange.content().view());
  Status status = wanted ? state.traces.change(model, *wanted) : wanted.error();
  if (!status.ok()) return respond_error(exchange, status);
  state.control.settings_changed(exchange, change_text(*wanted));
  respond_traces(state, exchange, model);
}

void get_logging(OipState&, Exchange& exchange, const PathArgs&) {
  std::string out;
  write_flat(out, log_settings());
  respond_json(exchange, std::move(out));
}

void set_logging(OipState& state, Exchange& exchange, const PathArgs& args) {
  auto wanted = read_flat(exchange.content().view());
  Status status = wanted ? change_log(*wanted) : wanted.error();
  if (!status.ok()) return respond_error(exchange, status);
  state.control.settings_changed(exchange, change_text(*wanted));
  get_logging(state, exchange, args);
}

using wire::Permission;

// The body of a POST: a few names, or tensors, text, a model.
enum class Body : uint8_t { kSmall, kWhole };

struct Row {
  const char* method;
  const char* pattern;
  Serve serve;
  Permission permission;
  Body body = Body::kSmall;
};

constexpr uint64_t kSmallBody = 64 << 10;

constexpr Row kRoutes[] = {
    {"GET", "/v2", server_metadata, Permission::kRead},
    {"GET", "/v2/", server_metadata, Permission::kRead},
    {"GET", "/v2/health/live", live, Permission::kHealth},
    {"GET", "/v2/health/ready", ready, Permission::kHealth},
    {"GET", "/v2/models", model_list, Permission::kRead},
    {"GET", "/v2/models/stats", model_stats, Permission::kRead},
    {"GET", "/v2/models/{model}", model_metadata, Permission::kRead},
    {"GET", "/v2/models/{model}/ready", model_ready, Permission::kRead},
    {"GET", "/v2/models/{model}/config", model_config, Permission::kRead},
    {"GET", "/v2/models/{model}/stats", model_stats, Permission::kRead},
    {"POST", "/v2/models/{model}/infer", infer, Permission::kInfer, Body::kWhole},
    {"POST", "/v2/models/{model}/infer_stream", infer_stream, Permission::kInfer, Body::kWhole},
    {"POST", "/v2/models/{model}/generate", generate, Permission::kInfer, Body::kWhole},
    {"POST", "/v2/models/{model}/generate_stream", generate_stream, Permission::kInfer, Body::kWhole},
    {"GET", "/v2/models/{model}/generate_stream", generate_stream, Permission::kInfer},
    {"GET", "/v2/models/{model}/versions/{version}", model_metadata, Permission::kRead},
    {"GET", "/v2/models/{model}/versions/{version}/ready", model_ready, Permission::kRead},
    {"GET", "/v2/models/{model}/versions/{version}/config", model_config, Permission::kRead},
    {"GET", "/v2/models/{model}/versions/{version}/stats", model_stats, Permission::kRead},
    {"POST", "/v2/models/{model}/versions/{version}/infer", infer, Permission::kInfer, Body::kWhole},
    {"POST", "/v2/models/{model}/versions/{version}/infer_stream", infer_stream, Permission::kInfer, Body::kWhole},
    {"POST", "/v2/models/{model}/versions/{version}/generate", generate, Permission::kInfer, Body::kWhole},
    {"POST", "/v2/models/{model}/versions/{version}/generate_stream", generate_stream, Permission::kInfer,
     Body::kWhole},
    {"GET", "/v2/models/{model}/versions/{version}/generate_stream", generate_stream, Permission::kInfer},
    {"GET", "/v2/jobs/{job}", show_job, Permission::kInfer},
    {"GET", "/v2/jobs/{job}/result", job_result, Permission::kInfer},
    {"DELETE", "/v2/jobs/{job}", delete_job, Permission::kInfer},
    {"POST", "/v2/repository/index", repository_index, Permission::kRead},
    {"POST", "/v2/repository/{repository}/index", repository_index, Permission::kRead},
    {"POST", "/v2/repository/models/{model}/load", load, Permission::kAdmin, Body::kWhole},
    {"POST", "/v2/repository/models/{model}/unload", unload, Permission::kAdmin},
    {"POST", "/v2/repository/{repository}/models/{model}/load", load, Permission::kAdmin, Body::kWhole},
    {"POST", "/v2/repository/{repository}/models/{model}/unload", unload, Permission::kAdmin},
    {"GET", "/v2/trace/setting", get_trace, Permission::kRead},
    {"POST", "/v2/trace/setting", set_trace, Permission::kAdmin},
    {"GET", "/v2/models/{model}/trace/setting", get_trace, Permission::kRead},
    {"POST", "/v2/models/{model}/trace/setting", set_trace, Permission::kAdmin},
    {"GET", "/v2/logging", get_logging, Permission::kRead},
    {"POST", "/v2/logging", set_logging, Permission::kAdmin},
    // Regions are the caller's own, as sessions are: registering one is a part of inference and changes nothing for
    // others. What it does open is the machine's shared memory, and oip.shared_memory says to whom.
    {"GET", "/v2/systemsharedmemory/status", get_system_regions, Permission::kRead},
    {"GET", "/v2/systemsharedmemory/region/{region}/status", get_system_regions, Permission::kRead},
    {"POST", "/v2/systemsharedmemory/region/{region}/register", register_system_region, Permission::kInfer},
    {"POST", "/v2/systemsharedmemory/region/{region}/unregister", unregister_system_regions, Permission::kInfer},
    {"POST", "/v2/systemsharedmemory/unregister", unregister_system_regions, Permission::kInfer},
    {"GET", "/v2/cudasharedmemory/status", get_cuda_regions, Permission::kRead},
    {"GET", "/v2/cudasharedmemory/region/{region}/status", get_cuda_regions, Permission::kRead},
    {"POST", "/v2/cudasharedmemory/region/{region}/register", register_cuda_region, Permission::kInfer},
    {"POST", "/v2/cudasharedmemory/region/{region}/unregister", unregister_cuda_regions, Permission::kInfer},
    {"POST", "/v2/cudasharedmemory/unregister", unregister_cuda_regions, Permission::kInfer},
};

}  // namespace

void respond_json(Exchange& exchange, std::string json) {
  exchange.respond(200, "application/json", base::Bytes::adopt(std::move(json)));
}

void respond_inferred(Exchange& exchange, std::string json) {
  exchange.respond_text(200, "application/json", std::move(json), Exchange::Compress::kIfAccepted);
}

void add_routes(OipState& state, wire::Router& router, std::vector<std::unique_ptr<Endpoint>>& services) {
  for (const Row& row : kRoutes) {
    auto& service = services.emplace_back(std::make_unique<Endpoint>(state, row.serve));
    const bool reads = std::string_view(row.method) == "POST";
    wire::Plan plan{!reads ? wire::BodyPlan::kIgnore : wire::BodyPlan::kWhole, state.options.max_body, "limits.body"};
    if (row.body != Body::kWhole && plan.limit > kSmallBody) plan.limit = kSmallBody, plan.setting = {};
    router.add({row.method, row.pattern, service.get(), kRest, plan, row.permission});
  }
}

}  // namespace weir::oip
