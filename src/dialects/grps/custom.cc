#include "dialects/grps/custom.h"

#include <algorithm>

#include "base/attempt.h"
#include "dialects/grps/rest.h"
#include "dialects/grps/route_inputs.h"
#include "dialects/grps/route_reply.h"
#include "dialects/grps/streamed_inference.h"
#include "marshal/tenant.h"
#include "wire/long_answer.h"
#include "wire/offload.h"
#include "wire/sse.h"

namespace weir::grps {
namespace {

using base::Status;
using msg::Tensor;
using wire::Exchange;

// The result of reading a request by its route.
struct RouteRequest {
  Delivery delivery = Delivery::kOne;
  std::vector<Tensor> inputs;
};

std::string model_of(const RouteSpec& route, const Exchange& exchange) {
  return route.model.empty() ? exchange.request().query_value("model") : route.model;
}

// Reads a long request by a worker.
class ReadRoute final : public base::OffloadTask {
 public:
  ReadRoute(const RouteSpec& route, const Exchange& exchange, const wire::PathArgs& args, const msg::ModelSpec& spec,
            base::SlabSource& slabs)
      : route_(route),
        request_(exchange.request()),
        body_(exchange.content()),
        args_(args),
        spec_(spec),
        slabs_(slabs) {}
  void run() override {
    Status thrown = base::attempt("reading a request", [this] { status = read(); });
    if (!thrown.ok()) status = std::move(thrown);
  }

  // The results, valid after run().
  Status status;
  RouteRequest result;

 private:
  Status read() {
    auto delivery = read_delivery(route_.streaming, request_, body_.view());
    if (!delivery) return delivery.error();
    result.delivery = *delivery;
    RouteInputs inputs(request_, body_, args_, slabs_);
    msg::Call call;
    for (const auto& [input, source] : route_.inputs)
      if (Status s = inputs.fill(input, source, spec_, call); !s.ok()) return s;
    result.inputs = std::move(call.inputs);
    return {};
  }

  const RouteSpec& route_;
  const wire::Request request_;
  const base::Bytes body_;
  const wire::PathArgs args_;
  const msg::ModelSpec spec_;  // a copy: the model may be unloaded meanwhile
  base::SlabSource& slabs_;
};

base::Bytes framed(const RouteSpec& route, StreamFormat format, const base::Bytes& part) {
  if (!route.raw_output.empty() || format == StreamFormat::kGrps) return part;
  std::string out;
  if (format == StreamFormat::kSse)
    wire::append_sse(out, part.view());
  else
    out.append(part.view()) += '\n';
  return base::Bytes::adopt(std::move(out));
}

class CustomInference final : public StreamedInference<Inference> {
 public:
  CustomInference(GrpsState& state, Exchange& exchange, const RouteSpec& spec)
      : StreamedInference(state, exchange, spec.stream_content_type), route_(spec) {}

  void begin(const wire::PathArgs& args) {
    auto delivery = read_delivery(route_.streaming, exchange_.request(), exchange_.content().view());
    Status status = delivery ? find(*delivery) : delivery.error();
    RouteInputs inputs(exchange_.request(), exchange_.content(), args, state_.slabs);
    for (const auto& [input, source] : route_.inputs)
      if (status.ok()) status = inputs.fill(input, source, spec(), call());
    submit(std::move(status));
  }
  // For a request that a worker has read.
  void begin(Status status, RouteRequest&& request) {
    if (status.ok()) status = find(request.delivery);
    if (status.ok()) call().inputs = std::move(request.inputs);
    submit(std::move(status));
  }

 private:
  Status find(Delivery delivery) {
    streaming_ = delivery == Delivery::kStream;
    return Inference::find(model_of(route_, exchange_), streaming_ ? Answers::kMany : Answers::kOne);
  }
  void submit(Status status) {
    if (status.ok()) status = start();
    if (!status.ok()) leave(), respond_error(exchange_, route_, status);
  }

  Status answered(Message&& reply, More more) override {
    if (!streaming_) {
      outputs_ = std::move(reply.tensors);
      return {};
    }
    std::vector<Tensor> outputs = std::move(reply.tensors);
    if (more == More::kNo && outputs.empty()) return {};
    const uint64_t most = most_rendered(route_, outputs);
    return parts_.add(
        most, [&route = route_, format = parts_.format(), outputs = std::move(outputs)]() -> base::Result<base::Bytes> {
          auto body = render(route, outputs);
          if (!body) return body.error();
          return framed(route, format, *body);
        });
  }

