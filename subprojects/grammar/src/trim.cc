#include "trim.h"

#include <vector>

namespace grammar {
namespace {

using Flags = std::vector<char>;

// Rules that match the empty text.
Flags find_nullable(const Automaton& a) {
  Flags nullable(a.starts.size()), state(a.states.size());
  for (bool more = true; more;) {
    more = false;
    for (size_t s = a.states.size(); s-- > 0;) {
      if (state[s]) continue;
      bool empty = a.states[s].accepting;
      for (uint32_t c = a.states[s].call; c < a.states[s].calls_end && !empty; ++c)
        empty = (a.calls[c].least == 0 || nullable[a.calls[c].rule]) && state[a.calls[c].target];
      if (empty) state[s] = 1, more = true;
    }
    for (size_t r = 0; r < a.starts.size(); ++r)
      if (!nullable[r] && state[a.starts[r]]) nullable[r] = 1, more = true;
  }
  return nullable;
}

// Rules that may be called before the rule has taken a byte.
std::vector<uint32_t> first_calls(const Automaton& a, uint32_t rule, const Flags& nullable) {
  std::vector<uint32_t> out, open{a.starts[rule]};
  std::vector<uint32_t> seen;
  Flags visited;
  visited.resize(a.states.size());
  while (!open.empty()) {
    const uint32_t s = open.back();
    open.pop_back();
    if (visited[s]) continue;
    visited[s] = 1;
    for (uint32_t c = a.states[s].call; c < a.states[s].calls_end; ++c) {
      out.push_back(a.calls[c].rule);
      if (a.calls[c].least == 0 || nullable[a.calls[c].rule]) open.push_back(a.calls[c].target);
    }
  }
  return out;
}

// States from which the end of their rule is reached.
Flags find_alive(const Automaton& a) {
  Flags alive(a.states.size());
  for (bool more = true; more;) {
    more = false;
    for (size_t s = a.states.size(); s-- > 0;) {
      if (alive[s]) continue;
      const auto& state = a.states[s];
      bool ends = state.accepting;
      for (uint32_t e = state.edge; e < state.edges_end && !ends; ++e) ends = alive[a.edges[e].target];
      for (uint32_t c = state.call; c < state.calls_end && !ends; ++c)
        ends = alive[a.calls[c].target] && (a.calls[c].least == 0 || alive[a.starts[a.calls[c].rule]]);
      if (ends) alive[s] = 1, more = true;
    }
  }
  return alive;
}

}  // namespace

uint32_t find_left_recursion(const Automaton& a) {
  const Flags nullable = find_nullable(a);
  enum : char { kNew, kOpen, kDone };
  Flags place(a.starts.size(), kNew);
  struct Visit {
    uint32_t rule;
    std::vector<uint32_t> calls;
  };
  std::vector<Visit> path;
  for (uint32_t root = 0; root < a.starts.size(); ++root) {
    if (place[root] != kNew) continue;
    path.push_back({root, first_calls(a, root, nullable)});
    place[root] = kOpen;
    while (!path.empty()) {
      auto& [rule, calls] = path.back();
      if (calls.empty()) {
        place[rule] = kDone;
        path.pop_back();
        continue;
      }
      const uint32_t next = calls.back();
      calls.pop_back();
      if (place[next] == kOpen) return next;
      if (place[next] == kDone) continue;
      place[next] = kOpen;
      path.push_back({next, first_calls(a, next, nullable)});
    }
  }
  return kNoRule;
}

bool trim(Automaton& a, uint32_t root) {
  const Flags alive = find_alive(a);
  a.start = a.starts[root];
  if (!alive[a.start]) return false;
  std::vector<Automaton::Edge> edges;
  std::vector<Automaton::Call> calls;
  for (auto& state : a.states) {
    const auto edge = uint32_t(edges.size()), call = uint32_t(calls.size());
    for (uint32_t e = state.edge; e < state.edges_end; ++e)
      if (alive[a.edges[e].target]) edges.push_back(a.edges[e]);
    for (uint32_t c = state.call; c < state.calls_end; ++c)
      if (alive[a.calls[c].target] && (a.calls[c].least == 0 || alive[a.starts[a.calls[c].rule]]))
        calls.push_back(a.calls[c]);
    state.edge = edge, state.edges_end = uint32_t(edges.size());
    state.call = call, state.calls_end = uint32_t(calls.size());
  }
  a.edges = std::move(edges), a.calls = std::move(calls);
  for (auto& call : a.calls) {
    const auto& target = a.states[call.target];
    call.last =
        !call.counts() && target.accepting && target.edge == target.edges_end && target.call == target.calls_end;
  }
  return true;
}

}  // namespace grammar
