#include "dialects/ops/pages.h"

#include <array>

#include "dialects/ops/kept_page.h"
#include "marshal/json_tensor.h"
#include "wire/text.h"

namespace weir::ops {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kPrometheus = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kOpenMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";

using Form = base::Metrics::Form;

// Prometheus names what it wants in the order of its liking, and takes either: whoever names OpenMetrics gets it.
Form form_for(std::string_view accept) {
  Form form = Form::kPrometheus;
  wire::for_each_element(accept, [&](std::string_view element) {
    auto type = wire::trim(element.substr(0, element.find(';')));
    if (wire::same_text(type, "application/openmetrics-text")) form = Form::kOpenMetrics;
  });
  return form;
}

// A page is a function of nothing.
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
  Parts(const base::Metrics& m, PageOptions o) : options(std::move(o)), metrics(m) {}

  void ready(wire::Exchange& x) {
    std::string why = options.not_ready ? options.not_ready() : std::string();
    std::string more;
    if (const std::string cluster = options.cluster ? options.cluster() : ""; !cluster.empty()) {
      more = ",\"cluster\":";
      marshal::write_string(more, cluster);
    }
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

  // Making it costs most of a millisecond, and coding it another: whoever asks in the same turn of the loop gets the
  // same page.
  void scrape(wire::Exchange& x) {
    if (made_at != x.now()) made_at = x.now(), pages = {};
    const Form form = form_for(x.request().fields.find("accept"));
    KeptPage& page = pages[size_t(form)];
    if (page.empty()) page = KeptPage(metrics.text(form));
    wire::Response response;
    response.fields.add("content-type", form == Form::kOpenMetrics ? kOpenMetrics : kPrometheus);
    page.respond(x, std::move(response), "accept");
  }

  PageOptions options;
  const base::Metrics& metrics;
  base::Time made_at = base::kNever;
  std::array<KeptPage, 2> pages;  // by form

  Page livez{[](auto& x) { x.respond(200, kJson, base::Bytes::constant("{\"status\":\"alive\"}\n")); }};
  Page readyz{[this](auto& x) { ready(x); }};
  Page page{[this](auto& x) { scrape(x); }};
};

Pages::Pages(wire::Router& router, const base::Metrics& metrics, PageOptions options)
    : parts_(std::make_unique<Parts>(metrics, std::move(options))) {
  constexpr wire::Plan kNoBody{wire::BodyPlan::kIgnore};
  router.add({"GET", "/livez", &parts_->livez, "health", kNoBody, wire::Permission::kHealth});
  router.add({"GET", "/readyz", &parts_->readyz, "health", kNoBody, wire::Permission::kHealth});
  router.add({"GET", "/metrics", &parts_->page, "metrics", kNoBody, wire::Permission::kMetrics});
}

Pages::~Pages() = default;

}  // namespace weir::ops
