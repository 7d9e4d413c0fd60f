// CallTurns: how much is done for one call in a turn of the loop, and the timer with which it goes on in a later one.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "base/env.h"
#include "wire/coding.h"

namespace weir::wire {

// How much is done for one call, and for all of a shard, in one turn of the loop: in bytes of JSON, which the library
// reads at 5 MB/s. A message in that form counts as kWorkPerMessage of them for what is done about it behind this.
inline constexpr size_t kWorkPerTurn = 32 << 10, kAllWorkPerTurn = 64 << 10, kWorkPerMessage = 512;
// A frame in whose message no JSON is read: a thousand of them are a call's part of a turn.
inline constexpr size_t kWorkPerFrame = kWorkPerTurn / 1024;
// Bytes that come out of an Inflater in the time in which one byte of JSON is read.
inline constexpr size_t kInflatedPerWork = kInflateSlice / kWorkPerTurn;

// The work done for all calls of a shard in the turn that began at `turn`.
struct ShardTurn {
  base::Time turn = base::kNever;
  size_t work = 0;
};

class CallTurns {
 public:
  // `resume` goes on with the call, later. All outlive it.
  CallTurns(base::Env& env, ShardTurn& shard, std::function<void()> resume)
      : env_(env), shard_(shard), resume_(std::move(resume)) {}
  ~CallTurns() { cancel(); }

  // The call has cost so much of this turn.
  void spend(size_t work);
  // The call, or all calls together, have had their part of this turn: nothing more is done now, and the call goes on
  // in the next one.
  bool spent();
  void resume_next_turn();
  // Then, unless something is due already.
  void resume_at(base::Time when);
  // Shortly, because something takes no more now.
  void resume_soon();
  // In this turn, when those who came first have gone on.
  void resume_now();
  // Nothing is left to go on with.
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
