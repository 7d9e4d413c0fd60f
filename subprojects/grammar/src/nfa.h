// Nfa: one rule as a nondeterministic automaton with empty edges. NfaBuilder makes those of all rules of a grammar.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/grammar.h"

namespace grammar {

struct Nfa {
  struct State {
    std::vector<uint32_t> empty;  // targets of empty edges
    std::vector<Automaton::Edge> edges;
    std::vector<Automaton::Call> calls;
  };
  std::vector<State> states;
  uint32_t start = 0, end = 0;
};

class NfaBuilder {
 public:
  explicit NfaBuilder(const Grammar& grammar);

  // The body of a rule, or of a repetition that is counted: these are numbered behind the grammar's rules, as they are
  // met.
  Nfa build(uint32_t rule);
  size_t rules() const { return bodies_.size(); }
  const std::string& name(uint32_t rule) const;
  // Not empty: why what was built is of no use.
  const std::string& error() const { return error_; }

 private:
  uint32_t state();
  uint32_t build(Node node, uint32_t next);
  uint32_t build_node(const Expression& e, uint32_t next);
  uint32_t build_literal(const std::string& bytes, uint32_t next);
  uint32_t build_class(const std::vector<CodeRange>& ranges, uint32_t next);
  uint32_t build_repeat(const Expression& e, uint32_t next);
  uint32_t build_counted(Node part, uint32_t least, uint32_t most, uint32_t next);
  uint32_t build_rule(uint32_t rule, uint32_t next);
  uint64_t size(Node node);
  void find_copied(uint32_t rule);
  bool find_refers(Node node, std::vector<uint32_t>& out, size_t& nodes) const;

  const Grammar& grammar_;
  std::vector<Node> bodies_;  // per rule
  std::unordered_map<uint64_t, uint32_t> counted_;
  std::unordered_map<Node, uint64_t> sizes_;
  std::vector<bool> visited_, copied_;            // per rule; copied_: small and not recursive
  std::unordered_map<uint64_t, uint32_t> built_;  // (node, next) of the present rule
  Nfa nfa_;
  size_t total_ = 0, depth_ = 0;
  std::string error_;
};

}  // namespace grammar
