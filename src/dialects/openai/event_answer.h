// EventAnswer: an Answer that is Server-Sent Events where the request streams, as each API has them.
#pragma once

#include <string>
#include <utility>

#include "dialects/openai/answer.h"
#include "dialects/openai/event_stream.h"
#include "wire/sse.h"

namespace weir::openai {

class EventAnswer : public Answer {
 public:
  EventAnswer(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request request)
      : Answer(state, exchange, kind, std::move(request)) {
    if (request_.stream) stream_.start();
  }
  void on_close(wire::Exchange&, bool) override {
    stream_.stop();
    leave();
  }

 protected:
  // Called once, before the head of a stream.
  virtual void opening() {}
  // Writes what is sent in silence.
  virtual void sign_life(std::string& events) { wire::append_sse_comment(events); }
  // The stream has begun and cannot go on: ends it.
  virtual void break_off(const ApiError& error) = 0;

  void failed(const base::Status& status) final { fail_with(refuse(status)); }
  void fail_with(const ApiError& error) {
    stream_.stop();
    if (!exchange_.responding()) return respond(exchange_, error);
    exchange_.record().set_outcome(error.status);
    break_off(error);
  }

  EventStream stream_{state_.bus.env(), exchange_, [this] { opening(); },
                      [this](std::string& events) { sign_life(events); }};
};

}  // namespace weir::openai
