#include "wire/websocket.h"

#include <algorithm>
#include <utility>

#include "dialects/evergreen/carriers.h"
#include "dialects/evergreen/json_carrier.h"
#include "wire/websocket_input.h"

namespace weir::evergreen {
namespace {

using base::Code;
using base::Status;
using wire::Exchange;
using wire::WebSocket;

uint16_t close_code_of(Code code) {
  switch (code) {
    case Code::kOk: return wire::close_code::kNormal;
    case Code::kInternal:
    case Code::kUnknown:
    case Code::kDataLoss: return wire::close_code::kInternal;
    case Code::kUnavailable: return wire::close_code::kTryAgain;
    default: return wire::close_code::kPolicy;
  }
}

class SocketSession final : public JsonCarrier, WebSocket::Side {
 public:
  SocketSession(EvergreenState& state, Exchange& exchange)
      : JsonCarrier(state, exchange),
        socket_(*this, state.slabs, state.options.max_message, {state.options.bodies, client()}) {}

  void on_data(Exchange&, std::span<const std::byte> piece) override {
    input_bytes_.add(piece);
    read_held();
  }
  // The client has ended the stream without a close frame.
  void on_end(Exchange&) override {
    session_.leave();
    exchange_.end();
  }

 private:
  void read_held() override {
    turns_.cancel();
    if (input_bytes_.read() == wire::WebSocketInput::Left::kFull) read_held_later();
  }

  // WebSocket::Side
  void on_message(WebSocket::Kind kind, base::Bytes message) override {
    form_ = kind;
    const size_t size = message.size();
    turns_.spend(kCarrierWorkPerMessage);
    if (kind == WebSocket::Kind::kBinary) return session_.on_message(message);
    input_.read(std::move(message));
    if (!input_.busy()) turns_.spend(size);
  }
  void on_control() override { turns_.spend(wire::kWorkPerFrame); }
  // JsonInput::Listener
  std::string on_bad_message() override {
    bad_message_ = true;
    return "the message is not JSON: ";
  }
  bool full() override { return input_.busy() || session_.full() || turns_.spent(); }
  void on_closing(uint16_t code) override {
    bool broken =
        code != wire::close_code::kNormal && code != wire::close_code::kNone && code != wire::close_code::kGoingAway;
    bool short_of_memory = code == wire::close_code::kTryAgain;
    if (broken) exchange_.record().code = short_of_memory ? Code::kResourceExhausted : Code::kInvalidArgument;
    output_.stop();
    // A page that is left says "going away", a library whose PING has no answer in time 1011.
    namespace close_code = wire::close_code;
    const bool for_good = code == close_code::kNormal || code == close_code::kNone || code == close_code::kProtocol ||
                          code == close_code::kNotUtf8;
    session_.leave(for_good ? Session::Leaves::kForGood : Session::Leaves::kLost);
    exchange_.end();
  }
  void write(base::Bytes bytes) override { exchange_.body(std::move(bytes)); }

  // Carrier
  void send(const OutFragment& fragment) override {
    // A JSON message that is not yet written whole goes first: no other message may come between its frames.
    if (form_ == WebSocket::Kind::kBinary && !output_.busy()) return socket_.send(form_, write_binary(fragment));
    output_.send(fragment);
  }
  void close_carrier(const Status& status) override {
    bool draining = session_.draining() && status.code == Code::kUnavailable;
    uint16_t code = draining ? wire::close_code::kGoingAway : close_code_of(status.code);
    socket_.close(bad_message_ ? wire::close_code::kNotUtf8 : code, status.text);
  }
  // JsonOutput::Listener
  void on_text(std::string text, More more) override {
    std::vector<base::Bytes> pieces;
    pieces.push_back(base::Bytes::adopt(std::move(text)));
    socket_.send(WebSocket::Kind::kText, std::move(pieces),
                 more == More::kYes ? WebSocket::More::kYes : WebSocket::More::kNo);
  }

  WebSocket::Kind form_ = WebSocket::Kind::kText;
  bool bad_message_ = false;
  WebSocket socket_;
  wire::WebSocketInput input_bytes_{exchange_, socket_, state_.options.bodies, turns_};
};

class Socket final : public wire::Service, public Endpoint {
 public:
  explicit Socket(EvergreenState& state) : state_(state) {}
  void serve(Exchange& exchange, const wire::PathArgs&) override {
    if (wire::accept_websocket(exchange)) exchange.attach(std::make_unique<SocketSession>(state_, exchange));
  }

 private:
  EvergreenState& state_;
};

}  // namespace

void add_websocket(EvergreenState& state, wire::Router& router, Endpoints& endpoints) {
  auto service = std::make_unique<Socket>(state);
  router.add({"GET",
              kPath,
              service.get(),
              kWebSocket,
              {wire::BodyPlan::kStream, UINT64_MAX},
              wire::Permission::kInfer,
              wire::Upgrade::kWebSocket});
  endpoints.push_back(std::move(service));
}

}  // namespace weir::evergreen
