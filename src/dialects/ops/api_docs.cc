#include "dialects/ops/api_docs.h"

#include <utility>

#include "base/attempt.h"
#include "base/offload_task.h"
#include "dialects/ops/html.h"
#include "dialects/ops/kept_page.h"
#include "dialects/ops/openapi.h"
#include "docs_page.h"
#include "marshal/tenant.h"
#include "wire/accept.h"

namespace weir::ops {
namespace {

constexpr std::string_view kHtmlType = "text/html; charset=utf-8", kJsonType = "application/json";

enum class DocsFormat : uint8_t { kJson, kPage };

// The document of one model. It takes milliseconds to make, so a worker does it.
class WriteModelDocs final : public base::OffloadTask {
 public:
  WriteModelDocs(base::Bytes document, msg::ModelSpec spec, DocsFormat format)
      : document_(std::move(document)), spec_(std::move(spec)), format_(format) {}
  void run() override {
    status = base::attempt("a model's documentation", [this] {
      text = write_openapi(document_.view(), spec_);
      if (format_ == DocsFormat::kPage) text = write_reference(text);
    });
  }

  base::Status status;  // these two after run()
  std::string text;

 private:
  const base::Bytes document_;  // the server's
  const msg::ModelSpec spec_;
  const DocsFormat format_;
};

}  // namespace

struct ApiDocs::Parts {
  using Serve = void (Parts::*)(wire::Exchange&, const wire::PathArgs&);
  class Endpoint final : public wire::Service {
   public:
    Endpoint(Parts& parts, Serve serve) : parts_(parts), serve_(serve) {}
    void serve(wire::Exchange& exchange, const wire::PathArgs& args) override { (parts_.*serve_)(exchange, args); }

   private:
    Parts& parts_;
    const Serve serve_;
  };

  void send_document(wire::Exchange& x, const wire::PathArgs&) {
    wire::Response response;
    response.fields.add("content-type", kJsonType);
    made_document().respond(x, std::move(response));
  }
  void send_page(wire::Exchange& x, const wire::PathArgs&) { respond_page(x, kHtmlType, made_page()); }
  void send_manual(wire::Exchange& x, const wire::PathArgs& args) {
    if (wire::accepts(x.request().fields.find("accept"), "text/html")) return send_page(x, args);
    respond_page(x, "text/plain; charset=utf-8", base::Bytes::constant(web::kDocs));
  }
  void send_model(wire::Exchange& x, const wire::PathArgs& args) { write_model(x, args, DocsFormat::kJson); }
  void send_model_page(wire::Exchange& x, const wire::PathArgs& args) { write_model(x, args, DocsFormat::kPage); }

  KeptPage& made_document() {
    if (document.empty()) document = KeptPage(write_openapi(router.routes(), texts, version));
    return document;
  }
  KeptPage& made_page() {
    if (page.empty()) page = KeptPage(write_reference(made_document().plain().view()));
    return page;
  }
  void write_model(wire::Exchange& x, const wire::PathArgs& args, DocsFormat format) {
    auto found = bus.catalog(marshal::models_of(x.request())).find(args["model"], {});
    if (!found) return wire::respond_error(x, found.error());
    x.record().model = (*found)->spec.name;
    auto then = [&x, format](const base::Status& sent, std::unique_ptr<base::OffloadTask> task) {
      if (!sent.ok()) return wire::respond_error(x, sent);
      auto& docs = static_cast<WriteModelDocs&>(*task);
      if (!docs.status.ok()) return wire::respond_error(x, docs.status);
      auto text = base::Bytes::adopt(std::move(docs.text));
      if (format == DocsFormat::kPage) return respond_page(x, kHtmlType, std::move(text));
      x.respond(200, kJsonType, std::move(text), wire::Exchange::Compress::kIfAccepted);
    };
    const base::Bytes& whole = made_document().plain();
    wire::send_away(offload, std::make_unique<WriteModelDocs>(whole, (*found)->spec, format), whole.size(),
                    wire::Offload::Part::kRequest, x, std::move(then));
  }

  wire::Router& router;
  bus::Bus& bus;
  wire::Offload& offload;
  const std::string version;
  std::vector<std::string> texts;
  KeptPage document, page;
  Endpoint whole_json{*this, &Parts::send_document}, whole_page{*this, &Parts::send_page};
  Endpoint manual{*this, &Parts::send_manual};
  Endpoint model{*this, &Parts::send_model}, model_page{*this, &Parts::send_model_page};
};

ApiDocs::ApiDocs(wire::Router& router, bus::Bus& bus, wire::Offload& offload, std::string_view version,
                 std::vector<std::string> texts)
    : parts_(new Parts{router, bus, offload, std::string(version), std::move(texts), {}, {}}) {
  parts_->texts.emplace(parts_->texts.begin(), own_openapi());
  constexpr wire::Plan kNoBody{wire::BodyPlan::kIgnore};
  auto add = [&](std::string path, wire::Service& service) {
    router.add({"GET", std::move(path), &service, "http", kNoBody, wire::Permission::kRead});
  };
  add("/docs", parts_->manual);
  add("/openapi.json", parts_->whole_json);
  add("/v2/docs", parts_->whole_page);
  add("/v2/docs/dataplane.json", parts_->whole_json);
  add("/v2/models/{model}/docs", parts_->model_page);
  add("/v2/models/{model}/docs/dataplane.json", parts_->model);
}

ApiDocs::~ApiDocs() = default;

}  // namespace weir::ops
