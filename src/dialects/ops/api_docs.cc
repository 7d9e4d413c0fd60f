#include "dialects/ops/api_docs.h"

#include <map>
#include <memory>
#include <optional>
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

constexpr size_t kUsualDocument = size_t(256) << 10;  // bytes

enum class DocsFormat : uint8_t { kJson, kPage };

// The parts of the whole server's document.
struct Sources {
  std::vector<wire::Route> routes;  // for their texts: nothing is called
  std::vector<std::string> texts;
  std::string version;
};

// A document, the whole server's or that of one model. It takes milliseconds to make one, so a worker does it.
class WriteDocs final : public base::OffloadTask {
 public:
  // `root`: way_to_root() of a page.
  WriteDocs(base::Bytes whole, std::shared_ptr<const Sources> sources, DocsFormat format, std::string root,
            std::optional<msg::ModelSpec> model)
      : whole_(std::move(whole)),
        sources_(std::move(sources)),
        format_(format),
        root_(std::move(root)),
        model_(std::move(model)) {}
  void run() override {
    status = base::attempt("the documentation", [this] {
      if (sources_) made = write_whole(*sources_);
      const std::string_view whole = sources_ ? std::string_view(made) : whole_.view();
      if (model_) text = write_openapi(whole, *model_);
      if (format_ == DocsFormat::kPage) text = write_reference(model_ ? text : whole, root_);
    });
  }

  base::Status status;  // these after run()
  std::string made;     // the whole server's document; empty: it was there
  std::string text;     // empty: the whole server's document is wanted

 private:
  static std::string write_whole(const Sources& from) {
    std::vector<const wire::Route*> routes;
    for (const auto& route : from.routes) routes.push_back(&route);
    return write_openapi(std::move(routes), from.texts, from.version);
  }

  const base::Bytes whole_;
  const std::shared_ptr<const Sources> sources_;  // where the whole server's document was not made yet
  const DocsFormat format_;
  const std::string root_;
  const std::optional<msg::ModelSpec> model_;
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
    if (!document.empty()) return respond_document(x);
    write(x, DocsFormat::kJson, {}, [this, &x](WriteDocs&) { respond_document(x); });
  }
  void send_page(wire::Exchange& x, const wire::PathArgs&) {
    KeptPage& page = pages[way_to_root(x.request().path())];
    if (!page.empty()) return respond_page(x, kHtmlType, page);
    write(x, DocsFormat::kPage, {}, [&page, &x](WriteDocs& docs) {
      if (page.empty()) page = KeptPage(std::move(docs.text));
      respond_page(x, kHtmlType, page);
    });
  }
  void send_manual(wire::Exchange& x, const wire::PathArgs& args) {
    if (wire::accepts(x.request().fields.find("accept"), "text/html")) return send_page(x, args);
    respond_page(x, "text/plain; charset=utf-8", base::Bytes::constant(web::kDocs));
  }
  void send_model(wire::Exchange& x, const wire::PathArgs& args) {
    write_model(x, args, DocsFormat::kJson, [&x](WriteDocs& docs) {
      x.respond(200, kJsonType, base::Bytes::adopt(std::move(docs.text)), wire::Exchange::Compress::kIfAccepted);
    });
  }
  void send_model_page(wire::Exchange& x, const wire::PathArgs& args) {
    write_model(x, args, DocsFormat::kPage,
                [&x](WriteDocs& docs) { respond_page(x, kHtmlType, base::Bytes::adopt(std::move(docs.text))); });
  }

  void respond_document(wire::Exchange& x) {
    wire::Response response;
    response.fields.add("content-type", kJsonType);
    document.respond(x, std::move(response));
  }
  template <class Respond>
  void write_model(wire::Exchange& x, const wire::PathArgs& args, DocsFormat format, Respond respond) {
    auto found = bus.catalog(marshal::models_of(x.request())).find(args["model"], {});
    if (!found) return wire::respond_error(x, found.error());
    x.record().model = (*found)->spec.name;
    write(x, format, (*found)->spec, std::move(respond));
  }
  // Hundreds of KiB, for all who ask before the document is there.
  std::shared_ptr<const Sources> shared_sources() {
    if (!document.empty() || sources) return sources;
    auto out = std::make_shared<Sources>(Sources{{}, texts, version});
    for (const auto* route : router.routes()) out->routes.push_back(*route);
    return sources = std::move(out);
  }
  // `respond` is called in a later turn, with what was made; then the whole server's document is kept.
  template <class Respond>
  void write(wire::Exchange& x, DocsFormat format, std::optional<msg::ModelSpec> model, Respond respond) {
    auto then = [this, &x, respond](const base::Status& sent, std::unique_ptr<base::OffloadTask> task) {
      if (!sent.ok()) return wire::respond_error(x, sent);
      auto& docs = static_cast<WriteDocs&>(*task);
      if (!docs.status.ok()) return wire::respond_error(x, docs.status);
      if (document.empty()) document = KeptPage(std::move(docs.made)), sources.reset();
      respond(docs);
    };
    const base::Bytes whole = document.empty() ? base::Bytes() : document.plain();
    const size_t bytes = document.empty() ? kUsualDocument : whole.size();
    auto task =
        std::make_unique<WriteDocs>(whole, shared_sources(), format, way_to_root(x.request().path()), std::move(model));
    wire::run_on_worker(offload, std::move(task), bytes, wire::Offload::Part::kRequest, x, std::move(then));
  }

  wire::Router& router;
  bus::Bus& bus;
  wire::Offload& offload;
  const std::string version;
  std::vector<std::string> texts;
  std::shared_ptr<const Sources> sources;  // until the document is there
  KeptPage document;
  std::map<std::string, KeptPage> pages;  // by their way to the root: one of /docs, one of /v2/docs
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
