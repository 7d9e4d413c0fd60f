#include "dialects/predict/predict.h"

#include <map>

#include "base/attempt.h"
#include "bus/call_handle.h"
#include "bus/offload_handle.h"
#include "dialects/predict/predict_reply.h"
#include "dialects/predict/predict_request.h"
#include "marshal/call_times.h"
#include "marshal/check.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "marshal/version_status.h"
#include "wire/long_answer.h"
#include "wire/offload.h"

namespace weir::predict {
namespace {

using base::Code;
using base::Status;
using wire::Exchange;
using wire::respond_error;

constexpr std::string_view kProtocol = "predict";
constexpr std::string_view kJson = "application/json";

struct PredictState {
  bus::Bus& bus;
  base::SlabSource& slabs;
  PredictOptions options;
};

// JSON is read where it came in up to this size: 5 ms.
constexpr size_t kLongRequest = 512 << 10;

class ReadPredict final : public base::OffloadTask {
 public:
  // `spec` is kept alive by who sends this.
  ReadPredict(base::Bytes from, const msg::ModelSpec& spec, base::SlabSource& slabs)
      : body_(std::move(from)), spec_(spec), slabs_(slabs) {}
  void run() override {
    Status thrown = base::attempt("reading a request", [this] { read(); });
    if (!thrown.ok()) form = std::move(thrown);
  }

  msg::Call call;                               // after run(): its inputs and rows, checked
  base::Result<PredictLayout> form = Status();  // after run()

 private:
  void read() {
    form = read_predict(body_.view(), spec_, slabs_, call);
    if (!form) return;
    if (Status s = marshal::check_call(spec_, call); !s.ok()) form = std::move(s);
  }

  const base::Bytes body_;
  const msg::ModelSpec& spec_;
  base::SlabSource& slabs_;
};

// One Call on behalf of one request.
class Inference final : public wire::ExchangeListener, public msg::Sink, bus::OffloadListener {
 public:
  Inference(PredictState& state, Exchange& exchange)
      : state_(state), exchange_(exchange), call_(state.bus), reading_(state.bus, *this) {}

  void begin(const wire::PathArgs& args) {
    Status status = find(args["model"], args["version"]);
    if (status.ok()) status = read();
    if (!status.ok()) refuse(status);
  }
  void on_close(Exchange&, bool) override {
    call_.abandon();
    reading_.abandon();
  }

 private:
  Status find(std::string_view model, std::string_view version) {
    auto found = state_.bus.catalog(marshal::models_of(exchange_.request())).find(model, version);
    if (!found) return found.error();
    served_ = *found;
    const msg::ModelSpec& spec = served_->spec;
    exchange_.record().model = spec.name;
    msg::Call& call = call_.fill();
    call.model = spec.name;
    call.version = spec.version;
    marshal::set_caller(call, exchange_);
    if (!spec.decoupled) return {};
    return too_often("may answer any number of times");
  }
  Status too_often(std::string_view what) const {
    return base::failure(Code::kUnimplemented, "model '" + served_->spec.name + "' " + std::string(what) +
                                                   ", which the V1 protocol cannot say: use "
                                                   "/v2/models/<model>/infer_stream");
  }

  Status read() {
    const base::Bytes& body = exchange_.content();
    if (body.size() > kLongRequest && state_.options.offload)
      return reading_.send(std::make_unique<ReadPredict>(body, served_->spec, state_.slabs),
                           bus::weight_of_parsing(body.size()), *served_, exchange_.ticket(),
                           marshal::tenant_of(exchange_.request()));
    ReadPredict reading(body, served_->spec, state_.slabs);
    reading.run();
    return start(reading);
  }
  void on_task(Status status, std::unique_ptr<bus::OffloadTask> task) override {
    if (status.ok()) status = start(static_cast<ReadPredict&>(*task));
    if (!status.ok()) refuse(status);
  }
  Status start(ReadPredict& read) {
    if (!read.form) return read.form.error();
    form_ = *read.form;
    msg::Call& call = call_.fill();
    call.inputs = std::move(read.call.inputs);
    call.rows = read.call.rows;
    return call_.submit(*served_, *this, exchange_.ticket());
  }
  void refuse(const Status& status) {
    call_.abandon();
    respond_error(exchange_, status);
  }

  void on(msg::Call& call, msg::Event&& event) override {
    const bool last = call_.on_event(event);
    auto* outputs = std::get_if<msg::Outputs>(&event.what);
    if (!last && !outputs) return;
    auto* failed = std::get_if<msg::Failed>(&event.what);
    Status status = failed ? std::move(failed->status) : bus::no_answer();
    if (outputs) status = outputs->final ? check(outputs->tensors) : too_often("answers in pieces");
    call_.abandon();
    marshal::record_call(exchange_.record(), call);
    if (!status.ok()) return respond_error(exchange_, status);
    answer(std::move(outputs->tensors));
  }
  // The strings inside BYTES are checked where the answer is written.
  static Status check(const std::vector<msg::Tensor>& tensors) {
    return marshal::check_outputs(tensors, marshal::StringLengths::kSkip);
  }
  // This may be destroyed by it.
  void answer(std::vector<msg::Tensor> tensors) {
    auto send = [&exchange = exchange_](base::Result<base::Bytes> body) {
      if (!body) return respond_error(exchange, body.error());
      exchange.respond(200, kJson, *std::move(body), Exchange::Compress::kIfAccepted);
    };
    const uint64_t most = most_text(form_, tensors);
    auto make = [form = form_, tensors = std::move(tensors)]() -> base::Result<base::Bytes> {
      if (Status wrong = marshal::check_outputs(tensors); !wrong.ok()) return wrong;
      auto text = write_predict(form, tensors);
      if (!text) return text.error();
      return base::Bytes::adopt(*std::move(text));
    };
    if (!wire::is_long(state_.options.offload, most)) return send(wire::write_body(exchange_, most, make));
    wire::write_on_worker(*state_.options.offload, exchange_, most, std::move(make), std::move(send));
  }

