#include "dialects/ops/console/console.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include "console_files.h"
#include "dialects/ops/console/batch_list.h"
#include "dialects/ops/html.h"
#include "dialects/ops/kept_page.h"
#include "marshal/html.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "wire/accept.h"
#include "wire/coding.h"

namespace weir::ops {
namespace {

using base::Code;
using base::failure;

class ConsoleRoute final : public wire::Service {
 public:
  using Answer = std::function<void(wire::Exchange&, const wire::PathArgs&)>;
  explicit ConsoleRoute(Answer answer) : answer_(std::move(answer)) {}
  void serve(wire::Exchange& x, const wire::PathArgs& args) override { answer_(x, args); }

 private:
  Answer answer_;
};

constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void add_rules(wire::Response& response) {
  response.fields.add("content-security-policy", kPolicy);
  response.fields.add("x-content-type-options", "nosniff");
  response.fields.add("referrer-policy", "no-referrer");
}

// The page as Vite writes it names its parts below /console/, and other paths of the server from its root.
std::string page_at(std::string_view setting, std::string_view path) {
  constexpr std::string_view kBase = "console/", kPath = "\"/";
  const std::string root = way_to_root(path), base = marshal::escape_html(setting.substr(1)) + '/';
  std::string page(web::kConsolePage);
  for (size_t at = 0; (at = page.find(kPath, at)) != page.npos; ++at) {
    const size_t here = at + kPath.size();
    if (std::string_view(page).substr(here).starts_with(kBase)) page.replace(here, kBase.size(), base);
    page.replace(at + 1, 1, root);
  }
  return page;
}

// The names of files have a hash of what is in them: what was asked for once need not be asked for again. All browsers
// take gzip.
void send_file(wire::Exchange& x, std::string_view name) {
  const auto file = std::find_if(web::kConsoleFiles.begin(), web::kConsoleFiles.end(),
                                 [&](const web::ConsoleFile& f) { return f.name == name; });
  if (file == web::kConsoleFiles.end())
    return wire::respond_error(x, failure(Code::kNotFound, "the console of this build has no such file"));
  if (wire::choose_coding(x.request().fields.find("accept-encoding")) != wire::Coding::kGzip)
    return wire::respond_error(x, 406, "the console's files are sent as gzip: say accept-encoding: gzip");
  wire::Response response;
  response.fields.add("content-type", file->type);
  response.fields.add("content-encoding", "gzip");
  response.fields.add("cache-control", "public, max-age=31536000, immutable");
  response.fields.add("vary", "accept-encoding");
  add_rules(response);
  x.respond(std::move(response), base::Bytes::constant(file->gzip));
}

// Waits for a model to be loaded or unloaded; the client may leave meanwhile.
class Waiting final : public wire::ExchangeListener {
 public:
  explicit Waiting(wire::Exchange& x) : alive_(std::make_shared<wire::Exchange*>(&x)) {}
  void on_close(wire::Exchange&, bool) override { alive_.reset(); }
  std::weak_ptr<wire::Exchange*> alive() const { return alive_; }

 private:
  std::shared_ptr<wire::Exchange*> alive_;
};

dialects::ServerControl::Done answer_later(wire::Exchange& x) {
  auto waiting = std::make_unique<Waiting>(x);
  auto alive = waiting->alive();
  x.attach(std::move(waiting));
  return [alive](const base::Status& status) {
    auto there = alive.lock();
    if (!there) return;
    if (!status.ok()) return wire::respond_error(**there, status);
    (*there)->respond(200, "application/json", base::Bytes::constant("{}\n"));
  };
}

base::Status check_change(const wire::Request& request, std::string_view model) {
  if (request.fields.find("x-weir-console").empty() || !wire::is_own_origin(request.fields.find("origin"), request))
    return failure(Code::kPermissionDenied,
                   "this is for the console's own page: it wants the field x-weir-console and this server's Origin; "
                   "others use /v2/repository/models/{model}/load");
  const base::ModelScope* scope = marshal::models_of(request);
  if (!scope || scope->allows(model)) return {};
  return failure(Code::kPermissionDenied, "this key is not for model '" + std::string(model) + "'");
}

}  // namespace

struct Console::Parts {
  Parts(const wire::Router& r, bus::Bus& b, base::Env& e, dialects::ServerControl& c, const ConsoleOptions& options)
      : router(r), bus(b), env(e), control(c), settings(std::string(options.settings)) {
    if (options.enabled && !web::kConsolePage.empty()) path = options.path;
  }

