// Checks and cuts of an automaton once all its rules are there.
#pragma once

#include <cstdint>

#include "grammar/automaton.h"

namespace grammar {

inline constexpr uint32_t kNoRule = UINT32_MAX;

// A rule that may call itself before a byte is taken; kNoRule: there is none.
uint32_t find_left_recursion(const Automaton& automaton);

// Takes out the edges and calls from which no end is reached, and marks calls that nothing follows. False: the rule
// `root`, which becomes the start, has no end.
bool trim(Automaton& automaton, uint32_t root);

}  // namespace grammar
