// POST /grps/v1/infer/predict: one answer, or with streaming=true one part per answer.
#include "base/attempt.h"
#include "dialects/grps/inference.h"
#include "dialects/grps/rest.h"
#include "dialects/grps/stream.h"
#include "wire/offload.h"
#include "wire/text.h"

namespace weir::grps {
namespace {

using base::Status;
using wire::Exchange;

Status read_body(GrpsState& state, const Exchange& exchange, Message& message) {
  switch (body_form(exchange.request())) {
    case BodyForm::kJson: return read_json(exchange.content().view(), state.slabs, message);
    case BodyForm::kOctets:
      message.kind = Kind::kBin;
      message.data = exchange.content();
      return {};
    case BodyForm::kOther: break;
  }
  return base::invalid("Content type is not supported: application/json or application/octet-stream is expected");
}

class ReadJson final : public base::OffloadTask {
 public:
  ReadJson(base::Bytes body, base::SlabSource& slabs) : body_(std::move(body)), slabs_(slabs) {}
  void run() override {
    auto thrown = base::attempt("reading a request", [this] { status = read_json(body_.view(), slabs_, message); });
    if (!thrown.ok()) status = std::move(thrown);
  }

  Status status;  // after run(), as the next
  Message message;

 private:
  const base::Bytes body_;
  base::SlabSource& slabs_;
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
  void replied(Message&& reply, More) override { reply_ = std::move(reply); }
  void ended(Status status) override { respond(state_, exchange_, status, std::move(reply_)); }

  Message reply_;
};

class RestStream final : public wire::ExchangeListener, public Prediction {
 public:
  RestStream(GrpsState& state, Exchange& exchange) : Prediction(state, exchange), parts_(exchange) {}

  void begin(Status status, Message&& message, std::string_view model) {
    if (status.ok()) status = ask(std::move(message), model, Answers::kMany);
    if (!status.ok()) respond(state_, exchange_, status);
  }
  void on_drain(Exchange&) override { drained(); }
  void on_close(Exchange&, bool) override { leave(); }

 private:
  void replied(Message&& reply, More more) override {
    if (more == More::kYes || !reply.tensors.empty() || !reply.data.empty()) parts_.part({}, reply);
  }
  void ended(Status status) override {
    if (!status.ok() && !exchange_.responding()) return respond(state_, exchange_, status);
    parts_.end(status);
  }

  PartWriter parts_;
};

template <class T>
void serve(GrpsState& state, Exchange& exchange, Status status, Message&& message, ArrayForm array,
           std::string_view model) {
  auto reader = std::make_unique<T>(state, exchange);
  T& request = *reader;
  request.array = array;
  exchange.attach(std::move(reader));
  request.begin(std::move(status), std::move(message), model);
}

}  // namespace

namespace {

enum class Delivery : uint8_t { kOne, kStream };

void go_on(GrpsState& state, Exchange& exchange, Delivery delivery, Status status, Message&& message) {
  const wire::Request& request = exchange.request();
  ArrayForm array = says_true(request.query_value("return-ndarray")) ? ArrayForm::kReturn : ArrayForm::kNo;
  if (status.ok() && delivery == Delivery::kStream && array == ArrayForm::kReturn)
    status = base::invalid("streaming and return-ndarray exclude each other");
  std::string model = request.query_value("model");
  if (delivery == Delivery::kStream)
    serve<RestStream>(state, exchange, std::move(status), std::move(message), array, model);
  else
    serve<RestPredict>(state, exchange, std::move(status), std::move(message), array, model);
}

void read_elsewhere(GrpsState& state, Exchange& exchange, Delivery delivery) {
  const base::Bytes& body = exchange.content();
  auto then = [&state, &exchange, delivery](const Status& sent, std::unique_ptr<base::OffloadTask> task) {
    if (!sent.ok()) return go_on(state, exchange, delivery, sent, {});
    auto& read = static_cast<ReadJson&>(*task);
    go_on(state, exchange, delivery, std::move(read.status), std::move(read.message));
  };
  wire::send_away(*state.options.offload, std::make_unique<ReadJson>(body, state.slabs), body.size(),
                  wire::Offload::Part::kRequest, exchange, std::move(then));
}

}  // namespace

void predict(GrpsState& state, Exchange& exchange) {
  auto streaming = wants_stream(state.options.streaming, exchange);
  const Delivery delivery = streaming && *streaming ? Delivery::kStream : Delivery::kOne;
  const bool is_long = exchange.content().size() > wire::kLongBody && body_form(exchange.request()) == BodyForm::kJson;
  if (streaming && is_long && state.options.offload) return read_elsewhere(state, exchange, delivery);
  Message message;
  Status status = streaming ? read_body(state, exchange, message) : streaming.error();
  go_on(state, exchange, delivery, std::move(status), std::move(message));
}

}  // namespace weir::grps
