#include "wire/call_turns.h"

#include <chrono>

namespace weir::wire {
namespace {

constexpr base::Duration kRetryAfter = std::chrono::milliseconds(5);

}  // namespace

void CallTurns::enter() {
  const base::Time now = env_.now();
  if (turn_ != now) turn_ = now, work_ = 0;
  if (shard_.turn != now) shard_ = {now, 0};
}

void CallTurns::spend(size_t work) {
  enter();
  work_ += work;
  shard_.work += work;
}

bool CallTurns::spent() {
  enter();
  if (work_ < kWorkPerTurn && shard_.work < kAllWorkPerTurn) return false;
  resume_next_turn();
  return true;
}

// The clock stands still within a turn: what is due later than now is not due in this one. A call that has had its own
// part goes behind those that have had none.
void CallTurns::resume_next_turn() {
  resume_at(env_.now() + (work_ >= kWorkPerTurn ? base::Duration(std::chrono::microseconds(1)) : base::Duration(1)));
}

void CallTurns::resume_soon() { resume_at(env_.now() + kRetryAfter); }

void CallTurns::resume_now() {
  cancel();
  resume_at(env_.now());
}

void CallTurns::resume_at(base::Time when) {
  if (timer_ != base::TimerId::kNone) return;
  timer_ = env_.at(when, [this] {
    timer_ = base::TimerId::kNone;
    resume_();
  });
}

void CallTurns::cancel() {
  if (timer_ != base::TimerId::kNone) env_.cancel(std::exchange(timer_, base::TimerId::kNone));
}

}  // namespace weir::wire
