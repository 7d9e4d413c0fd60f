// CallTurns: limits the work that is done for one call in a turn of the loop, and has the timer that continues it
// later.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "base/env.h"
#include "wire/coding.h"

namespace weir::wire {

// The work in one turn of the loop, for one call and for all calls of a shard. The unit is a byte of JSON, which the
// library reads at 5 MB/s. A JSON message counts as kWorkPerMessage more for the work that its method does.
inline constexpr size_t kWorkPerTurn = 32 << 10, kAllWorkPerTurn = 64 << 10, kWorkPerMessage = 512;
// The work of a frame without JSON: a thousand of them fill a call's part of a turn.
inline constexpr size_t kWorkPerFrame = kWorkPerTurn / 1024;
// How many bytes come out of an Inflater in the time in which one byte of JSON is read.
inline constexpr size_t kInflatedPerWork = kInflateSlice / kWorkPerTurn;

// The work done for all calls of a shard in the turn that began at `turn`.
struct ShardTurn {
  base::Time turn = base::kNever;
  size_t work = 0;
};

class CallTurns {
 public:
  // `resume` continues the call; it is called by the timer. All are borrowed.
  CallTurns(base::Env& env, ShardTurn& shard, std::function<void()> resume)
      : env_(env), shard_(shard), resume_(std::move(resume)) {}
  ~CallTurns() { cancel(); }

  // Counts work that was done for the call.
  void spend(size_t work);
  // Whether the call, or all calls together, have had their part of this turn. If so, the timer is set to continue the
  // call in the next turn.
  bool spent();
  // These set the timer, unless it is set already.
  void resume_next_turn();
  void resume_at(base::Time when);
  void resume_soon();  // in 5 ms: for a receiver that takes no more now, and does not say when it will
  // Continues the call in this turn, behind calls that have asked for that before.
  void resume_now();
  // Stops the timer: nothing is left to do.
  void cancel();

 private:
  void enter();

  base::Env& env_;
  ShardTurn& shard_;
  const std::function<void()> resume_;
  base::TimerId timer_ = base::TimerId::kNone;
  base::Time turn_ = base::kNever;  // to which work_ belongs
  size_t work_ = 0;
};

}  // namespace weir::wire
