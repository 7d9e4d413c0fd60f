#include "dialects/ops/api_docs.h"

#include "dialects/ops/html.h"
#include "dialects/ops/openapi.h"
#include "docs_page.h"
#include "marshal/tenant.h"
#include "wire/accept.h"

namespace weir::ops {
namespace {

constexpr std::string_view kHtmlType = "text/html; charset=utf-8", kJsonType = "application/json";

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
    x.respond(200, kJsonType, made_document(), wire::Exchange::Compress::kIfAccepted);
  }
  void send_page(wire::Exchange& x, const wire::PathArgs&) { respond_page(x, kHtmlType, made_page()); }
  void send_manual(wire::Exchange& x, const wire::PathArgs& args) {
    if (wire::accepts(x.request().fields.find("accept"), "text/html")) return send_page(x, args);
    respond_page(x, "text/plain; charset=utf-8", base::Bytes::constant(web::kDocs));
  }
  void send_model(wire::Exchange& x, const wire::PathArgs& args) {
    if (auto text = of_model(x, args); !text.empty())
      x.respond(200, kJsonType, base::Bytes::adopt(std::move(text)), wire::Exchange::Compress::kIfAccepted);
  }
  void send_model_page(wire::Exchange& x, const wire::PathArgs& args) {
    if (auto text = of_model(x, args); !text.empty())
      respond_page(x, kHtmlType, base::Bytes::adopt(write_reference(text)));
  }

  const base::Bytes& made_document() {
    if (document.empty()) document = base::Bytes::adopt(write_openapi(router.routes(), texts, version));
    return document;
  }
  const base::Bytes& made_page() {
    if (page.empty()) page = base::Bytes::adopt(write_reference(made_document().view()));
    return page;
  }
  // Empty: refused.
  std::string of_model(wire::Exchange& x, const wire::PathArgs& args) {
    auto found = bus.catalog(marshal::models_of(x.request())).find(args["model"], {});
    if (!found) return wire::respond_error(x, found.error()), std::string();
    x.record().model = (*found)->spec.name;
    return write_openapi(made_document().view(), (*found)->spec);
  }

  wire::Router& router;
  bus::Bus& bus;
  const std::string version;
  std::vector<std::string> texts;
  base::Bytes document, page;
  Endpoint whole{*this, &Parts::send_document}, whole_page{*this, &Parts::send_page};
  Endpoint manual{*this, &Parts::send_manual};
  Endpoint model{*this, &Parts::send_model}, model_page{*this, &Parts::send_model_page};
};

ApiDocs::ApiDocs(wire::Router& router, bus::Bus& bus, std::string_view version, std::vector<std::string> texts)
    : parts_(new Parts{router, bus, std::string(version), std::move(texts), {}, {}}) {
  parts_->texts.emplace(parts_->texts.begin(), own_openapi());
  constexpr wire::Plan kNoBody{wire::BodyPlan::kIgnore};
  auto add = [&](std::string path, wire::Service& service) {
    router.add({"GET", std::move(path), &service, "http", kNoBody, wire::Permission::kRead});
  };
  add("/docs", parts_->manual);
  add("/openapi.json", parts_->whole);
  add("/v2/docs", parts_->whole_page);
  add("/v2/docs/dataplane.json", parts_->whole);
  add("/v2/models/{model}/docs", parts_->model_page);
  add("/v2/models/{model}/docs/dataplane.json", parts_->model);
}

ApiDocs::~ApiDocs() = default;

}  // namespace weir::ops
