#include "dialects/openai/responses/socket.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/memory_ledger.h"
#include "base/units.h"
#include "dialects/openai/api_error.h"
#include "marshal/tenant.h"
#include "wire/offload.h"
#include "wire/service_guard.h"

namespace weir::openai::responses {
namespace {

namespace close_code = wire::close_code;
using wire::Exchange;
using wire::WebSocket;

// Those of the handshake that are about the handshake, its connection and its answer, or name the one request.
constexpr std::array<std::string_view, 17> kOfHandshake{
    "connection",     "upgrade",          "sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions",
    "content-length", "content-encoding", "content-type",      "transfer-encoding",     "te",
    "expect",         "accept",           "accept-encoding",   "x-request-id",          "request-id",
    "traceparent",    "tracestate"};

// The others say who asks. Each request of a traced handshake is a part of the handshake's trace.
wire::Fields fields_of(const Exchange& exchange) {
  const wire::Fields& from = exchange.request().fields;
  wire::Fields out;
  out.add("content-type", "application/json");
  for (size_t i = 0; i < from.size(); ++i)
    if (std::find(kOfHandshake.begin(), kOfHandshake.end(), from[i].name) == kOfHandshake.end())
      out.add(from[i].name, from[i].value);
  if (const std::string& parent = exchange.record().traceparent; !parent.empty()) out.add("traceparent", parent);
  return out;
}

base::Client* client_of(const Exchange& exchange) {
  const wire::PeerInfo* peer = exchange.request().peer;
  return peer ? peer->client.get() : nullptr;
}

std::string limit_reached(base::Duration age) {
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(age).count();
  return R"({"error":{"type":"invalid_request_error","code":"websocket_connection_limit_reached","message":")"
         "Responses websocket connection limit reached (" +
         (age < std::chrono::minutes(1) ? base::show_duration(age) : std::to_string(minutes) + " minutes") +
         R"(). Create a new websocket connection to continue.","param":null}})";
}

}  // namespace

ResponseSocket::ResponseSocket(OpenAiState& state, Exchange& exchange)
    : state_(state),
      exchange_(exchange),
      fields_(fields_of(exchange)),
      continuations_(state, marshal::tenant_of(exchange.request())),
      socket_(*this, *state.options.slabs, state.options.max_body, {state.options.bodies, client_of(exchange)}),
      turns_(state.bus.env(), state.socket_turn, [this] { wire::guarded(exchange_, [this] { read_on(); }); }),
      input_(exchange, socket_, state.options.bodies, turns_) {
  base::Env& env = state_.bus.env();
  received_ = sent_ = env.now();
  state_.sockets.insert(this);
  age_ = env.at(env.now() + state_.options.websocket_age, [this] {
    age_ = base::TimerId::kNone;
    wire::guarded(exchange_, [this] { end_soon(Ending::kAge); });
  });
  watch_later();
}

ResponseSocket::~ResponseSocket() { stop(); }

// ---- What comes

void ResponseSocket::on_data(Exchange&, std::span<const std::byte> piece) {
  received_ = state_.bus.env().now();
  input_.add(piece);
  read_on();
}

// When it is full, what has made it so calls this again.
void ResponseSocket::read_on() {
  turns_.cancel();
  if (!running_) start_next();
  (void)input_.read();
}

bool ResponseSocket::full() {
  return waiting_.size() >= kMostWaiting || waiting_bytes_ >= state_.options.max_body || !exchange_.has_room() ||
         turns_.spent();
}

void ResponseSocket::on_message(WebSocket::Kind kind, base::Bytes message) {
  turns_.spend(wire::kWorkPerMessage);
  if (ending_ != Ending::kNot || over_) return;
  if (kind == WebSocket::Kind::kBinary) {
    socket_.close(close_code::kUnsupported, "messages are text");
    return on_closing(close_code::kUnsupported);
  }
  if (!base::charge(exchange_.memory(), base::MemoryKind::kInput, message))
    return socket_.refuse_memory("there is no memory for the message; try again later");
  waiting_bytes_ += message.size();
  waiting_.push_back(std::move(message));
  if (!running_) start_next();
}

