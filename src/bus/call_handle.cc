#include "bus/call_handle.h"

#include <utility>

namespace weir::bus {

msg::Call& CallHandle::fill() {
  if (state_ == State::kNone) {
    call_ = bus_.make_call();
    state_ = State::kFilling;
  }
  return *call_;
}

base::Status CallHandle::submit(Served& served, msg::Sink& sink, base::Ticket ticket) {
  msg::Call& call = fill();
  call.sink = &sink;
  call.ticket = std::move(ticket);
  auto status = bus_.submit(&call, served);
  if (status.ok()) state_ = State::kRunning;
  return status;
}

base::Status CallHandle::send(std::unique_ptr<OffloadTask> task, size_t bytes, Served& served, msg::Sink& sink,
                             base::Ticket ticket, uint64_t tenant, Admission admission) {
  leave();
  auto sent = bus_.send(std::move(task), bytes, served, sink, std::move(ticket), tenant, admission);
  if (!sent) return std::move(sent).error();
  call_ = *sent;
  state_ = State::kRunning;
  return {};
}

bool CallHandle::ended(const msg::Event& event) {
  bool last = event.last();
  if (last) state_ = State::kNone;
  return last;
}

void CallHandle::leave() {
  State was = std::exchange(state_, State::kNone);
  if (was == State::kFilling) bus_.discard(call_);
  if (was == State::kRunning) bus_.abandon(call_);
}

void CallHandle::enough() {
  if (!running()) return leave();
  state_ = State::kNone;
  bus_.enough(call_);
}

void CallHandle::add_credit(int32_t events) {
  if (running() && events > 0) bus_.add_credit(call_, events);
}

}  // namespace weir::bus