  PredictState& state_;
  Exchange& exchange_;
  bus::CallHandle call_;
  bus::OffloadHandle reading_;
  bus::Served* served_ = nullptr;  // looked up in this turn, or kept alive by a task or Call in flight
  PredictLayout form_ = PredictLayout::kRows;
};

void predict(PredictState& state, Exchange& exchange, const wire::PathArgs& args) {
  auto listener = std::make_unique<Inference>(state, exchange);
  Inference& inference = *listener;
  exchange.attach(std::move(listener));
  inference.begin(args);
}

void explain(PredictState& state, Exchange& exchange, const wire::PathArgs& args) {
  auto found = state.bus.catalog(marshal::models_of(exchange.request())).find(args["model"], args["version"]);
  if (!found) return respond_error(exchange, found.error());
  exchange.record().model = (*found)->spec.name;
  respond_error(exchange,
                base::failure(Code::kUnimplemented, "explain is not offered: no model here explains its answers"));
}

void list_models(PredictState& state, Exchange& exchange, const wire::PathArgs&) {
  std::string out = "{\"models\":[";
  for (const auto& [name, unused] : state.bus.catalog(marshal::models_of(exchange.request())).models) {
    if (out.back() != '[') out += ',';
    marshal::write_string(out, name);
  }
  exchange.respond(200, kJson, base::Bytes::adopt(out + "]}"));
}

void show_model(PredictState& state, Exchange& exchange, const wire::PathArgs& args) {
  const bus::Catalog& catalog = state.bus.catalog(marshal::models_of(exchange.request()));
  auto found = catalog.find(args["model"], args["version"]);
  if (!found && found.error().code != Code::kUnavailable) return respond_error(exchange, found.error());
  const bool ready = found && state.options.accepting();
  std::string out = "{\"name\":";
  marshal::write_string(out, args["model"]);
  out += ready ? ",\"ready\":true" : ",\"ready\":false";
  if (ready) {
    const auto model = catalog.models.find((*found)->spec.name);
    if (!args["version"].empty() || model == catalog.models.end())
      marshal::write_version_status(out, std::map<std::string, bool>{{(*found)->spec.version, true}});
    else
      marshal::write_version_status(out, model->second.versions);
  } else {
    exchange.record().code = Code::kUnavailable;
    out += ",\"error\":";
    marshal::write_string(out, found ? std::string_view("the server is not ready") : found.error().text);
  }
  exchange.respond(ready ? 200 : 503, kJson, base::Bytes::adopt(out + "}"));
}

using Serve = void (*)(PredictState&, Exchange&, const wire::PathArgs&);

class Endpoint final : public wire::Service {
 public:
  Endpoint(PredictState& state, Serve serve) : state_(state), serve_(serve) {}
  void serve(Exchange& exchange, const wire::PathArgs& args) override { serve_(state_, exchange, args); }
  bool refuse(Exchange& exchange, const Status& why) override { return respond_error(exchange, why), true; }

 private:
  PredictState& state_;
  Serve serve_;
};

}  // namespace

struct Predict::Parts {
  PredictState state;
  Endpoint list{state, list_models}, show{state, show_model}, predict{state, predict::predict},
      explain{state, predict::explain};
};

Predict::Predict(bus::Bus& bus, wire::Router& router, base::SlabSource& slabs, PredictOptions options)
    : parts_(new Parts{PredictState{bus, slabs, std::move(options)}}) {
  using wire::Permission;
  Parts& p = *parts_;
  const wire::Plan whole{wire::BodyPlan::kWhole, p.state.options.max_body, "limits.body"};
  const wire::Plan none{wire::BodyPlan::kIgnore};
  router.error_form_of(kProtocol, respond_error);  // paths under /v1 are another protocol's, too
  router.add({"GET", "/v1/models", &p.list, kProtocol, none, Permission::kRead});
  for (std::string_view model : {"/v1/models/{model}", "/v1/models/{model}/versions/{version}"}) {
    router.add({"GET", std::string(model), &p.show, kProtocol, none, Permission::kRead});
    router.add({"POST", std::string(model) + ":predict", &p.predict, kProtocol, whole, Permission::kInfer});
    router.add({"POST", std::string(model) + ":explain", &p.explain, kProtocol, none, Permission::kInfer});
  }
}

Predict::~Predict() = default;

}  // namespace weir::predict
