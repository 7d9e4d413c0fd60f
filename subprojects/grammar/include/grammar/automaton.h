// Automaton: a grammar as a pushdown automaton over bytes. Immutable; any thread.
//
// Every rule is a finite automaton of its own, deterministic where that does not make it much larger. Its states have
// edges, which take a byte, and calls, which take what another rule matches and go on at `target`. A call may repeat
// its rule `least` to `most` times: the count is kept on the stack, so that x{0,1000} has the states of x.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "grammar/error.h"
#include "grammar/grammar.h"

namespace grammar {

struct Automaton {
  static constexpr size_t kMostStates = 100'000;

  struct Edge {
    uint8_t first = 0, last = 0;
    uint32_t target = 0;
  };
  struct Call {
    uint32_t rule = 0, target = 0;
    uint32_t least = 1, most = 1;  // most may be kUnbounded
    bool last = false;             // nothing follows it: the caller's frame need not stay
    bool counts() const { return least != 1 || most != 1; }
  };
  struct State {
    uint32_t edge = 0, edges_end = 0;  // of `edges`
    uint32_t call = 0, calls_end = 0;  // of `calls`
    bool accepting = false;
    bool plain() const { return !accepting && call == calls_end; }
  };
  std::vector<State> states;
  std::vector<Edge> edges;
  std::vector<Call> calls;
  std::vector<uint32_t> starts;  // per rule
  uint32_t start = 0;

  // Errors: a rule that is used and not defined, left recursion, a grammar that no text matches or that is too large;
  // "cancelled" once `cancelled` (or null) is true.
  static Result<std::shared_ptr<const Automaton>> compile(const Grammar& grammar,
                                                          const std::atomic<bool>* cancelled = nullptr);
};

}  // namespace grammar
