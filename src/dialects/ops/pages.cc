#include "dialects/ops/pages.h"

#include <array>
#include <atomic>
#include <mutex>

#include "base/attempt.h"
#include "base/offload_task.h"
#include "dialects/ops/kept_page.h"
#include "dialects/ops/series_scope.h"
#include "marshal/json_tensor.h"
#include "wire/identity.h"
#include "wire/text.h"

namespace weir::ops {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kPrometheus = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kOpenMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";

constexpr size_t kUsualScrape = size_t(64) << 10;  // bytes

using Form = base::Metrics::Form;

// The format of GET /metrics. Prometheus lists both formats in its order of preference; a client whose Accept names
// OpenMetrics gets that one.
Form form_for(std::string_view accept) {
  Form form = Form::kPrometheus;
  wire::for_each_element(accept, [&](std::string_view element) {
    auto type = wire::trim(element.substr(0, element.find(';')));
    if (wire::same_text(type, "application/openmetrics-text")) form = Form::kOpenMetrics;
  });
  return form;
}

// One text of the metrics, shared by all clients that may see all models and asked before the text was begun.
struct Scrape {
  std::mutex writing;
  std::atomic<bool> begun{false};
  bool made = false;    // under the mutex
  base::Status status;  // of the making
  KeptPage page;        // under the mutex
};

// Writes the metrics at a worker: with many models that takes a tenth of a second and more.
class WriteScrape final : public base::OffloadTask {
 public:
  // `models`: those that the text may name; null: all.
  WriteScrape(std::shared_ptr<Scrape> scrape, const base::Metrics& metrics, Form form, wire::Exchange& exchange,
              std::shared_ptr<const base::ModelScope> models)
      : scrape_(std::move(scrape)),
        metrics_(metrics),
        form_(form),
        coding_(KeptPage::coding_for(exchange)),
        memory_(exchange.memory()),
        models_(std::move(models)) {}
  void run() override {
    std::lock_guard lock(scrape_->writing);
    if (!scrape_->made) {
      scrape_->begun = true;
      scrape_->status = base::attempt("the metrics", [this] { scrape_->page = KeptPage(text()); });
      scrape_->made = true;
    }
    status = scrape_->status;
    if (status.ok()) status = base::attempt("the metrics", [this] { scrape_->page.prepare(coding_, memory_); });
    page = scrape_->page;
  }

  base::Status status;
  KeptPage page;  // once it has run: a copy, because others may still add their codings to the shared one

 private:
  std::string text() const {
    std::string all = metrics_.text(form_);
    return models_ ? lines_in_scope(all, *models_) : all;
  }

  const std::shared_ptr<Scrape> scrape_;
  const base::Metrics& metrics_;
  const Form form_;
  const wire::Coding coding_;
  base::MemoryLedger* const memory_;  // the server's, or null
  const std::shared_ptr<const base::ModelScope> models_;
};

// Serves a path that has no parameters by a function.
class Page final : public wire::Service {
 public:
  using Answer = std::function<void(wire::Exchange&)>;
  explicit Page(Answer answer) : answer_(std::move(answer)) {}
  void serve(wire::Exchange& exchange, const wire::PathArgs&) override { answer_(exchange); }

 private:
  Answer answer_;
};

}  // namespace

struct Pages::Parts {
  Parts(const base::Metrics& m, wire::Offload& away, PageOptions o)
      : options(std::move(o)), metrics(m), offload(away) {}

  void ready(wire::Exchange& x) {
    std::string why = options.not_ready ? options.not_ready() : std::string();
    std::string more;
    auto add = [&more](const char* name, const std::function<std::string()>& text_of) {
      const std::string text = text_of ? text_of() : std::string();
      if (text.empty()) return;
      more += name;
      marshal::write_string(more, text);
    };
    add(",\"cluster\":", options.cluster), add(",\"models\":", options.models);
    if (why.empty()) return x.respond(200, kJson, base::Bytes::adopt("{\"status\":\"ready\"" + more + "}\n"));
    x.record().code = base::Code::kUnavailable;
    wire::Response response;
    response.status = 503;
    response.fields.add("content-type", kJson);
    response.fields.add("retry-after", "1");
    std::string body = "{\"status\":\"not ready\",\"reason\":";
    marshal::write_string(body, why);
    x.respond(std::move(response), base::Bytes::adopt(body + more + "}\n"));
  }

  // As the admitted part of a request: whoever watches a server wants to see that it refuses others.
  void scrape(wire::Exchange& x) {
    const Form form = form_for(x.request().fields.find("accept"));
    auto then = [&x, form](const base::Status& sent, std::unique_ptr<base::OffloadTask> task) {
      if (!sent.ok()) return wire::respond_error(x, sent);
      auto& written = static_cast<WriteScrape&>(*task);
      if (!written.status.ok()) return wire::respond_error(x, written.status);
      wire::Response response;
      response.fields.add("content-type", form == Form::kOpenMetrics ? kOpenMetrics : kPrometheus);
      written.page.respond(x, std::move(response), "accept");
    };
    auto models = x.request().identity ? x.request().identity->models : nullptr;
    auto shared = models ? std::make_shared<Scrape>() : join(form);
    auto write = std::make_unique<WriteScrape>(std::move(shared), metrics, form, x, std::move(models));
    wire::run_on_worker(offload, std::move(write), kUsualScrape, wire::Offload::Part::kAnswer, x, std::move(then));
  }
  std::shared_ptr<Scrape> join(Form form) {
    auto next = waiting[size_t(form)].lock();
    if (!next || next->begun) waiting[size_t(form)] = next = std::make_shared<Scrape>();
    return next;
  }

  PageOptions options;
  const base::Metrics& metrics;
  wire::Offload& offload;
  std::array<std::weak_ptr<Scrape>, 2> waiting;  // by form: the latest one

  Page livez{[](auto& x) { x.respond(200, kJson, base::Bytes::constant("{\"status\":\"alive\"}\n")); }};
  Page readyz{[this](auto& x) { ready(x); }};
  Page page{[this](auto& x) { scrape(x); }};
};

Pages::Pages(wire::Router& router, const base::Metrics& metrics, wire::Offload& offload, PageOptions options)
    : parts_(std::make_unique<Parts>(metrics, offload, std::move(options))) {
  constexpr wire::Plan kNoBody{wire::BodyPlan::kIgnore};
  router.add({"GET", "/livez", &parts_->livez, "health", kNoBody, wire::Permission::kHealth});
  router.add({"GET", "/readyz", &parts_->readyz, "health", kNoBody, wire::Permission::kHealth});
  router.add({"GET", "/metrics", &parts_->page, "metrics", kNoBody, wire::Permission::kMetrics});
}

Pages::~Pages() = default;

}  // namespace weir::ops
