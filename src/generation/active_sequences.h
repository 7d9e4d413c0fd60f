// ActiveSequences: the sequences that are admitted, and which of them give up their blocks or their slot when others
// need them. Pure.
//
// When blocks run out, they are taken in this order: those of sessions at rest, those of parked sequences, then those
// of the least urgent and youngest sequence. When slots run out, the least urgent and youngest sequence gives up its
// own to a more urgent call. A tenant may hold everything while no other tenant has calls. When another tenant's call
// finds no slot or too few blocks, the tenant that holds most of them, and more than its share, loses its youngest
// sequence, so that the call waits for one step and not until the other tenant's sequences end.
//
// A preempted sequence has no blocks and stays here until move_preempted().
#pragma once

#include <cstddef>
#include <cstdint>

#include "bus/token_stats.h"
#include "generation/fit.h"
#include "generation/kv_memory.h"
#include "generation/policy.h"
#include "generation/sequence.h"
#include "generation/sequence_list.h"

namespace weir::generation {

class ActiveSequences : public SequenceList {
 public:
  // All outlive this.
  ActiveSequences(const TokenPolicy& policy, TokenRoom room, KvMemory& memory, bus::TokenStats& stats)
      : policy_(policy), room_(room), memory_(memory), stats_(stats) {}

  size_t running() const;  // those that are neither parked nor preempted
  bool none_active() const;

  // Frees at least one block for `claimant`, which grows by a token or is being admitted; kAtRest: only of sessions
  // at rest. False: no block may be taken for it.
  enum class Claim : uint8_t { kGrow, kAdmit, kAtRest };
  bool free_blocks(const Sequence& claimant, Claim claim);
  // Preempts the least urgent and youngest sequence that runs. False: none is less urgent than `claimant`.
  bool preempt_less_urgent(const Sequence& claimant);
  // Preempts a sequence of the tenant that holds most slots, or blocks, if that is more than its share. False: there is
  // no such tenant.
  enum class Scarce : uint8_t { kSlots, kBlocks };
  bool preempt_over_share(const Sequence& claimant, Scarce what);
  // Frees the sequence's blocks. It computes their keys and values again after it is admitted again.
  void preempt(Sequence& s);
  // Moves the preempted ones to `waiting`, each to its old place.
  void move_preempted(SequenceList& waiting);

 private:
  Sequence* victim(const Sequence& claimant, Claim claim) const;
  Sequence* youngest_over_share(const Sequence& claimant, Scarce what) const;

  const TokenPolicy& policy_;
  const TokenRoom room_;
  KvMemory& memory_;
  bus::TokenStats& stats_;
};

}  // namespace weir::generation