  void batches(wire::Exchange& x) {
    const std::string after = x.request().query_value("after");
    int64_t number = -1;
    std::from_chars(after.data(), after.data() + after.size(), number);
    auto text = batch_list(bus.catalog(marshal::models_of(x.request())), x.request().query_value("model"),
                           x.request().query_value("version"), number, env.now());
    if (!text) return wire::respond_error(x, text.error());
    x.respond(200, "application/json", base::Bytes::adopt(std::move(*text)), wire::Exchange::Compress::kIfAccepted);
  }

  void change(wire::Exchange& x, const wire::PathArgs& args, bool load_it) {
    const std::string model(args["model"]);
    x.record().model = model;
    if (auto status = check_change(x.request(), model); !status.ok()) return wire::respond_error(x, status);
    if (load_it) return control.load(model, {}, answer_later(x));
    control.unload(model, dialects::ServerControl::Dependents::kKeep, answer_later(x));
  }

  void access(wire::Exchange& x) const {
    const auto observe = router.may(x, wire::Permission::kObserve), admin = router.may(x, wire::Permission::kAdmin);
    std::string out = "{\"observe\":";
    out += observe.ok() ? "true" : "false";
    out += ",\"admin\":";
    out += admin.ok() ? "true,\"why\":" : "false,\"why\":";
    marshal::write_string(out, admin.text);
    x.respond(200, "application/json", base::Bytes::adopt(out + '}'));
  }

  const wire::Router& router;
  bus::Bus& bus;
  base::Env& env;
  dialects::ServerControl& control;
  std::string path;  // the setting; empty: there is no page
  KeptPage settings;
  ConsoleRoute index{[this](auto& x, auto&) {
    if (!path.empty()) return respond_console(x, base::Bytes::adopt(page_at(path, x.request().path())));
    wire::respond_error(x, failure(Code::kNotFound, "this weir was built without the console: npm was missing"));
  }};
  ConsoleRoute file{[](auto& x, auto& args) { send_file(x, args["file"]); }};
  ConsoleRoute batch{[this](auto& x, auto&) { batches(x); }};
  ConsoleRoute config{[this](auto& x, auto&) {
    wire::Response response;
    response.fields.add("content-type", "application/json");
    settings.respond(x, std::move(response));
  }};
  ConsoleRoute allowed{[this](auto& x, auto&) { access(x); }};
  ConsoleRoute load{[this](auto& x, auto& args) { change(x, args, true); }};
  ConsoleRoute unload{[this](auto& x, auto& args) { change(x, args, false); }};
};

Console::Console(wire::Router& router, bus::Bus& bus, base::Env& env, dialects::ServerControl& control,
                 const ConsoleOptions& options)
    : parts_(std::make_unique<Parts>(router, bus, env, control, options)) {
  using wire::Permission;
  constexpr wire::Plan kNoBody{wire::BodyPlan::kIgnore};
  auto add = [&](const char* method, std::string path, wire::Service& service, Permission permission) {
    router.add({method, std::move(path), &service, "console", kNoBody, permission});
  };
  if (options.enabled) {  // for anybody, since a browser cannot show a key before it has the page
    for (const char* end : {"", "/"}) add("GET", options.path + end, parts_->index, Permission::kHealth);
    add("GET", options.path + "/{file}", parts_->file, Permission::kHealth);
  }
  add("GET", "/console/v1/batches", parts_->batch, Permission::kMetrics);
  add("GET", "/console/v1/config", parts_->config, Permission::kObserve);
  add("GET", "/console/v1/access", parts_->allowed, Permission::kMetrics);
  add("POST", "/console/v1/models/{model}/load", parts_->load, Permission::kAdmin);
  add("POST", "/console/v1/models/{model}/unload", parts_->unload, Permission::kAdmin);
}

Console::~Console() = default;

base::Bytes Console::page() const {
  return parts_->path.empty() ? base::Bytes() : base::Bytes::adopt(page_at(parts_->path, "/"));
}

void respond_console(wire::Exchange& x, base::Bytes page) {
  wire::Response response;
  response.fields.add("content-type", "text/html; charset=utf-8");
  response.fields.add("cache-control", "no-cache");
  response.fields.add("vary", "accept");
  add_rules(response);
  x.respond(std::move(response), std::move(page));
}

}  // namespace weir::ops
