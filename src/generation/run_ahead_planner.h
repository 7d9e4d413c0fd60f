// RunAheadPlanner: the sequences of a step that still runs, in the step behind it. Pure.
//
// A sequence's next position is fed before its token is known here, since the engine has drawn it. If that token ends
// the sequence, what was computed behind it is thrown away: its keys and values lie beyond what the sequence has
// stored, in blocks that no other sequence is given before that step was submitted. The engine knows the drawn token
// for penalties, too; a readout of the token comes with the step that feeds it.
#pragma once

#include <cstdint>
#include <vector>

#include "generation/engine.h"
#include "generation/kv_memory.h"
#include "generation/step_rows.h"

namespace weir::generation {

class RunAheadPlanner {
 public:
  // `limit`: positions at which a sequence is full. `memory` outlives this.
  RunAheadPlanner(uint32_t block_size, uint32_t limit, KvMemory& memory)
      : limit_(limit), memory_(memory), rows_(block_size, limit) {}

  // Begins the step that follows `running`: with the sequences that draw a token there, as far as they go on whichever
  // it is. False, and nothing is begun: the results of `running` have to be known first. Prompts of which `running`
  // does not reach the end are the caller's (Sequence::next()).
  bool plan(const StepRows& running);
  // The step that was begun, for more rows.
  StepRows& rows() { return rows_; }
  // Sequences that are about to be freed have rows in the step all the same, whose results nobody wants.
  void forget_gone();
  // Hands the step over as the one that runs: `rows`, which is empty, takes its place.
  void take(StepRows& rows);

 private:
  enum class Next : uint8_t { kGoesOn, kIsReadOut, kEnds, kIsPrompt, kWaits };
  Next next_of(const TokenRun& run) const;
  int64_t pending_events(const TokenRun& run) const;
  bool waits(const TokenRun& run) const;

  const uint32_t limit_;
  KvMemory& memory_;
  StepRows rows_;
  std::vector<uint32_t> draws_;  // per row of the running step: the logits request that draws
};

}  // namespace weir::generation
