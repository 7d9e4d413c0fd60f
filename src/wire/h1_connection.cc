// The connection of HTTP/1: the queue of pipelined requests and whose turn it is, what the socket took, time limits,
// drain and the end.
//
// A client that shuts down its sending side is taken to have left: answers that are complete still go out, calls that
// are running are cancelled (as nginx does), for a computation is dear.
#include <algorithm>
#include <utility>

#include "wire/guard.h"
#include "wire/h1.h"
#include "wire/service_guard.h"

namespace weir::wire {
namespace {

constexpr uint64_t kDiscardAtEnd = 1 << 20;                       // of whatever comes after the last request
constexpr size_t kSpare = 4;                                      // exchanges kept for reuse
constexpr uint64_t kKeptHead = 4096;                              // of whose requests the heads were no longer
constexpr base::Duration kH1ShortIdle = std::chrono::seconds(2);  // where memory is short

}  // namespace

bool RateWatch::too_slow(base::Time now, uint32_t rate, base::Duration period) {
  if (since_ == base::kNever) since_ = now, bytes_ = 0;
  base::Duration passed = now - since_;
  if (passed < period) return false;
  bool slow = bytes_ < uint64_t(rate) * uint64_t(std::chrono::duration_cast<std::chrono::seconds>(passed).count());
  since_ = now, bytes_ = 0;
  return slow;
}

H1Exchange& H1::enqueue() {
  if (spare_.empty()) {
    queue_.push_back(std::make_unique<H1Exchange>(*this));
  } else {
    queue_.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  H1Exchange& x = *queue_.back();
  if (queue_.size() - 1 == ended_) x.take_turn();
  return x;
}

void H1::pass_turn() {
  while (ended_ < queue_.size()) {
    H1Exchange& x = *queue_[ended_];
    if (!x.turn_) x.take_turn();
    if (!x.ended_) return;
    ++ended_;
    if (x.close_) return close_now();
  }
}

// May be called by a service's answer, so from inside any step of the reading: each looks at closing_ when it has
// called a service.
void H1::close_now() {
  closing_ = last_ = true;
  reading_ = Reading::kNothing;
  current_ = nullptr;
  drop_body();
}

void H1::close(std::unique_ptr<H1Exchange> x, bool complete) {
  x->gone_ = true;
  if (current_ == x.get()) current_ = nullptr;
  if (x->begun_) {
    if (!complete && x->record().code == base::Code::kOk) x->record().code = base::Code::kCancelled;
    tell_close(*x, x->listener(), complete);
    env_.intake.closed(*x);
  }
  x->clear();
  const uint64_t head = std::exchange(x->charged_, 0);
  heads_.give(head);
  if (spare_.size() < kSpare && head <= kKeptHead) spare_.push_back(std::move(x));
  if (queue_.empty()) idle_since_ = wire_.now();
}

// queue_[first, …) are over and will not be answered.
void H1::close_from(size_t first) {
  std::vector<std::unique_ptr<H1Exchange>> over;
  for (size_t i = first; i < queue_.size(); ++i) {
    queue_[i]->gone_ = true;
    over.push_back(std::move(queue_[i]));
  }
  queue_.resize(first);
  ended_ = std::min(ended_, first);
  current_ = nullptr;
  for (auto& x : over) close(std::move(x), false);
}

void H1::eof() {
  busy_ = true;
  close_now();
  drop_input();
  close_from(ended_);
  busy_ = false;
  announce();
}

void H1::closed() {
  busy_ = true;
  close_now();
  close_from(0);
  output_.clear();
  drop_input();
  busy_ = false;
}

void H1::consumed(size_t n) {
  busy_ = true;
  uint64_t before = output_.total();
  output_.consume(n);
  output_watch_.count(n);
  if (output_.empty()) output_watch_.stop();
  while (ended_ > 0 && queue_.front()->to_ <= output_.sent()) {
    std::unique_ptr<H1Exchange> x = std::move(queue_.front());
    queue_.erase(queue_.begin());
    --ended_;
    bool complete = !x->cut_;
    close(std::move(x), complete);
  }
  if (ended_ < queue_.size()) {
    H1Exchange& x = *queue_[ended_];
    x.small_.fit(x.backlog());
    if (x.above_ && x.backlog() < Exchange::kLowWater) {
      x.above_ = false;
      tell_drain(x);
    }
  }
  if (waiting() > 0) process({}), charge_input();
  busy_ = false;
  note_output(before);
}

void H1::note_output(uint64_t before) {
  if (output_.total() != before || (closing_ && output_.empty())) wire_.output_ready();
  go_on_if_paused();
}

void H1::go_on_if_paused() {
  if (current_ && collector_.paused()) wire_.tick_next_turn();
}

void H1::announce() {
  if (!busy_) wire_.output_ready();
}

bool H1::held_back() const {
  switch (reading_) {
    case Reading::kHead: return queue_.size() >= env_.limits.pipelined || output_.size() > Exchange::kHighWater;
    case Reading::kBody:
      if (!current_) return false;
      if (current_->plan_.body == BodyPlan::kStream) return current_->unconsumed_ >= env_.limits.stream_window;
      return collector_.state() == BodyCollector::State::kStalled;
    case Reading::kSlab: return true;
    case Reading::kRaw: return current_ && current_->unconsumed_ >= env_.limits.stream_window;
    case Reading::kNothing: return discarded_ > kDiscardAtEnd;
  }
  return false;
}

bool H1::wants_read() const { return !held_back(); }

bool H1::idle() const {
  return queue_.empty() && waiting() == 0 && output_.empty() &&
         (reading_ == Reading::kHead || reading_ == Reading::kNothing);
}

void H1::tick(base::Time now) {
  busy_ = true;
  uint64_t before = output_.total();
  settle_lost();
  if (current_ && collector_.state() == BodyCollector::State::kStalled) {
    auto state = collector_.retry();
    follow_body(state);
    if (state != BodyCollector::State::kStalled) body_settled(state);
    if (body_refusal_) fail_current(std::exchange(body_refusal_, {}));
  }
  if (waiting() > 0) process({}), charge_input();
  check_output(now);
  if (!closing_) check_input(now);
  if (queue_.empty() && waiting() == 0 && output_.empty() && now - idle_since_ > std::chrono::seconds(2)) {
    output_.trim();
    spare_.clear();
    scratch_ = std::string();
    head_text_ = {};
    input_ = std::string();
    input_at_ = 0;
    charge_input();
    heads_.rest();
  }
  busy_ = false;
  note_output(before);
}

uint64_t H1::held_for_answers() const {
  uint64_t held = 0;
  for (const auto& x : queue_) held += held_for_answer(*x);
  return held;
}

// A peer that does not take its answers is cut off, whatever it was sent.
void H1::check_output(base::Time now) {
  if (memory_) memory_->look();
  if (output_.empty()) return output_watch_.stop();
  DrainFloor floor = drain_floor(env_.limits, held_for_answers(), env_.slabs);
  if (!output_watch_.too_slow(now, floor.rate, floor.grace)) return;
  if (!queue_.empty()) queue_.front()->record().reject = reason::kSlowRead;
  output_.clear();
  close_now();
}

void H1::check_input(base::Time now) {
  const Limits& limits = env_.limits;
  if (reading_ == Reading::kHead) {
    if (head_since_ != base::kNever && now - head_since_ > limits.head)
      return refuse({408, reason::kSlowHeader, "the request head took too long"});
    base::Duration most = served_ ? limits.idle : limits.head;
    if (overloaded(base::Overload::kClose)) most = std::min(most, kH1ShortIdle);
    if (idle() && now - idle_since_ > most) close_now();
  } else if (reading_ == Reading::kRaw) {
    body_watch_.stop();
    if (now - moved_ > limits.stream_idle) fail_current({408, reason::kIdle, "nothing has come for too long"});
  } else if (reading_ == Reading::kBody) {
    // A request that is being answered while it comes is a conversation, in which either side may be silent for long.
    bool conversation = current_ && current_->headed_ && current_->plan_.body == BodyPlan::kStream;
    if (held_back() || conversation) {
      body_watch_.stop();
      if (!held_back() && now - moved_ > limits.stream_idle)
        fail_current({408, reason::kIdle, "nothing has come for too long"});
    } else if (uint32_t rate = floor_rate(limits.min_body_rate, collector_.reserved(), env_.slabs);
               body_watch_.too_slow(now, rate, limits.grace)) {
      fail_current({408, reason::kSlowBody, "the request body comes too slowly"});
    }
  }
}

void H1::drain(Drain step) {
  draining_ = true;
  if (step == Drain::kAnnounce) return;
  // A head that has begun to come is still answered.
  if (reading_ == Reading::kHead && waiting() == 0) close_after_queue();
  announce();
}

}  // namespace weir::wire
