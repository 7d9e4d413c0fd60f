#include "grammar/automaton.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "nfa.h"
#include "trim.h"

namespace grammar {
namespace {

constexpr size_t kMostWork = 20'000'000;  // members of sets of states, over all rules
constexpr size_t kMostEdges = 2'000'000;

using Set = std::vector<uint32_t>;  // ascending

// Turns the Nfas of all rules into states of one automaton.
class Determinizer {
 public:
  Determinizer(Automaton& out, const std::atomic<bool>* cancelled) : out_(out), cancelled_(cancelled) {}

  // False: give up; `error` says why.
  bool add(const Nfa& nfa) {
    nfa_ = &nfa;
    ids_.clear(), todo_.clear();
    mark_.assign(nfa.states.size(), 0);
    stamp_ = 0;
    base_ = out_.states.size();
    most_ = 3 * nfa.states.size() + 64;
    out_.starts.push_back(id_of(closure({nfa.start})));
    for (size_t next = 0; next < todo_.size(); ++next) {
      const Set set = *todo_[next];
      expand(set, uint32_t(base_ + next));
      if (cancelled_ && cancelled_->load(std::memory_order_relaxed)) return error = "cancelled", false;
      if (work_ > kMostWork || out_.edges.size() > kMostEdges || out_.states.size() > 2 * Automaton::kMostStates)
        return error = "it is too large", false;
    }
    return true;
  }
  std::string error;

 private:
  // Once a rule has many more sets than states, each state is a set of its own: nothing is determined any more.
  bool singles() const { return todo_.size() > most_; }

  Set closure(const Set& from) {
    ++stamp_;
    Set out, open = from;
    while (!open.empty()) {
      const uint32_t s = open.back();
      open.pop_back();
      ++work_;
      if (std::exchange(mark_[s], stamp_) == stamp_) continue;
      out.push_back(s);
      const auto& empty = nfa_->states[s].empty;
      open.insert(open.end(), empty.begin(), empty.end());
    }
    std::erase_if(out, [&](uint32_t s) {
      const auto& state = nfa_->states[s];
      return state.edges.empty() && state.calls.empty() && s != nfa_->end;
    });
    std::sort(out.begin(), out.end());
    return out;
  }

  uint32_t id_of(Set set) {
    auto [at, fresh] = ids_.try_emplace(std::move(set), uint32_t(out_.states.size()));
    if (fresh) {
      out_.states.emplace_back();
      out_.states.back().accepting = std::binary_search(at->first.begin(), at->first.end(), nfa_->end);
      todo_.push_back(&at->first);
    }
    return at->second;
  }

  void expand(const Set& set, uint32_t id) {
    std::vector<Automaton::Edge> edges;
    std::vector<Automaton::Call> calls;
    for (uint32_t s : set) {
      const auto& state = nfa_->states[s];
      edges.insert(edges.end(), state.edges.begin(), state.edges.end());
      calls.insert(calls.end(), state.calls.begin(), state.calls.end());
    }
    const auto edge = uint32_t(out_.edges.size());
    if (singles())
      for (auto e : edges) out_.edges.push_back({e.first, e.last, id_of(closure({e.target}))}), ++work_;
    else
      split(edges);
    const auto call = uint32_t(out_.calls.size());
    join(calls);
    auto& state = out_.states[id];
    state.edge = edge, state.edges_end = uint32_t(out_.edges.size());
    state.call = call, state.calls_end = uint32_t(out_.calls.size());
  }

  // Edges that overlap become edges that do not.
  void split(const std::vector<Automaton::Edge>& edges) {
    std::vector<uint32_t> cuts;
    for (auto e : edges) cuts.push_back(e.first), cuts.push_back(e.last + 1u);
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<Set> targets(cuts.size());
    for (auto e : edges)
      for (auto at = std::lower_bound(cuts.begin(), cuts.end(), e.first); *at <= e.last; ++at, ++work_)
        targets[size_t(at - cuts.begin())].push_back(e.target);
    const size_t begin = out_.edges.size();
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      if (targets[i].empty()) continue;
      const uint32_t target = id_of(closure(targets[i]));
      auto& all = out_.edges;
      if (all.size() > begin && all.back().target == target && all.back().last + 1u == cuts[i])
        all.back().last = uint8_t(cuts[i + 1] - 1);
      else
        all.push_back({uint8_t(cuts[i]), uint8_t(cuts[i + 1] - 1), target});
    }
  }

  // Calls of the same rule become one.
  void join(std::vector<Automaton::Call>& calls) {
    auto key = [](const Automaton::Call& c) { return std::tuple(c.rule, c.least, c.most); };
    std::stable_sort(calls.begin(), calls.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    for (size_t i = 0; i < calls.size();) {
      Set targets;
      Automaton::Call call = calls[i];
      for (; i < calls.size() && key(calls[i]) == key(call); ++i) targets.push_back(calls[i].target), ++work_;
      call.target = id_of(closure(targets));
      out_.calls.push_back(call);
    }
  }

  Automaton& out_;
  const std::atomic<bool>* cancelled_;
  const Nfa* nfa_ = nullptr;
  std::map<Set, uint32_t> ids_;
  std::vector<const Set*> todo_;
  std::vector<uint64_t> mark_;
  uint64_t stamp_ = 0;
  size_t base_ = 0, most_ = 0, work_ = 0;
};

}  // namespace

Result<std::shared_ptr<const Automaton>> Automaton::compile(const Grammar& grammar,
                                                            const std::atomic<bool>* cancelled) {
  if (grammar.too_large())
    return Error{"it is too large: more than " + std::to_string(kMostNodes) + " expressions, or " +
                 std::to_string(kMostRules) + " rules"};
  NfaBuilder builder(grammar);
  auto out = std::make_shared<Automaton>();
  Determinizer determinizer(*out, cancelled);
  for (uint32_t rule = 0; rule < builder.rules() && builder.error().empty(); ++rule) {
    const Nfa nfa = builder.build(rule);
    if (builder.error().empty() && !determinizer.add(nfa)) return Error{determinizer.error};
  }
  if (!builder.error().empty()) return Error{builder.error()};
  if (auto rule = find_left_recursion(*out); rule != kNoRule)
    return Error{"rule '" + builder.name(rule).substr(0, 100) + "' is left-recursive, which is not supported"};
  if (!trim(*out, grammar.root)) return Error{"no text matches it"};
  return std::shared_ptr<const Automaton>(std::move(out));
}

}  // namespace grammar
