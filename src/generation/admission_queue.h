// AdmissionQueue: the Calls that wait to run, in their order, and which of them may enter. Pure: time is an argument.
//
// Calls wait by priority. At the same priority tenants take turns (base/fair_share.h), and the calls of one tenant wait
// in the order in which they came. A call is admitted when there are blocks for its whole prompt (what its session kept
// or the prefix cache holds need not be there twice). A preempted sequence waits again, in its old place.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>

#include "base/env.h"
#include "base/fair_share.h"
#include "base/status.h"
#include "generation/active_sequences.h"
#include "generation/kv_memory.h"
#include "generation/policy.h"
#include "generation/queue_limit.h"
#include "generation/sequence.h"
#include "generation/sequence_list.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::generation {

// RESOURCE_EXHAUSTED, for a call that finds so many others in a full queue.
base::Status queue_full(const msg::ModelSpec& spec, const TokenPolicy& policy, size_t waiting);

class AdmissionQueue : public SequenceList {
 public:
  // `limit`: positions at which a sequence is full. `seed`: of the seeds of sequences that bring none. All outlive
  // this.
  AdmissionQueue(const TokenPolicy& policy, const msg::ModelSpec& spec, KvMemory& memory, uint32_t limit, uint64_t seed)
      : policy_(policy), spec_(spec), memory_(memory), limit_(limit), length_(policy), random_(seed) {}

  void add(msg::Call* call, base::Time now);

  // One pass over the queue, from its front. The next sequence that may enter, which is in `active` then with all of
  // its blocks; null when the pass is over. Sequences are preempted for it where it has a right to that, but not while
  // a step runs: kNo.
  struct Pass {
    enum class Preempts : uint8_t { kNo, kYes } preempts = Preempts::kYes;
    size_t at = 0;
    std::optional<uint64_t> no_slot;  // the last tenant for whose call there was no slot: nor is there for its next one
  };
  Sequence* admit_next(Pass& pass, ActiveSequences& active);

  // A sequence that has never been admitted leaves: its tenant is not charged for it.
  void uncharge(const Sequence& s) { share_.left(s.level, s.call->tenant, s.tag, s.work()); }

  // The tenant that has most calls waiting that have not begun.
  struct LargestTenant {
    uint64_t tenant = 0;
    size_t calls = 0;
  };
  LargestTenant largest_tenant() const;
  // Calls that may wait while so many sequences are active. Slots that stand empty are no queue: calls that will get
  // them with the next step do not count.
  size_t most_waiting(size_t active) const {
    return length_.calls() + policy_.max_running - std::min<size_t>(active, policy_.max_running);
  }
  // A sequence that has been admitted begins for the first time.
  void began(const Sequence& s, base::Time now) { length_.began(s.places, now - s.call->times.queued); }
  // The sequence that leaves a queue that is too long, with so many sequences active: the last one of the largest
  // tenant. Null: the queue is not too long, or holds only what has begun.
  Sequence* surplus(size_t active) const;
  // When a waiting call leaves the queue if nothing else happens.
  base::Time leaves_at() const;

 private:
  bool may_try(const Sequence& s, Pass& pass, ActiveSequences& active) const;
  bool take_blocks(Sequence& s, const Pass& pass, ActiveSequences& active);
  bool make_room(Sequence& s, ActiveSequences::Claim claim, ActiveSequences& active);
  void give_back(Sequence& s);

  const TokenPolicy& policy_;
  const msg::ModelSpec& spec_;
  KvMemory& memory_;
  const uint32_t limit_;
  QueueLimit length_;
  std::mt19937_64 random_;
  base::FairShare share_;
  uint64_t arrivals_ = 0;
};

}  // namespace weir::generation
