// Batcher: who runs together, and when. Pure: no clock, thread or lock; whoever owns it locks.
//
// Calls wait in levels of priority, first in, first out within each; a batch is always a prefix of that order. It
// closes
//   - at a preferred size: at once, as Triton's dynamic batcher does (the largest one that the waiting calls reach; one
//     that they can only jump over closes below it), or at once when the first call alone is larger than all of them;
//   - when it is full, or the next call cannot join it (another shape, other optional inputs): at once;
//   - when its oldest call has waited max_delay (0: at once), or half of the time that it has left to live, whichever
//     is sooner: then preferred sizes no longer matter.
// Models that do not batch dynamically run one call at a time.
//
// Triton decides when a call arrives and lets the batches that it has formed wait for an instance; this decides when an
// engine is free. So of calls that come while all engines work this may make a larger preferred batch, never a smaller.
//
// Calls leave before they cost anything: cancelled, past their deadline (DEADLINE_EXCEEDED), or longer in the queue
// than their queue_timeout (UNAVAILABLE, as Triton's timeout_action REJECT). A call may shorten the model's
// queue_timeout, not lengthen it. They are noticed when next(), leave() or a full queue looks at them.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::sched {

// A call that leaves the queue without running, and why.
struct Dropped {
  msg::Call* call;
  base::Status status;
};

class Batcher {
 public:
  explicit Batcher(const msg::ModelSpec& spec);  // outlives this

  // Queues a call that fits() its model. RESOURCE_EXHAUSTED when max_queue calls wait, after those that may leave have
  // left into `dropped`; then nothing is kept of it.
  base::Status add(msg::Call* call, base::Time now, std::vector<Dropped>& dropped);

  // For an engine that is idle: the calls of the batch that closes now into `batch` (emptied first), in order; none if
  // no batch closes yet. Appends to `dropped`.
  void next(base::Time now, std::vector<msg::Call*>& batch, std::vector<Dropped>& dropped);

  // When next() will close a batch if nothing else arrives; kNever when nothing waits.
  base::Time ready_at(base::Time now) const;

  // The calls that may leave now, into `dropped`. For when next() is not called for long.
  void leave(base::Time now, std::vector<Dropped>& dropped);
  // Not later than the first of the calls leaves by itself; kNever when none does.
  base::Time leaves_at() const { return leaves_at_; }

  // From now on no call waits for company: everything queued is to be run.
  void hurry() { hurried_ = true; }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  struct Entry {
    msg::Call* call;
    uint64_t key;
    base::Time leaves;    // when its queue_timeout is over
    base::Time patience;  // when it stops waiting for company
  };
  // The waiting calls in order, as far as one batch can reach.
  struct Line {
    const Entry* first = nullptr;
    size_t calls = 0;
    uint64_t rows = 0;
    size_t best = 0;  // calls that make up the best preferred size so far; 0 = none
    base::Time due = base::kNever;
    bool closed = false;  // nothing can join any more
  };
  struct Plan {
    size_t calls = 0;  // how many of the Line form the batch
    base::Time at = base::kNever;
  };
  using Level = std::deque<Entry>;

  Level& level_of(const msg::Call& call);
  Plan plan(base::Time now, std::vector<msg::Call*>* calls) const;
  bool join(Line& line, const Entry& entry) const;
  bool leaving(const Entry& entry, base::Time now) const;
  void drop(Entry& entry, base::Time now, std::vector<Dropped>& dropped);
  base::Status full() const;

  const msg::ModelSpec& spec_;
  const bool shares_;
  std::vector<Level> levels_;  // the most urgent first
  size_t size_ = 0;
  base::Time leaves_at_ = base::kNever;  // of all that were queued since the queue was empty, or leave()
  bool hurried_ = false;
};

}  // namespace weir::sched
