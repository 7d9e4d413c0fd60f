// A body becomes a request: here where it is short, by a worker where it is long.
#pragma once

#include <memory>
#include <utility>

#include "base/attempt.h"
#include "dialects/openai/api_error.h"
#include "dialects/openai/state.h"
#include "wire/offload.h"

namespace weir::openai {

// Request: what is read. Read: ApiError(std::string_view body, Request&), on any thread.
template <class Request, class Read>
class ReadBody final : public base::OffloadTask {
 public:
  ReadBody(base::Bytes body, Read read) : body_(std::move(body)), read_(std::move(read)) {}
  void run() override {
    auto thrown = base::attempt("reading a request", [this] { error = read_(body_.view(), request); });
    if (!thrown.ok()) error = refuse(thrown);
  }

  ApiError error;  // after run(), as the next
  Request request;

 private:
  const base::Bytes body_;
  const Read read_;
};

// Answers with the refusal, or goes on with Then: void(OpenAiState&, Exchange&, Request&&), at once or in a later turn.
// Where it is later, the Exchange has had another ExchangeListener meanwhile. `body`: what is read; `work`: as much as
// to read so many bytes once.
template <class Request, class Read, class Then>
void read_text(OpenAiState& state, wire::Exchange& exchange, const base::Bytes& body, size_t work, Read read,
               Then then) {
  if (!state.options.offload || work <= wire::kLongBody) {
    Request request;
    if (ApiError bad = read(body.view(), request); !bad.ok()) return respond(exchange, bad);
    return then(state, exchange, std::move(request));
  }
  auto done = [&state, &exchange, then](const base::Status& status, std::unique_ptr<base::OffloadTask> task) {
    if (!status.ok()) return respond(exchange, refuse(status));
    auto& made = static_cast<ReadBody<Request, Read>&>(*task);
    if (!made.error.ok()) return respond(exchange, made.error);
    then(state, exchange, std::move(made.request));
  };
  wire::run_on_worker(*state.options.offload, std::make_unique<ReadBody<Request, Read>>(body, std::move(read)), work,
                      wire::Offload::Part::kRequest, exchange, std::move(done));
}

// The same of the request's body, which `read` reads once (JsonCursor).
template <class Request, class Read, class Then>
void read_body(OpenAiState& state, wire::Exchange& exchange, Read read, Then then) {
  const base::Bytes& body = exchange.content();
  read_text<Request>(state, exchange, body, body.size(), std::move(read), std::move(then));
}

// The same where `read` makes a document of it (translation.h). `more`: bytes of other JSON of which it makes one.
template <class Request, class Read, class Then>
void read_document(OpenAiState& state, wire::Exchange& exchange, Read read, Then then, size_t more = 0) {
  const base::Bytes& body = exchange.content();
  const size_t work = wire::work_of_document(body.size() + more);
  read_text<Request>(state, exchange, body, work, std::move(read), std::move(then));
}

}  // namespace weir::openai
