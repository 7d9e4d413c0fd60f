// Which prompts have the same beginning, and which origin has it in its cache.
#pragma once

#include <cstdint>

#include "msg/generate.h"

namespace weir::forward {

// The same for prompts with the same first kPrefixTokens tokens, images aside, and of a sequence (not 0) always. 0: the
// prompt is too short for it to matter.
inline constexpr size_t kPrefixTokens = 64;
uint64_t prefix_hash(const msg::Generation& generation, uint64_t sequence);

// The weight of an origin for a prefix: the origin with the largest one is the one that calls of the prefix prefer
// (rendezvous hashing), so that an origin that goes or comes moves no prefix but its own.
uint64_t rendezvous(uint64_t prefix, uint64_t origin);

}  // namespace weir::forward