  void end(const Status& status) override {
    if (streaming_ && (status.ok() || exchange_.responding())) return end_stream(status);
    status.ok() ? respond() : respond_error(exchange_, route_, status);
  }
  // A failure is the last part: the route's `error_body` if it has one.
  void end_stream(const Status& status) {
    if (status.ok() || route_.error_body.empty()) return parts_.end(status);
    parts_.end(status, framed(route_, parts_.format(), base::Bytes::adopt(render_error(route_, status))));
  }
  // The Exchange may destroy this from here on.
  void respond() {
    auto send = [&exchange = exchange_, &route = route_](base::Result<base::Bytes> body) {
      if (!body) return respond_error(exchange, route, body.error());
      exchange.respond(int(route.status), content_type(route), *std::move(body), Exchange::Compress::kIfAccepted);
    };
    const uint64_t most = most_rendered(route_, outputs_);
    auto make = [&route = route_, outputs = std::move(outputs_)] { return render(route, outputs); };
    if (!wire::is_long(state_.options.offload, most)) return send(wire::write_body(exchange_, most, make));
    wire::write_on_worker(*state_.options.offload, exchange_, most, std::move(make), std::move(send));
  }

  const RouteSpec& route_;
  bool streaming_ = false;
  std::vector<Tensor> outputs_;  // the one answer, if not streaming_
};

CustomInference& attach_inference(GrpsState& state, Exchange& exchange, const RouteSpec& route) {
  auto listener = std::make_unique<CustomInference>(state, exchange, route);
  CustomInference& inference = *listener;
  exchange.attach(std::move(listener));
  return inference;
}

bool is_long_request(const GrpsState& state, const Exchange& exchange, const RouteSpec& route) {
  if (exchange.content().size() <= wire::kLongBody || !state.options.offload) return false;
  return route.streaming.starts_with("body_param:") ||
         std::any_of(route.inputs.begin(), route.inputs.end(), [](const auto& in) { return reads_body(in.second); });
}

void read_by_worker(GrpsState& state, Exchange& exchange, const RouteSpec& route, const wire::PathArgs& args) {
  auto found = find_model(state.bus.catalog(marshal::models_of(exchange.request())), model_of(route, exchange));
  if (!found) return respond_error(exchange, route, found.error());
  auto then = [&state, &exchange, &route](const Status& sent, std::unique_ptr<base::OffloadTask> task) {
    CustomInference& inference = attach_inference(state, exchange, route);
    if (!sent.ok()) return inference.begin(sent, {});
    auto& read = static_cast<ReadRoute&>(*task);
    inference.begin(std::move(read.status), std::move(read.result));
  };
  auto read = std::make_unique<ReadRoute>(route, exchange, args, (*found)->spec, state.slabs);
  wire::run_on_worker(*state.options.offload, std::move(read), exchange.content().size(), wire::Offload::Part::kRequest,
                      exchange, std::move(then));
}

}  // namespace

void CustomRoute::serve(Exchange& exchange, const wire::PathArgs& args) {
  if (is_long_request(state_, exchange, spec_)) return read_by_worker(state_, exchange, spec_, args);
  attach_inference(state_, exchange, spec_).begin(args);
}

bool CustomRoute::refuse(Exchange& exchange, const Status& why) {
  respond_error(exchange, spec_, why);
  return true;
}

void add_custom_routes(GrpsState& state, wire::Router& router, std::vector<std::unique_ptr<CustomRoute>>& services) {
  for (const RouteSpec& spec : state.options.routes) {
    auto* service = services.emplace_back(std::make_unique<CustomRoute>(state, spec)).get();
    const auto body = spec.method == "GET" ? wire::BodyPlan::kIgnore : wire::BodyPlan::kWhole;
    const wire::Plan plan{body, state.options.max_body, "limits.body"};
    router.add({spec.method, spec.path, service, kRest, plan, wire::Permission::kInfer});
  }
}

}  // namespace weir::grps
