// POST /grps/v1/infer/predict: one answer, or with streaming=true one part per answer.

#include "base/attempt.h"
#include "dialects/grps/rest.h"
#include "dialects/grps/streamed_inference.h"
#include "wire/offload.h"
#include "wire/text.h"

namespace weir::grps {
namespace {

using base::Status;
using wire::Exchange;

Status read_body(std::string_view control, const wire::Request& request, const base::Bytes& body,
                 base::SlabSource& slabs, Delivery& delivery, Message& message) {
  auto asked = read_delivery(control, request, body.view());
  if (!asked) return asked.error();
  delivery = *asked;
  switch (body_form(request)) {
    case BodyForm::kJson: return read_json(body.view(), slabs, message);
    case BodyForm::kOctets:
      message.kind = Kind::kBin;
      message.data = body;
      return {};
    case BodyForm::kOther: break;
  }
  return base::invalid("Content type is not supported: application/json or application/octet-stream is expected");
}

class ReadRequest final : public base::OffloadTask {
 public:
  ReadRequest(const GrpsState& state, const Exchange& exchange)
      : state_(state), request_(exchange.request()), body_(exchange.content()) {}
  void run() override {
    auto thrown = base::attempt("reading a request", [this] {
      status = read_body(state_.options.streaming, request_, body_, state_.slabs, delivery, message);
    });
    if (!thrown.ok()) status = std::move(thrown);
  }

  Status status;  // after run(), as the next
  Delivery delivery = Delivery::kOne;
  Message message;

 private:
  const GrpsState& state_;
  const wire::Request request_;
  const base::Bytes body_;
};

class RestPredict final : public wire::ExchangeListener, public Prediction {
 public:
  using Prediction::Prediction;
  static constexpr Answers kAnswers = Answers::kOne;

  void begin(Status status, Message&& message, std::string_view model) {
    if (status.ok()) status = ask(std::move(message), model, kAnswers);
    if (!status.ok()) respond(state_, exchange_, status);
  }
  void on_close(Exchange&, bool) override { leave(); }

 private:
  Status answered(Message&& reply, More) override {
    reply_ = std::move(reply);
    return {};
  }
  void ended(Status status) override { respond(state_, exchange_, status, std::move(reply_)); }

  Message reply_;
};

class RestStream final : public StreamedInference<Prediction> {
 public:
  using StreamedInference::StreamedInference;

  void begin(Status status, Message&& message, std::string_view model) {
    if (status.ok()) status = ask(std::move(message), model, Answers::kMany);
    if (!status.ok()) respond(state_, exchange_, status);
  }

 private:
  Status answered(Message&& reply, More more) override {
    if (more == More::kNo && reply.tensors.empty() && reply.data.empty()) return {};
    return parts_.add(std::move(reply));
  }
  void end(const Status& status) override {
    if (!status.ok() && !exchange_.responding()) return respond(state_, exchange_, status);
    parts_.end(status);
  }
};

template <class T>
void serve(GrpsState& state, Exchange& exchange, Status status, Message&& message, ArrayForm array,
           std::string_view model) {
  auto reader = std::make_unique<T>(state, exchange);
  T& request = *reader;
  request.want(array);
  exchange.attach(std::move(reader));
  request.begin(std::move(status), std::move(message), model);
}

void go_on(GrpsState& state, Exchange& exchange, Delivery delivery, Status status, Message&& message) {
  const wire::Request& request = exchange.request();
  ArrayForm array = is_true(request.query_value("return-ndarray")) ? ArrayForm::kReturn : ArrayForm::kNo;
  if (status.ok() && delivery == Delivery::kStream && array == ArrayForm::kReturn)
    status = base::invalid("streaming and return-ndarray exclude each other");
  std::string model = request.query_value("model");
  if (delivery == Delivery::kStream)
    serve<RestStream>(state, exchange, std::move(status), std::move(message), array, model);
  else
    serve<RestPredict>(state, exchange, std::move(status), std::move(message), array, model);
}

void read_elsewhere(GrpsState& state, Exchange& exchange) {
  auto then = [&state, &exchange](const Status& sent, std::unique_ptr<base::OffloadTask> task) {
    if (!sent.ok()) return go_on(state, exchange, Delivery::kOne, sent, {});
    auto& read = static_cast<ReadRequest&>(*task);
    go_on(state, exchange, read.delivery, std::move(read.status), std::move(read.message));
  };
  wire::run_on_worker(*state.options.offload, std::make_unique<ReadRequest>(state, exchange), exchange.content().size(),
                      wire::Offload::Part::kRequest, exchange, std::move(then));
}

}  // namespace

void predict(GrpsState& state, Exchange& exchange) {
  const base::Bytes& body = exchange.content();
  const bool is_long = body.size() > wire::kLongBody && body_form(exchange.request()) == BodyForm::kJson;
  if (is_long && state.options.offload) return read_elsewhere(state, exchange);
  Message message;
  Delivery delivery = Delivery::kOne;
  Status status = read_body(state.options.streaming, exchange.request(), body, state.slabs, delivery, message);
  go_on(state, exchange, delivery, std::move(status), std::move(message));
}

}  // namespace weir::grps
