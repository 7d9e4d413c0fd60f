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
using std::chrono_literals::operator""ms;

constexpr base::Duration kRetryAfter = 5ms;

class Discard final : public ExchangeListener {
 public:
  void on_data(Exchange& exchange, std::span<const std::byte> bytes) override { exchange.consume(bytes.size()); }
  void on_close(Exchange&, bool) override {}
};

}  // namespace

std::unique_ptr<ExchangeListener> make_discard() { return std::make_unique<Discard>(); }

RpcCall::RpcCall(const RpcRoute& route, const RpcState& state, Exchange& exchange)
    : route_(route), state_(state), exchange_(exchange) {}

RpcCall::~RpcCall() { drop_timers(); }

void RpcCall::drop_timers() {
  for (base::TimerId* timer : {&deadline_timer_, &retry_timer_, &rate_timer_})
    if (*timer != base::TimerId::kNone) state_.env.cancel(std::exchange(*timer, base::TimerId::kNone));
}

void RpcCall::begin() {
  exchange_.record().protocol = route_.protocol;
  base::Status status = read_timeout();
  if (status.ok()) status = check_head();
  if (!status.ok()) return finish(status);
  if (deadline_ != base::kNever) {
    deadline_timer_ = state_.env.at(deadline_, [this] {
      deadline_timer_ = base::TimerId::kNone;
      break_off(base::failure(Code::kDeadlineExceeded, "deadline exceeded"));
    });
  }
  if (!one_request()) route_.target->open(*this);
}

base::Status RpcCall::read_timeout() {
  std::string_view text = metadata().find("grpc-timeout");
  if (!text.data()) return {};
  auto timeout = parse_grpc_timeout(text);
  if (!timeout) {
    exchange_.record().reject = reason::kGrpcTimeout;
    return base::failure(Code::kInternal, "malformed grpc-timeout");
  }
  if (timeout->count() == 0) return base::failure(Code::kDeadlineExceeded, "the deadline had passed on arrival");
  deadline_ = deadline_after(exchange_.now(), *timeout);
  return {};
}

void RpcCall::initial(std::string_view name, std::string_view value) { add_metadata(initial_, name, value); }
void RpcCall::trailing(std::string_view name, std::string_view value) { add_metadata(trailing_, name, value); }

void RpcCall::finish(const base::Status& status) {
  if (finished_) return;
  finished_ = true;
  request_ = {};
  drop_timers();
  if (state_.options.bodies) state_.options.bodies->leave(*this);
  exchange_.record().code = status.code;
  write_end(status);
  drop_request();
}

void RpcCall::break_off(const base::Status& status) {
  finish(status);
  tell_close();
}

void RpcCall::add_request_id(Fields& to, const base::Status& status, const Fields& with) const {
  std::string_view id = exchange_.record().request_id;
  if (!status.ok() && !id.empty() && !to.has(kRequestId) && !with.has(kRequestId)) to.add(kRequestId, id);
}

void RpcCall::tell_close() {
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
  if (!complete && !finished_) exchange_.record().code = Code::kCancelled;
  finished_ = true;
  tell_close();
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
  if (route_.kind == RpcKind::kUnary && deadline_timer_ != base::TimerId::kNone)
    state_.env.cancel(std::exchange(deadline_timer_, base::TimerId::kNone));
  guarded([this] { route_.target->call(*this, std::move(request_)); });
}

bool RpcCall::congested() {
  if (one_request()) return false;
  if (backlog() > Exchange::kHighWater) return true;  // on_drain() resumes
  if (!listener_ || !listener_->full()) return false;
  retry_soon();
  return true;
}

void RpcCall::came(size_t bytes, Owes owes) {
  follow_memory(owes);
  if (state_.options.min_body_rate == 0) return;
  floor_.add(bytes);
  if (owes == Owes::kNothing || finished_) return floor_.stop();
  floor_.start(state_.env.now());
  watch_rate();
}

// One timer while anything is owed; it is not moved for every message.
void RpcCall::watch_rate() {
  if (rate_timer_ != base::TimerId::kNone) return;
  rate_timer_ = state_.env.at(state_.env.now() + state_.options.grace, [this] {
    rate_timer_ = base::TimerId::kNone;
    if (!floor_.running()) return;
    uint32_t rate = floor_rate(state_.options.min_body_rate, reserved(), state_.slabs);
    if (!floor_.below(state_.env.now(), rate, state_.options.grace)) return watch_rate();
    exchange_.record().reject = reason::kSlowBody;
    break_off(base::failure(Code::kDeadlineExceeded, "the request message comes too slowly"));
  });
}

BodyOwner RpcCall::owner() const {
  const PeerInfo* peer = exchange_.request().peer;
  return {state_.options.bodies, peer ? peer->client.get() : nullptr};
}

// A message that holds slabs may have to give way, one that has none stands in line.
void RpcCall::follow_memory(Owes owes) {
  BodyMemory* memory = state_.options.bodies;
  if (!memory || starved_) return;
  if (owes == Owes::kRest && !finished_ && reserved() > 0)
    memory->moved(*this, owner().client);
  else
    memory->leave(*this);
}

void RpcCall::starved(uint64_t bytes) {
  starved_ = true;
  if (!state_.options.bodies) return retry_soon();
  state_.options.bodies->wait(*this, owner().client, bytes, deadline_);
}

void RpcCall::memory_came() {
  if (retry_timer_ != base::TimerId::kNone) state_.env.cancel(std::exchange(retry_timer_, base::TimerId::kNone));
  retry_at(state_.env.now());
}

void RpcCall::memory_lost(BodyMemory::Loss why) {
  bool silent = why == BodyMemory::Loss::kSilent;
  exchange_.record().reject = silent ? reason::kSlowBody : reason::kOverload;
  std::string_view text = silent ? kMemoryGivenAway : kNoMemoryInTime;
  guarded([&] { break_off(base::try_again(Code::kResourceExhausted, std::string(text))); });
}

void RpcCall::retry_soon() { retry_at(state_.env.now() + kRetryAfter); }

// The clock stands still within a turn: what is due later than now is not due in this one. A call that has had its own
// part goes behind those that have had none.
void RpcCall::go_on_next_turn() {
  const base::Duration later = work_ >= kWorkPerTurn ? base::Duration(std::chrono::microseconds(1)) : base::Duration(1);
  retry_at(state_.env.now() + later);
}

void RpcCall::retry_at(base::Time when) {
  if (retry_timer_ != base::TimerId::kNone) return;
  retry_timer_ = state_.env.at(when, [this] {
    retry_timer_ = base::TimerId::kNone;
    guarded([this] { resume(); });
  });
}

void RpcCall::enter_turn() {
  const base::Time now = state_.env.now();
  if (turn_ != now) turn_ = now, work_ = 0;
  if (state_.turn != now) state_.turn = now, state_.work = 0;
}

void RpcCall::spend(size_t work) {
  enter_turn();
  work_ += work;
  state_.work += work;
}

bool RpcCall::turn_is_full() {
  enter_turn();
  return work_ >= kWorkPerTurn || state_.work >= kAllWorkPerTurn;
}

bool RpcCall::spent() {
  if (!turn_is_full()) return false;
  go_on_next_turn();
  return true;
}

}  // namespace weir::wire
