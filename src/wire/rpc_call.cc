#include "wire/rpc_call.h"

#include <chrono>
#include <string>
#include <utility>

#include "base/attempt.h"
#include "wire/grpc_status.h"
#include "wire/grpc_timeout.h"
#include "wire/limits.h"

namespace weir::wire {
namespace {

using base::Code;

BodyOwner owner_of(const RpcState& state, Exchange& exchange) {
  const PeerInfo* peer = exchange.request().peer;
  return {state.options.bodies, peer ? peer->client.get() : nullptr};
}

class Discard final : public ExchangeListener {
 public:
  void on_data(Exchange& exchange, std::span<const std::byte> bytes) override { exchange.consume(bytes.size()); }
  void on_close(Exchange&, bool) override {}
};

}  // namespace

std::unique_ptr<ExchangeListener> make_discard() { return std::make_unique<Discard>(); }

void add_request_id(const Exchange& exchange, Fields& to, const base::Status& status, const Fields& with) {
  std::string_view id = exchange.record().request_id;
  if (!status.ok() && !id.empty() && !to.has(kRequestId) && !with.has(kRequestId)) to.add(kRequestId, id);
}

RpcCall::RpcCall(const RpcRoute& route, const RpcState& state, Exchange& exchange)
    : route_(route),
      state_(state),
      exchange_(exchange),
      turns_(state.env, state.turn, [this] { guarded([this] { resume(); }); }),
      pace_(state.env, state.slabs,
            {state.options.min_body_rate, state.options.grace, owner_of(state, exchange), exchange.pace}, *this) {}

RpcCall::~RpcCall() { drop_deadline(); }

void RpcCall::drop_deadline() {
  if (deadline_timer_ != base::TimerId::kNone) state_.env.cancel(std::exchange(deadline_timer_, base::TimerId::kNone));
}

void RpcCall::begin() {
  exchange_.record().protocol = route_.protocol;
  if (const base::Status status = read_timeout(); !status.ok()) return finish(status);
  if (const base::Status status = check_head(); !status.ok()) return finish(status);
  if (deadline_ != base::kNever) {
    deadline_timer_ = state_.env.at(deadline_, [this] {
      deadline_timer_ = base::TimerId::kNone;
      break_off(base::failure(Code::kDeadlineExceeded, "deadline exceeded"));
    });
  }
  if (!one_request()) route_.target->open(*this);
}

RpcCall::TimeoutField RpcCall::timeout_field() const { return {"grpc-timeout", parse_grpc_timeout, Code::kInternal}; }

base::Status RpcCall::read_timeout() {
  const TimeoutField field = timeout_field();
  std::string_view text = metadata().find(field.name);
  if (!text.data()) return {};
  auto timeout = field.parse(text);
  if (!timeout) {
    exchange_.record().reject = reason::kGrpcTimeout;
    return base::failure(field.malformed, "malformed " + std::string(field.name));
  }
  if (timeout->count() == 0) return base::failure(Code::kDeadlineExceeded, "the deadline had passed on arrival");
  exchange_.record().deadline = deadline_ = deadline_after(exchange_.now(), *timeout);
  return {};
}

void RpcCall::initial(std::string_view name, std::string_view value) { add_metadata(initial_, name, value); }
void RpcCall::trailing(std::string_view name, std::string_view value) { add_metadata(trailing_, name, value); }

void RpcCall::finish(const base::Status& status) {
  if (finished_) return;
  finished_ = true;
  request_ = {};
  drop_deadline();
  turns_.cancel();
  pace_.stop();
  exchange_.record().set_outcome(status);
  write_end(status);
  drop_request();
}

void RpcCall::break_off(const base::Status& status) {
  finish(status);
  notify_close();
}

void RpcCall::notify_close() {
  if (std::exchange(told_close_, true)) return;
  if (listener_) listener_->on_close(*this);
}

void RpcCall::on_drain(Exchange&) {
  guarded([this] {
    if (listener_ && !told_close_) listener_->on_drain(*this);
    resume();
  });
}

void RpcCall::on_close(Exchange&, bool complete) {
  // Where the call has thrown, that is there already.
  Code& code = exchange_.record().code;
  if (!complete && !finished_ && code == Code::kOk) code = Code::kCancelled;
  finished_ = true;
  notify_close();
}

void RpcCall::threw(const base::Status& status) {
  if (status.code == Code::kResourceExhausted) exchange_.record().reject = reason::kOverload;
  break_off(status);
}

void RpcCall::deliver(base::Bytes message) {
  if (finished_) return;
  if (!one_request()) {
    if (listener_) guarded([&] { listener_->on_message(*this, std::move(message)); });
    return;
  }
  if (std::exchange(has_request_, true))
    return break_off(base::failure(Code::kUnimplemented, route_.method + " takes one request message, but got more"));
  request_ = std::move(message);
}

void RpcCall::half_close() {
  if (finished_) return;
  if (!one_request()) {
    if (listener_) guarded([this] { listener_->on_half_close(*this); });
    return;
  }
  if (!has_request_)
    return break_off(base::failure(Code::kUnimplemented, route_.method + " takes one request message, but got none"));
  if (exchange_.now() >= deadline_) return break_off(base::failure(Code::kDeadlineExceeded, "deadline exceeded"));
  // From here on the bus enforces it, with the Call.
  if (route_.kind == RpcKind::kUnary) drop_deadline();
  guarded([this] { route_.target->call(*this, std::move(request_)); });
}

bool RpcCall::congested() {
  if (one_request()) return false;
  if (backlog() > Exchange::kHighWater) return true;  // on_drain() resumes
  if (!listener_ || !listener_->full()) return false;
  if (!listener_->wakes()) turns_.resume_soon();
  return true;
}

void RpcCall::wake() {
  if (!finished_) turns_.resume_now();
}

void RpcCall::give_up(std::string_view reject, const base::Status& why) {
  exchange_.record().reject = reject;
  guarded([&] { break_off(why); });
}

}  // namespace weir::wire
