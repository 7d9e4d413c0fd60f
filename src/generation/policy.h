// TokenPolicy: the limits of a token lane, from a model's configuration.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/env.h"

namespace weir::generation {

struct TokenPolicy {
  size_t kv_bytes = size_t(512) << 20;
  uint32_t block_size = 16;    // positions
  uint32_t max_running = 64;   // sequences in one step; no more than step_tokens
  uint32_t step_tokens = 512;  // tokens in one step, prefill and decode together, at most
  base::Duration step_time{};  // that a step with prompts should take (generation/step_budget.h); 0: any
  uint32_t prompt_steps = 1;   // that a prompt is spread over where others wait for their next token
  uint32_t max_waiting = 256;  // calls; more are refused with RESOURCE_EXHAUSTED
  base::Duration max_wait{};   // and so are those that would wait longer (generation/queue_limit.h); 0: any time
  uint32_t share = 25;         // per cent of slots and blocks that one tenant keeps when another's call waits for them
  bool prefix_cache = true;
  uint32_t draft_tokens = 0;  // guesses in a step of one sequence, at most (generation/drafts.h); 0: none

  // The same with limits that can be kept: a step has room for a token of every running sequence, and an engine may
  // have made room for step_tokens and no more.
  TokenPolicy clamped() const {
    TokenPolicy policy = *this;
    policy.block_size = std::max(policy.block_size, 1u);
    policy.step_tokens = std::max(policy.step_tokens, 1u);
    policy.max_running = std::clamp(policy.max_running, 1u, policy.step_tokens);
    policy.prompt_steps = std::max(policy.prompt_steps, 1u);
    return policy;
  }
};

}  // namespace weir::generation
