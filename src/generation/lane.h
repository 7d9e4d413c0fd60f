// The Inbox in front of a TokenEngine: continuous batching over paged keys and values.
//
// One thread steps the engine; each step holds one token of every running sequence and, in what is left of its token
// budget, chunks of prompts. Keys and values live in blocks from a fixed budget; whole blocks are shared between
// sequences with the same beginning (hash chained over contents and salt, compared in full on a hit). When blocks run
// out, the least urgent and youngest sequence is preempted and computed again later. A sequence whose peer has no
// credit is parked: it leaves the batch, keeps its blocks until others need them.
#pragma once

#include <cstdint>
#include <memory>

#include "bus/stats.h"
#include "generation/engine.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::generation {

// A token lane, as who chooses among several sees it.
class TokenInbox : public msg::Inbox {
 public:
  virtual size_t load() = 0;  // Calls in it now. Any thread
};

struct TokenPolicy {
  size_t kv_bytes = size_t(512) << 20;
  uint32_t block_size = 16;    // positions
  uint32_t max_running = 64;   // sequences in one step; no more than step_tokens
  uint32_t step_tokens = 512;  // tokens in one step, prefill and decode together
  uint32_t max_waiting = 256;  // calls; more are refused with RESOURCE_EXHAUSTED
  uint32_t share = 25;         // per cent of slots and blocks that one tenant keeps when another's call waits for them
  bool prefix_cache = true;
};

// Blocks that there are going to be for keys and values of that engine: as many as the policy's bytes hold, and no more
// than sequences of `max_length` positions have a use for.
uint32_t kv_blocks(const TokenEngine& engine, const TokenPolicy& policy, uint32_t max_length);
// Positions that one sequence may have then, whatever is asked of it: what is looked at again takes a block beside.
uint32_t kv_positions(const TokenEngine& engine, const TokenPolicy& policy, uint32_t max_length);

// `spec` (with spec.text) and `stats` outlive the Inbox; stats.tokens is made here, unless another lane of the model
// has done it. The Inbox's destructor fails what is running, then joins. Start-up code: throws std::runtime_error when
// there is no room for keys and values.
std::unique_ptr<TokenInbox> make_token_lane(std::unique_ptr<TokenEngine> engine, const TokenPolicy& policy,
                                            const msg::ModelSpec& spec, bus::ModelStats& stats);

}  // namespace weir::generation
