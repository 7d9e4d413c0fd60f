#include "wire/baidu_std_calls.h"

#include <iterator>
#include <utility>

namespace weir::wire {

BaiduExchange& BaiduCalls::add(const BaiduRequest& request, std::string_view credential, size_t charged) {
  BaiduExchange::Owner& owner = *this;
  open_.push_back(std::make_unique<BaiduExchange>(owner, request, connection_.peer, credential));
  current_ = open_.back().get();
  current_->charged = charged;
  current_->name_client(connection_.env.proxies);
  return *current_;
}

void BaiduCalls::answer(BaiduExchange& x, std::string head, std::vector<base::Bytes> message) {
  size_t small = head.size();
  connection_.output.append(head);
  for (auto& piece : message) {
    small += piece.size() < base::kLeastCharged ? piece.size() : 0;
    connection_.output.append(std::move(piece));
  }
  (void)connection_.small.add(connection_.memory, small);  // where there is no room they go out all the same
  x.to = connection_.output.total();
  if (current_ == &x) current_ = nullptr;
  const auto at = std::find_if(open_.begin(), open_.end(), [&](const auto& one) { return one.get() == &x; });
  if (at == open_.end()) return;  // it is being closed
  answered_.push_back(std::move(*at));
  open_.erase(at);
  connection_.notify_output();
}

// The peer may have been held back for this one alone.
void BaiduCalls::consumed(BaiduExchange& x, size_t n) {
  const uint64_t window = connection_.env.limits.stream_window;
  const bool held = x.unconsumed >= window;
  x.unconsumed -= std::min<uint64_t>(n, x.unconsumed);
  if (held && x.unconsumed < window) connection_.wire.tick_soon();
}

void BaiduCalls::output_taken() {
  const uint64_t sent = connection_.output.sent();
  const auto last = std::find_if(answered_.begin(), answered_.end(), [&](const auto& x) { return x->to > sent; });
  Exchanges over(std::move_iterator(answered_.begin()), std::move_iterator(last));
  answered_.erase(answered_.begin(), last);
  close(over, true);
}

void BaiduCalls::abandon_marked() {
  for (size_t i = 0; i < open_.size();)
    if (BaiduExchange& x = *open_[i]; x.wants_abandon())
      x.abandon();  // it leaves the list
    else
      ++i;
}

void BaiduCalls::close(Exchanges& list, bool complete) {
  for (auto& x : std::exchange(list, {})) {
    if (current_ == x.get()) current_ = nullptr;
    x->close(connection_.env.intake, complete);
    connection_.heads.give(x->charged);
  }
  if (idle()) connection_.idle_since = connection_.wire.now();
}

void BaiduCalls::close_all() {
  close(open_, false);
  close(answered_, false);
}

uint64_t BaiduCalls::held_for_answers() const {
  uint64_t held = 0;
  for (const auto& x : answered_) held += held_for_answer(*x);
  return held;
}

void BaiduCalls::reject_first(std::string_view reason) {
  if (!answered_.empty()) answered_.front()->record().reject = reason;
}

}  // namespace weir::wire
