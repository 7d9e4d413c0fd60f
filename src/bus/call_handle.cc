#include "bus/call_handle.h"

#include <utility>

#include "msg/credit.h"

namespace weir::bus {

msg::Call& CallHandle::fill() {
  if (state_ == State::kNone) {
    call_ = bus_.make_call();
    state_ = State::kFilling;
    owed_ = window_ = 0;
    costs_.clear();
  }
  return *call_;
}

void CallHandle::grant(int32_t window) {
  fill().credit.store(window, std::memory_order_relaxed);
  window_ = window;
}

base::Status CallHandle::submit(Served& served, msg::Sink& sink, base::Ticket ticket) {
  msg::Call& call = fill();
  call.sink = &sink;
  call.ticket = std::move(ticket);
  auto status = bus_.submit(&call, served);
  if (status.ok()) state_ = State::kRunning;
  return status;
}

void CallHandle::follow(const msg::Event& event) {
  msg::Progress& progress = call_->progress;
  if (auto* token = std::get_if<msg::Token>(&event.what)) {
    progress.generated_tokens += !token->prefill;
    progress.moves += token->moved;
  } else if (auto* done = std::get_if<msg::Done>(&event.what)) {
    progress.prompt_tokens = done->prompt_tokens, progress.cached_tokens = done->cached_tokens;
    progress.generated_tokens = done->completion_tokens;
    progress.finish = done->finish;
  } else if (auto* failed = std::get_if<msg::Failed>(&event.what); failed && failed->final) {
    progress.code = failed->status.code;
  }
}

bool CallHandle::on_event(const msg::Event& event) {
  follow(event);
  bool last = event.last();
  if (last) state_ = State::kNone;
  if (window_ > 0 && !last && !std::holds_alternative<msg::Token>(event.what)) costs_.push_back(msg::credit_of(event));
  return last;
}

void CallHandle::owe() {
  if (costs_.empty()) return void(++owed_);
  owed_ += costs_.front();
  costs_.erase(costs_.begin());
}

void CallHandle::repay() {
  if (running() && window_ > 0 && owed_ >= window_ / 4) bus_.add_credit(call_, std::exchange(owed_, 0));
}

void CallHandle::finish() {
  if (!running()) return abandon();
  state_ = State::kNone;
  bus_.finish(call_);
}

void CallHandle::abandon() {
  State was = std::exchange(state_, State::kNone);
  if (was == State::kFilling) bus_.discard(call_);
  if (was == State::kRunning) bus_.abandon(call_);
}

void CallHandle::cancel() {
  if (running()) bus_.cancel(call_);
}

base::Status no_answer() { return base::failure(base::Code::kInternal, "the model gave no answer"); }

}  // namespace weir::bus
