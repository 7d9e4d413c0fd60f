// ResponseSocket: OpenAI's WebSocket mode, GET /v1/responses with an opening handshake. Each `response.create` of the
// client is the request of a response (socket_request.h); they run one after the other, in their order.
//
// Reference: developers.openai.com, "WebSocket Mode". Text messages alone. A message that is no request has an `error`
// event, and the connection goes on; what breaks RFC 6455, and a message above openai.max_body, end it. So do, once
// the response is over that is being made then:
//
//   openai.websocket_age     an event of the code websocket_connection_limit_reached, and 1001
//   the server's end         1001
//
// While one response is made, kMostWaiting messages wait at most. None is begun to be read while those that wait have
// openai.max_body bytes together, so with the last one they have less than twice that. Beyond that the client is held
// back. So is one that does not take what is sent: nothing is read of it, and no response is begun, until it does.
// A client that is silent is asked for a sign of life; one that gives none has gone, and so have its requests.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string_view>

#include "dialects/openai/responses/continuations.h"
#include "dialects/openai/responses/socket_request.h"
#include "dialects/openai/state.h"
#include "wire/call_turns.h"
#include "wire/router.h"
#include "wire/websocket.h"
#include "wire/websocket_input.h"

namespace weir::openai::responses {

class ResponseSocket final : public wire::ExchangeListener, SocketRequest::Connection, wire::WebSocket::Side {
 public:
  static constexpr size_t kMostWaiting = 16;
  // A client that has sent nothing for so long is sent a PING.
  static constexpr base::Duration kQuiet = std::chrono::seconds(15);
  // It has gone if it has sent nothing for so long, and has been sent nothing but PINGs.
  static constexpr base::Duration kGone = std::chrono::seconds(60);

  // The handshake has been answered. The Exchange owns it.
  ResponseSocket(OpenAiState& state, wire::Exchange& exchange);
  ~ResponseSocket() override;

  // The server is going.
  void drain() { end_soon(Ending::kDrain); }

  // wire::ExchangeListener
  void on_data(wire::Exchange&, std::span<const std::byte> piece) override;
  void on_end(wire::Exchange&) override { leave(); }
  void on_drain(wire::Exchange&) override;
  void on_close(wire::Exchange&, bool complete) override;
  uint64_t held_for_answer() const override;

 private:
  enum class Ending : uint8_t { kNot, kAge, kDrain };

  // SocketRequest::Connection
  wire::Exchange& exchange() override { return exchange_; }
  Continuations& continuations() override { return continuations_; }
  void send_event(std::string_view json, wire::WebSocket::More more = wire::WebSocket::More::kNo) override;
  void on_request_over() override;
  // wire::WebSocket::Side
  void on_message(wire::WebSocket::Kind kind, base::Bytes message) override;
  void on_control() override { turns_.spend(wire::kWorkPerFrame); }
  bool full() override;
  void on_closing(uint16_t code) override;
  void write(base::Bytes bytes) override { exchange_.body(std::move(bytes)); }

  void read_on();
  void start_next();
  void end_soon(Ending why);
  void finish();
  void leave();
  void stop();
  void watch_later();
  void watch();

  OpenAiState& state_;
  wire::Exchange& exchange_;
  const wire::Fields fields_;  // of the handshake, for its requests
  Continuations continuations_;
  wire::WebSocket socket_;
  wire::CallTurns turns_;
  wire::WebSocketInput input_;
  std::deque<base::Bytes> waiting_;
  uint64_t waiting_bytes_ = 0;
  std::unique_ptr<SocketRequest> running_;
  Ending ending_ = Ending::kNot;
  bool over_ = false;
  base::Time received_, sent_;  // when the client's last bytes came, when its last event went
  base::TimerId age_ = base::TimerId::kNone, watch_ = base::TimerId::kNone;
};

// The server is going.
void drain_sockets(OpenAiState& state);

// GET {prefix}/responses. Anything but an opening handshake is 426.
void open_socket(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

}  // namespace weir::openai::responses
