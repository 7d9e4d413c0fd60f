// A body becomes a request: here where it is short, by a worker where it is long.
#pragma once

#include <memory>
#include <utility>

#include "base/attempt.h"
#include "dialects/openai/house.h"
#include "dialects/openai/refusal.h"
#include "wire/errands.h"

namespace weir::openai {

// Request: what is read. Read: Refusal(std::string_view body, Request&), on any thread.
template <class Request, class Read>
class ReadBody final : public base::Errand {
 public:
  ReadBody(base::Bytes body, Read read) : body_(std::move(body)), read_(std::move(read)) {}
  void run() override {
    auto thrown = base::attempt("reading a request", [this] { refusal = read_(body_.view(), request); });
    if (!thrown.ok()) refusal = refuse(thrown);
  }

  Refusal refusal;  // after run(), as the next
  Request request;

 private:
  const base::Bytes body_;
  const Read read_;
};

// Answers with the refusal, or goes on with Then: void(House&, Exchange&, Request&&), at once or in a later turn. Where
// it is later, the Exchange has had another Reader meanwhile.
template <class Request, class Read, class Then>
void read_body(House& house, wire::Exchange& exchange, Read read, Then then) {
  const base::Bytes& body = exchange.content();
  if (!house.options.errands || body.size() <= wire::kLongBody) {
    Request request;
    if (Refusal bad = read(body.view(), request); !bad.ok()) return respond(exchange, bad);
    return then(house, exchange, std::move(request));
  }
  auto done = [&house, &exchange, then](const base::Status& status, std::unique_ptr<base::Errand> errand) {
    if (!status.ok()) return respond(exchange, refuse(status));
    auto& made = static_cast<ReadBody<Request, Read>&>(*errand);
    if (!made.refusal.ok()) return respond(exchange, made.refusal);
    then(house, exchange, std::move(made.request));
  };
  wire::send_away(*house.options.errands, std::make_unique<ReadBody<Request, Read>>(body, std::move(read)), body.size(),
                  wire::Errands::Part::kRequest, exchange, std::move(done));
}

}  // namespace weir::openai
