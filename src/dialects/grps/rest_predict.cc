// POST /grps/v1/infer/predict: one answer, or with streaming=true one part per answer.
#include <optional>

#include "dialects/grps/inference.h"
#include "dialects/grps/rest.h"
#include "dialects/grps/stream.h"
#include "wire/text.h"

namespace weir::grps {
namespace {

using base::Status;
using wire::Exchange;

Status read_body(House& house, const Exchange& exchange, Message& message) {
  switch (body_form(exchange.request())) {
    case BodyForm::kJson: return read_json(exchange.content().view(), house.slabs, message);
    case BodyForm::kOctets:
      message.kind = Kind::kBin;
      message.data = exchange.content();
      return {};
    case BodyForm::kOther: break;
  }
  return base::invalid("Content type is not supported: application/json or application/octet-stream is expected");
}

class RestPredict final : public wire::Reader, public Prediction {
 public:
  using Prediction::Prediction;
  static constexpr Answers kAnswers = Answers::kOne;

  void begin(Status status, Message&& message, std::string_view model) {
    if (status.ok()) status = ask(std::move(message), model, kAnswers);
    if (!status.ok()) respond(house_, exchange_, status);
  }
  void on_close(Exchange&, bool) override { leave(); }

 private:
  void replied(Message&& reply, More) override { reply_ = std::move(reply); }
  void ended(Status status) override {
    if (status.ok() && !reply_) status = base::failure(base::Code::kInternal, "the model gave no answer");
    respond(house_, exchange_, status, reply_ ? *reply_ : Message{});
  }

  std::optional<Message> reply_;
};

class RestStream final : public wire::Reader, public Prediction {
 public:
  RestStream(House& house, Exchange& exchange) : Prediction(house, exchange), parts_(house, exchange) {}

  void begin(Status status, Message&& message, std::string_view model) {
    if (status.ok()) status = ask(std::move(message), model, Answers::kMany);
    if (!status.ok()) respond(house_, exchange_, status);
  }
  void on_drain(Exchange&) override { repay(); }
  void on_close(Exchange&, bool) override { leave(); }

 private:
  void replied(Message&& reply, More more) override {
    if (more == More::kYes || !reply.tensors.empty() || !reply.data.empty()) parts_.part({}, reply);
    if (exchange_.backlog() <= Exchange::kHighWater) repay();
  }
  void ended(Status status) override {
    if (!status.ok() && !exchange_.responding()) return respond(house_, exchange_, status);
    parts_.end(status);
  }

  PartWriter parts_;
};

template <class T>
void serve(House& house, Exchange& exchange, Status status, Message&& message, ArrayWish array,
           std::string_view model) {
  auto reader = std::make_unique<T>(house, exchange);
  T& request = *reader;
  request.array = array;
  exchange.attach(std::move(reader));
  request.begin(std::move(status), std::move(message), model);
}

}  // namespace

void predict(House& house, Exchange& exchange) {
  const wire::Request& request = exchange.request();
  auto wish = wants_stream(house.options.streaming, exchange);
  bool streaming = wish && *wish;
  ArrayWish array = says_true(request.query_value("return-ndarray")) ? ArrayWish::kReturn : ArrayWish::kNo;
  Message message;
  Status status = wish ? read_body(house, exchange, message) : wish.error();
  if (status.ok() && streaming && array == ArrayWish::kReturn)
    status = base::invalid("streaming and return-ndarray exclude each other");
  std::string model = request.query_value("model");
  if (streaming)
    serve<RestStream>(house, exchange, std::move(status), std::move(message), array, model);
  else
    serve<RestPredict>(house, exchange, std::move(status), std::move(message), array, model);
}

}  // namespace weir::grps
