#include "dialects/ops/pages.h"

#include "marshal/json_tensor.h"

namespace weir::ops {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kPrometheus = "text/plain; version=0.0.4; charset=utf-8";

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
    if (why.empty()) return x.respond(200, kJson, base::Bytes::constant("{\"status\":\"ready\"}\n"));
    x.ledger().code = base::Code::kUnavailable;
    wire::Response response;
    response.status = 503;
    response.fields.add("content-type", kJson);
    response.fields.add("retry-after", "1");
    std::string body = "{\"status\":\"not ready\",\"reason\":";
    marshal::write_string(body, why);
    x.respond(std::move(response), base::Bytes::adopt(body + "}\n"));
  }

  PageOptions options;
  const base::Metrics& metrics;

  Page livez{[](auto& x) { x.respond(200, kJson, base::Bytes::constant("{\"status\":\"alive\"}\n")); }};
  Page readyz{[this](auto& x) { ready(x); }};
  Page scrape{[this](auto& x) {
    x.respond(200, kPrometheus, base::Bytes::adopt(metrics.text()), wire::Exchange::Compress::kIfAccepted);
  }};
};

Pages::Pages(wire::Router& router, const base::Metrics& metrics, PageOptions options)
    : parts_(std::make_unique<Parts>(metrics, std::move(options))) {
  constexpr wire::Plan kNoBody{wire::BodyPlan::kIgnore};
  router.add({"GET", "/livez", &parts_->livez, "health", kNoBody, wire::Permission::kRead});
  router.add({"GET", "/readyz", &parts_->readyz, "health", kNoBody, wire::Permission::kRead});
  router.add({"GET", "/metrics", &parts_->scrape, "metrics", kNoBody, wire::Permission::kRead});
}

Pages::~Pages() = default;

}  // namespace weir::ops
