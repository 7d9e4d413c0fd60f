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

#include "bus/load_notes.h"
#include "bus/memory_use.h"
#include "bus/stats.h"
#include "generation/engine.h"
#include "generation/policy.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::generation {

// A token lane, as the load balancer sees it.
class TokenInbox : public msg::Inbox, public bus::TellsMemory, public bus::HasLoadNotes {
 public:
  virtual size_t load() = 0;  // Calls in it now. Any thread
};

// `spec` (with spec.text) and `stats` outlive the Inbox; stats.tokens is made here, unless another lane of the model
// has done it. The Inbox's destructor fails what is running, then joins. Start-up code: throws std::runtime_error when
// there is no room for keys and values.
std::unique_ptr<TokenInbox> make_token_lane(std::unique_ptr<TokenEngine> engine, const TokenPolicy& policy,
                                            const msg::ModelSpec& spec, bus::ModelStats& stats);

}  // namespace weir::generation
