// StepPlanner: which rows the next step has. Pure: time is an argument.
//
// A step holds one token of each running sequence, and in what is left of its token budget chunks of prompts, in the
// same order. A sequence is left out while its peer has no credit. What was asked for at positions that are stored
// already comes first: it is computed again in a row of its own (a review).
#pragma once

#include <cstdint>

#include "base/env.h"
#include "generation/active_sequences.h"
#include "generation/engine.h"
#include "generation/fit.h"
#include "generation/kv_memory.h"
#include "generation/policy.h"
#include "generation/run_ahead_planner.h"
#include "generation/step_rows.h"

namespace weir::generation {

class StepPlanner {
 public:
  // `limit`: positions at which a sequence is full. All outlive this.
  StepPlanner(TokenEngine& engine, const TokenPolicy& policy, TokenRoom room, uint32_t limit, KvMemory& memory,
              ActiveSequences& active)
      : engine_(engine),
        policy_(policy),
        block_size_(room.block_size),
        memory_(memory),
        active_(active),
        rows_(room.block_size, limit),
        ahead_(room.block_size, limit, memory) {}

  // Begins another step: rows() is empty then.
  void begin(base::Time now);
  // Lays it out; null when no sequence can run.
  TokenStep* plan();
  // The step behind it, while it runs: see RunAheadPlanner::plan().
  TokenStep* plan_ahead(base::Time now) { return ahead_.plan(rows_, now); }
  // The step that runs, the older one of two, and when it was laid out.
  StepRows& rows() { return rows_; }
  base::Time planned() const { return planned_; }
  // Sequences with Place::kGone are about to be freed.
  void forget_gone() { ahead_.forget_gone(); }
  // The step that runs is over; rows() is the one that ran ahead of it, if any.
  void advance();

 private:
  void plan_decodes(uint32_t& budget);
  void plan_prefills(uint32_t& budget);
  void review(Sequence& s, uint32_t& budget);

  TokenEngine& engine_;
  const TokenPolicy& policy_;
  const uint32_t block_size_;
  KvMemory& memory_;
  ActiveSequences& active_;
  StepRows rows_;
  RunAheadPlanner ahead_;
  base::Time planned_{};
};

}  // namespace weir::generation
