// Batcher: who runs together, and when. Pure: no clock, thread or lock; whoever owns it locks.
//
// Calls wait in levels of priority. Within a level tenants take turns by rows (sched/fair_queue.h); a tenant's own
// calls are first in, first out. A batch is always a prefix of that order. It closes
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
// Each level has a QueuePolicy. A call that has waited for its queue_timeout leaves with UNAVAILABLE (kReject) or stays
// and runs after all others of its level (kDelay), those to come among them; from then on it has all the time that its
// deadline gives it. A call may shorten the timeout, where the policy allows it, not lengthen it. Of a full level the
// newest call of the tenant that has most there makes room; a tenant that has as many as any is refused itself.
//
// Calls leave before they cost anything: cancelled, past their deadline (DEADLINE_EXCEEDED), or rejected. They are
// noticed by next(), leave(), or a full queue.
#pragma once

#include <cstdint>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"
#include "sched/fair_queue.h"

namespace weir::sched {

// A call that leaves the queue without running, and why.
struct Dropped {
  msg::Call* call;
  base::Status status;
};

class Batcher {
 public:
  explicit Batcher(const msg::ModelSpec& spec);  // outlives this

  // Queues a call whose tensors and rows fit its model. RESOURCE_EXHAUSTED when max_queue calls wait at its level,
  // after those that may leave have left into `dropped`; then nothing is kept of it. A call that makes room for it goes
  // there, too.
  base::Status add(msg::Call* call, base::Time now, std::vector<Dropped>& dropped);

  // For an engine that is idle: the calls of the batch that closes now into `batch` (emptied first), in order; none if
  // no batch closes yet. Appends to `dropped`.
  void next(base::Time now, std::vector<msg::Call*>& batch, std::vector<Dropped>& dropped);

  // When to ask next() again if nothing else arrives: it will close a batch then, or order the calls anew. At or before
  // `now` if it will close one now; kNever when nothing waits.
  base::Time ready_at(base::Time now);

  // The calls that may leave now, into `dropped`. For when next() is not called for long.
  void leave(base::Time now, std::vector<Dropped>& dropped);
  // Not later than the first of the calls leaves by itself; kNever when none does.
  base::Time leaves_at() const { return leaves_at_; }

  // From now on no call waits for company: everything queued is to be run.
  void hurry() { hurried_ = true; }

  // Whether those that wait have the rows of a batch that closes at once because it could not get larger. It is only a
  // hint: some of them may not run together.
  bool fills_batch() const;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  struct QueuedCall {
    msg::Call* call;
    uint64_t key;
    base::Time times_out;  // when its queue_timeout is over
    base::Time patience;   // when it stops waiting for company
  };
  struct Level {
    const msg::QueuePolicy& policy;
    FairQueue queue;
    std::vector<QueuedCall> entries;  // by slot

    bool delays() const { return policy.timeout_action == msg::QueuePolicy::TimeoutAction::kDelay; }
  };
  struct Place {
    Level* level;
    FairQueue::Slot slot;
  };
  // The waiting calls in order, as far as one batch can reach.
  struct Line {
    const QueuedCall* first = nullptr;
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

  uint32_t cost(const msg::Call& call) const;
  base::Status make_room(Level& level, uint64_t tenant, base::Time now, std::vector<Dropped>& dropped);
  void leave(Level& level, base::Time now, std::vector<Dropped>& dropped);
  void drop_first(Level& level, base::Time now, std::vector<Dropped>& dropped);
  void delay_overdue(base::Time now);
  bool join(Line& line, const QueuedCall& entry) const;
  Plan plan(const Line& line, base::Time now) const;
  bool leaving(const Level& level, const QueuedCall& entry, base::Time now) const;
  void drop(Level& level, FairQueue::Slot slot, base::Status why, std::vector<Dropped>& dropped);
  base::Status why(const msg::Call& call, base::Time now) const;
  base::Status full(const Level& level) const;

  const msg::ModelSpec& spec_;
  const bool shares_;
  const uint32_t least_cost_, most_cost_;  // of a call, in rows
  std::vector<Level> levels_;              // the most urgent first
  std::vector<Place> line_;                // of next()
  size_t size_ = 0;
  uint64_t rows_ = 0;  // of these
  // Not later than the first of the calls that were queued since the queue was empty, or leave() or delay_overdue().
  base::Time leaves_at_ = base::kNever, delays_at_ = base::kNever;
  bool hurried_ = false;
};

}  // namespace weir::sched
