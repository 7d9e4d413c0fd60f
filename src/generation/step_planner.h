// StepPlanner: chooses the rows of the next step. Pure: time is an argument.
//
// A step has one token of each running sequence. What is left of its token budget goes to chunks of prompts: StepBudget
// says how many tokens take no longer than they should, and PrefillShares whose they are. A sequence without credit is
// left out. Readouts and scores that were asked for at positions whose keys and values are stored already come first:
// those positions are computed again in a row of their own.
#pragma once

#include <cstdint>
#include <vector>

#include "base/env.h"
#include "generation/active_sequences.h"
#include "generation/engine.h"
#include "generation/fit.h"
#include "generation/kv_memory.h"
#include "generation/policy.h"
#include "generation/prefill_shares.h"
#include "generation/run_ahead_planner.h"
#include "generation/step_budget.h"
#include "generation/step_rows.h"

namespace weir::generation {

class StepPlanner {
 public:
  // `limit`: the most positions of one sequence. All outlive this.
  StepPlanner(TokenEngine& engine, const TokenPolicy& policy, TokenRoom room, uint32_t limit, KvMemory& memory,
              ActiveSequences& active)
      : engine_(engine),
        policy_(policy),
        block_size_(room.block_size),
        limit_(limit),
        memory_(memory),
        active_(active),
        rows_(room.block_size, limit),
        budget_(policy.step_time, policy.step_tokens),
        ahead_(room.block_size, limit, memory) {}

  // Begins a step: empties rows().
  void begin(base::Time now);
  // Fills rows() and returns the step; null when no sequence can run.
  TokenStep* plan();
  // Returns the step that follows the running one: what goes on of that one's sequences, whichever tokens it draws, and
  // those that are in neither. Null when its results have to be known first, or nothing can run.
  TokenStep* plan_ahead(base::Time now);
  // The step that runs, the older one of two, and the time at which it was planned.
  StepRows& rows() { return rows_; }
  base::Time planned() const { return running_.planned; }
  // The step that runs has ended well: how long it took decides how large those after it are.
  void measure(base::Time now);
  // Sequences with Place::kGone are about to be freed.
  void forget_gone() { ahead_.forget_gone(); }
  // The step that runs is over; rows() is the one that ran ahead of it, if any.
  void advance();

 private:
  // A step that is laid out, behind another one that runs or not.
  struct Layout {
    StepRows& rows;
    StepLoad load{};
    base::Time planned{};
  };
  TokenStep* fill(Layout& to);
  void plan_decodes(Layout& to, uint32_t& budget);
  void plan_prefills(Layout& to, uint32_t budget);
  Draft draft(Sequence& s, uint32_t most);
  uint32_t spread() const;
  uint32_t plan_prefill(StepRows& rows, Sequence& s, uint32_t most);
  bool can_follow(Sequence& s);
  void recompute(StepRows& rows, Sequence& s, uint32_t& budget);

  TokenEngine& engine_;
  const TokenPolicy& policy_;
  const uint32_t block_size_, limit_;
  KvMemory& memory_;
  ActiveSequences& active_;
  StepRows rows_;
  StepBudget budget_;
  PrefillShares shares_;
  std::vector<PrefillShares::Prompt> prompts_;
  RunAheadPlanner ahead_;
  Layout running_{rows_}, next_{ahead_.rows()};
  base::Time measured_{};
};

}  // namespace weir::generation
