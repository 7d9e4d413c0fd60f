#include "dialects/grps/custom.h"

#include "dialects/grps/inference.h"
#include "dialects/grps/rest.h"
#include "dialects/grps/route_inputs.h"
#include "dialects/grps/route_reply.h"
#include "dialects/grps/stream.h"
#include "wire/answer_flow.h"
#include "wire/sse.h"

namespace weir::grps {
namespace {

using base::Status;
using msg::Tensor;
using wire::Exchange;

class CustomInference final : public wire::ExchangeListener, public Inference {
 public:
  CustomInference(GrpsState& state, Exchange& exchange, const RouteSpec& spec)
      : Inference(state, exchange), route_(spec), parts_(exchange) {}

  void begin(const wire::PathArgs& args) {
    Status status = fill(args);
    if (status.ok()) status = start();
    if (!status.ok()) leave(), respond_error(exchange_, route_, status);
  }
  void on_drain(Exchange&) override { drained(); }
  void on_close(Exchange&, bool) override { leave(); }

 private:
  Status fill(const wire::PathArgs& args) {
    auto streaming = wants_stream(route_.streaming, exchange_);
    if (!streaming) return streaming.error();
    streaming_ = *streaming;
    std::string model = route_.model.empty() ? exchange_.request().query_value("model") : route_.model;
    Status status = find(model, streaming_ ? Answers::kMany : Answers::kOne);
    RouteInputs inputs(exchange_, args, state_.slabs);
    for (const auto& [input, source] : route_.inputs)
      if (status.ok()) status = inputs.fill(input, source, spec(), call());
    return status;
  }

  Status answered(std::vector<Tensor> outputs, More more) override {
    if (streaming_ && more == More::kNo && outputs.empty()) return {};
    wire::AnswerRoom room(exchange_);
    if (!room.take(most_rendered(route_, outputs))) return wire::no_room_for_answer();
    auto body = render(route_, outputs);
    if (!body) return body.error();
    if (!room.settle(*body)) return wire::no_room_for_answer();
    if (!streaming_) {
      answer_ = std::move(*body);
      return {};
    }
    parts_.open(route_.stream_content_type);
    parts_.raw(framed(*body));
    return {};
  }

  base::Bytes framed(const base::Bytes& part) const {
    if (!route_.raw_output.empty() || parts_.format() == StreamFormat::kGrps) return part;
    std::string out;
    if (parts_.format() == StreamFormat::kSse)
      wire::append_sse(out, part.view());
    else
      out.append(part.view()) += '\n';
    return base::Bytes::adopt(std::move(out));
  }

  void ended(Status status) override {
    if (streaming_ && (status.ok() || exchange_.responding())) return end_stream(status);
    if (!status.ok()) return respond_error(exchange_, route_, status);
    exchange_.respond(int(route_.status), content_type(route_), std::move(answer_), Exchange::Compress::kIfAccepted);
  }

  // A failure is the last part, in the route's own words where it has some.
  void end_stream(const Status& status) {
    parts_.open(route_.stream_content_type);
    if (status.ok() || route_.error_body.empty()) return parts_.end(status);
    parts_.raw(framed(base::Bytes::adopt(render_error(route_, status))));
    exchange_.record().code = status.code;
    exchange_.end();
  }

  const RouteSpec& route_;
  PartWriter parts_;
  bool streaming_ = false;
  base::Bytes answer_;  // where one is taken
};

}  // namespace

void CustomRoute::serve(Exchange& exchange, const wire::PathArgs& args) {
  auto reader = std::make_unique<CustomInference>(state_, exchange, spec_);
  CustomInference& inference = *reader;
  exchange.attach(std::move(reader));
  inference.begin(args);
}

bool CustomRoute::refuse(Exchange& exchange, const Status& why) {
  respond_error(exchange, spec_, why);
  return true;
}

void add_custom_routes(GrpsState& state, wire::Router& router, std::vector<std::unique_ptr<CustomRoute>>& services) {
  for (const RouteSpec& spec : state.options.routes) {
    auto* service = services.emplace_back(std::make_unique<CustomRoute>(state, spec)).get();
    wire::Plan plan{spec.method == "GET" ? wire::BodyPlan::kIgnore : wire::BodyPlan::kWhole, state.options.max_body};
    router.add({spec.method, spec.path, service, kRest, plan, wire::Permission::kInfer});
  }
}

}  // namespace weir::grps
