// How many blocks of keys and values a token lane has, and so how long its sequences may become.
#pragma once

#include <cstdint>

#include "generation/engine.h"
#include "generation/policy.h"

namespace weir::generation {

// Bytes of one block, at least 1.
uint64_t bytes_per_block(const TokenEngine& engine, const TokenPolicy& policy);
// As many blocks as policy.kv_bytes hold, and no more than sequences of `max_length` positions have a use for.
uint32_t kv_blocks(const TokenEngine& engine, const TokenPolicy& policy, uint32_t max_length);
// Positions that one sequence may have then, whatever is asked of it: positions that are recomputed take one block
// more.
uint32_t kv_positions(const TokenEngine& engine, const TokenPolicy& policy, uint32_t max_length);

}  // namespace weir::generation
