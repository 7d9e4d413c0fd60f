// SocketRequest: one `response.create` of a WebSocket, as the POST to the same path with `stream: true` that it stands
// for. Its events go to the client as messages, one each; a long one in frames, as it is written.
//
//   {"type":"response.created","sequence_number":0,…}                                as in the stream of the POST
//   {"type":"error","status":400,"error":{"code","message","param","type"},          any answer that is no stream
//    "sequence_number":0,"code","message","param"}
//
// Reference: OpenAI's guide "WebSocket mode", which has `status` and `error`; its packages' type of the event,
// ResponseErrorEvent, has the members behind them. Where the POST's head has a Retry-After, `error.headers` has it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dialects/openai/responses/continuations.h"
#include "dialects/openai/state.h"
#include "wire/inner_exchange.h"
#include "wire/websocket.h"

namespace weir::openai::responses {

// {"type":"error",…} of what an answer's body says; `events`: how many have gone before.
std::string error_event(int status, std::string_view body, std::string_view retry_after, uint64_t events);

class SocketRequest final : public wire::InnerExchange {
 public:
  // The WebSocket that it has come on; outlives it.
  class Connection {
   public:
    virtual wire::Exchange& exchange() = 0;
    virtual Continuations& continuations() = 0;
    // JSON, one message; or a part of it, which `more` follows.
    virtual void send_event(std::string_view json, wire::WebSocket::More more = wire::WebSocket::More::kNo) = 0;
    // The request is over, and all of it is sent. Called in a turn of its own; may destroy it.
    virtual void on_request_over() = 0;

   protected:
    ~Connection() = default;
  };
  // `fields`: those of the opening handshake that say who asks.
  SocketRequest(OpenAiState& state, Connection& connection, const wire::Fields& fields, base::Bytes message);
  ~SocketRequest() override { close(); }

  Continuations& continuations() const { return connection_.continuations(); }

  // Exchange: what goes out waits with the connection.
  size_t backlog() const override { return connection_.exchange().backlog(); }
  void call_on_drain() override { connection_.exchange().call_on_drain(); }
  base::Ticket ticket() override { return connection_.exchange().ticket(); }

 private:
  // InnerExchange
  void take_head(const wire::Response& response) override;
  void take_body(base::Bytes piece) override;
  void answer_over(Answered how) override;

  void send_events(std::string_view events);
  enum class LineEnd : uint8_t { kNotYet, kHere };
  void send_line(std::string_view part, LineEnd end);
  void fail(Answered how);
  void forget_previous();

  Connection& connection_;
  bool streams_ = false, failed_ = false;
  bool in_data_ = false;     // of an event, whose end has not come
  std::string line_;         // of an event, another, as far as it has come
  uint64_t events_ = 0;      // that were sent
  std::string retry_after_;  // of an answer that is no stream, as the next
  std::string answer_;
};

}  // namespace weir::openai::responses