void ResponseSocket::start_next() {
  if (waiting_.empty() || over_ || !exchange_.has_room()) return;
  base::Bytes message = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_bytes_ -= message.size();
  turns_.spend(wire::kWorkPerMessage + std::min<size_t>(message.size(), wire::kLongBody));
  SocketRequest::Connection& connection = *this;
  running_ = std::make_unique<SocketRequest>(state_, connection, fields_, std::move(message));
  running_->start();
}

void ResponseSocket::on_closing(uint16_t code) {
  const bool sound = code == close_code::kNormal || code == close_code::kNone || code == close_code::kGoingAway;
  const bool short_of_memory = code == close_code::kTryAgain;
  if (!sound) exchange_.record().code = short_of_memory ? base::Code::kResourceExhausted : base::Code::kInvalidArgument;
  leave();
}

// ---- What goes

void ResponseSocket::send_event(std::string_view json, WebSocket::More more) {
  sent_ = state_.bus.env().now();
  std::vector<base::Bytes> pieces;
  pieces.push_back(base::Bytes::copy_of(json));
  socket_.send(WebSocket::Kind::kText, std::move(pieces), more);
}

// Reading, and the next request, may have waited for this: they go on in a turn of their own.
void ResponseSocket::on_drain(Exchange&) {
  if (running_) wire::notify_drain(*running_);
  if (!over_) turns_.resume_now();
}

uint64_t ResponseSocket::held_for_answer() const {
  if (!running_) return 0;
  const wire::ExchangeListener* listener = running_->listener();
  return running_->content().size() + (listener ? listener->held_for_answer() : 0);
}

// In the turn of the request, which this destroys.
void ResponseSocket::on_request_over() {
  wire::guarded(exchange_, [this] {
    running_.reset();
    if (over_) return;
    if (ending_ != Ending::kNot) return finish();
    if (!turns_.spent()) read_on();
  });
}

// ---- The end

void ResponseSocket::end_soon(Ending why) {
  if (over_ || ending_ != Ending::kNot) return;
  ending_ = why;
  waiting_.clear();
  waiting_bytes_ = 0;
  if (!running_) finish();
}

void ResponseSocket::finish() {
  if (ending_ == Ending::kAge) send_event(error_event(400, limit_reached(state_.options.websocket_age), {}, 0));
  socket_.close(close_code::kGoingAway,
                ending_ == Ending::kAge ? "the connection is too old (openai.websocket_age)" : "the server is going");
  leave();
}

// Nothing more comes, and nothing more goes.
void ResponseSocket::leave() {
  if (over_) return;
  stop();
  exchange_.end();
}

void ResponseSocket::on_close(Exchange&, bool) { stop(); }

void ResponseSocket::stop() {
  over_ = true;
  base::Env& env = state_.bus.env();
  env.cancel(std::exchange(age_, base::TimerId::kNone));
  env.cancel(std::exchange(watch_, base::TimerId::kNone));
  turns_.cancel();
  state_.sockets.erase(this);
  waiting_.clear();
  running_.reset();
}

// ---- Signs of life

void ResponseSocket::watch_later() {
  watch_ = state_.bus.env().at(state_.bus.env().now() + kQuiet, [this] {
    watch_ = base::TimerId::kNone;
    wire::guarded(exchange_, [this] { watch(); });
  });
}

// A client that is held back, or has to take something first, need not have read a PING.
void ResponseSocket::watch() {
  const base::Time now = state_.bus.env().now();
  if (!input_.empty()) received_ = now;
  if (exchange_.backlog() > 0) sent_ = now;
  if (now - std::max(received_, sent_) >= kGone) {
    stop();
    exchange_.record().code = base::Code::kCancelled;
    return exchange_.reset(wire::Reset::kCancel);
  }
  if (now - received_ >= kQuiet) socket_.ping();
  watch_later();
}

void drain_sockets(OpenAiState& state) {
  state.draining = true;
  const std::vector<ResponseSocket*> open(state.sockets.begin(), state.sockets.end());
  for (ResponseSocket* socket : open) socket->drain();
}

void open_socket(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  if (!wire::accept_websocket(exchange)) return;
  give_back_place(exchange);
  auto socket = std::make_unique<ResponseSocket>(state, exchange);
  ResponseSocket& open = *socket;
  exchange.attach(std::move(socket));
  if (state.draining) open.drain();
}

}  // namespace weir::openai::responses
