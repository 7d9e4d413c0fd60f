#include "nfa.h"

#include <algorithm>
#include <utility>

#include "utf8_ranges.h"

namespace grammar {
namespace {

constexpr uint64_t kSmall = 48;        // states of a rule that is copied, and of a repetition that is written out
constexpr size_t kDeepest = 6000;      // nodes inside each other
constexpr uint64_t kMany = 1'000'000;  // more than any automaton has

uint64_t key_of(uint32_t a, uint32_t b) { return uint64_t(a) << 32 | b; }

}  // namespace

NfaBuilder::NfaBuilder(const Grammar& grammar) : grammar_(grammar), copied_(grammar.rules().size()) {
  const auto& rules = grammar.rules();
  for (const Rule& rule : rules) {
    if (!rule.defined && error_.empty()) error_ = "rule '" + rule.name.substr(0, 100) + "' is not defined";
    bodies_.push_back(rule.body);
  }
  if (!error_.empty()) return;
  visited_.resize(rules.size());
  for (uint32_t r = 0; r < rules.size(); ++r) find_copied(r);
}

// A rule is copied if it is small with all that it refers to, which excludes recursion.
void NfaBuilder::find_copied(uint32_t rule) {
  const Rule& r = grammar_.rules()[rule];
  if (visited_[rule] || r.sharing == Sharing::kShared || rule == grammar_.root) return;
  visited_[rule] = true;
  std::vector<uint32_t> refers;
  size_t nodes = 2 * kSmall;
  if (!find_refers(r.body, refers, nodes)) return;
  bool all = true;
  for (uint32_t other : refers) {
    if (depth_ < kDeepest) ++depth_, find_copied(other), --depth_;
    all = all && copied_[other];
  }
  copied_[rule] = all && size(r.body) <= kSmall;
}

// The rules that a small node refers to. False: it has more nodes than `nodes`.
bool NfaBuilder::find_refers(Node node, std::vector<uint32_t>& out, size_t& nodes) const {
  if (nodes-- == 0) return nodes = 0, false;
  const Expression& e = grammar_.at(node);
  if (e.kind == Expression::Kind::kRule) out.push_back(e.rule);
  return std::all_of(e.parts.begin(), e.parts.end(), [&](Node part) { return find_refers(part, out, nodes); });
}

const std::string& NfaBuilder::name(uint32_t rule) const {
  static const std::string kCounted = "(a repetition)";
  return rule < grammar_.rules().size() ? grammar_.rules()[rule].name : kCounted;
}

Nfa NfaBuilder::build(uint32_t rule) {
  nfa_ = {};
  built_.clear();
  nfa_.end = state();
  nfa_.start = build(bodies_[rule], nfa_.end);
  return std::move(nfa_);
}

uint32_t NfaBuilder::state() {
  if (++total_ > Automaton::kMostStates) {
    if (error_.empty()) error_ = "it is too large: more than " + std::to_string(Automaton::kMostStates) + " states";
    return 0;
  }
  nfa_.states.emplace_back();
  return uint32_t(nfa_.states.size() - 1);
}

uint32_t NfaBuilder::build(Node node, uint32_t next) {
  if (!error_.empty()) return next;
  if (depth_ >= kDeepest) return error_ = "it is nested too deeply", next;
  if (auto found = built_.find(key_of(node, next)); found != built_.end()) return found->second;
  ++depth_;
  const uint32_t entry = build_node(grammar_.at(node), next);
  --depth_;
  built_.emplace(key_of(node, next), entry);
  return entry;
}

uint32_t NfaBuilder::build_node(const Expression& e, uint32_t next) {
  using Kind = Expression::Kind;
  switch (e.kind) {
    case Kind::kLiteral: return build_literal(e.bytes, next);
    case Kind::kClass: return build_class(e.ranges, next);
    case Kind::kRepeat: return build_repeat(e, next);
    case Kind::kRule: return build_rule(e.rule, next);
    case Kind::kSequence:
      for (auto part = e.parts.rbegin(); part != e.parts.rend(); ++part) next = build(*part, next);
      return next;
    case Kind::kChoice: break;
  }
  const uint32_t entry = state();
  for (Node part : e.parts) {
    const uint32_t target = build(part, next);
    if (error_.empty()) nfa_.states[entry].empty.push_back(target);
  }
  return entry;
}

uint32_t NfaBuilder::build_literal(const std::string& bytes, uint32_t next) {
  for (size_t i = bytes.size(); i-- > 0 && error_.empty();) {
    const uint32_t at = state();
    if (!error_.empty()) return next;
    nfa_.states[at].edges.push_back({uint8_t(bytes[i]), uint8_t(bytes[i]), next});
    next = at;
  }
  return next;
}

// Sequences with the same rest share its states.
uint32_t NfaBuilder::build_class(const std::vector<CodeRange>& ranges, uint32_t next) {
  const uint32_t entry = state();
  std::unordered_map<uint64_t, uint32_t> rests;
  for (CodeRange range : ranges) {
    each_utf8_sequence(range, [&](const std::array<ByteRange, 4>& bytes, size_t length) {
      uint32_t target = next;
      for (size_t i = length; i-- > 1 && error_.empty();) {
        const uint64_t key = uint64_t(bytes[i].first) << 40 | uint64_t(bytes[i].last) << 32 | target;
        auto [rest, fresh] = rests.try_emplace(key, 0);
        if (fresh) {
          rest->second = state();
          if (error_.empty()) nfa_.states[rest->second].edges.push_back({bytes[i].first, bytes[i].last, target});
        }
        target = rest->second;
      }
      if (error_.empty()) nfa_.states[entry].edges.push_back({bytes[0].first, bytes[0].last, target});
    });
  }
  return entry;
}

// Written out where that is short, else counted on the stack.
uint32_t NfaBuilder::build_repeat(const Expression& e, uint32_t next) {
  const Node part = e.parts.front();
  const uint64_t each = size(part), copies = e.most == kUnbounded ? e.least : e.most;
  if (each * copies > kSmall && copies > 1) return build_counted(part, e.least, e.most, next);
  if (e.most == kUnbounded) {
    const uint32_t loop = state();
    if (!error_.empty()) return next;
    const uint32_t body = build(part, loop);
    if (error_.empty()) nfa_.states[loop].empty = {next, body};
    next = loop;
  }
  const uint32_t end = next;
  for (uint32_t i = uint32_t(copies); i-- > 0 && error_.empty();) {
    const uint32_t body = build(part, next);
    if (i < e.least) {
      next = body;
      continue;
    }
    next = state();
    if (error_.empty()) nfa_.states[next].empty = {body, end};
  }
  return next;
}

uint32_t NfaBuilder::build_counted(Node part, uint32_t least, uint32_t most, uint32_t next) {
  auto [rule, fresh] = counted_.try_emplace(part, uint32_t(bodies_.size()));
  if (fresh) bodies_.push_back(part);
  const uint32_t entry = state();
  if (error_.empty()) nfa_.states[entry].calls.push_back({rule->second, next, least, most});
  return entry;
}

uint32_t NfaBuilder::build_rule(uint32_t rule, uint32_t next) {
  if (copied_[rule]) return build(bodies_[rule], next);
  const uint32_t entry = state();
  if (error_.empty()) nfa_.states[entry].calls.push_back({rule, next, 1, 1});
  return entry;
}

// States that the node takes, about.
uint64_t NfaBuilder::size(Node node) {
  if (auto found = sizes_.find(node); found != sizes_.end()) return found->second;
  if (depth_ >= kDeepest) return kMany;
  ++depth_;
  const Expression& e = grammar_.at(node);
  uint64_t sum = 1;
  if (e.kind == Expression::Kind::kLiteral) sum = e.bytes.size();
  if (e.kind == Expression::Kind::kClass) sum = e.ranges.back().last < 0x80 ? 1 : 3 + e.ranges.size();
  if (e.kind == Expression::Kind::kRule && copied_[e.rule]) sum = size(bodies_[e.rule]);
  for (Node part : e.parts) sum = std::min(kMany, sum + size(part));
  const uint64_t copies = e.kind != Expression::Kind::kRepeat ? 1 : e.most == kUnbounded ? e.least + 1 : e.most;
  --depth_;
  return sizes_[node] = sum * copies > kSmall && copies > 2 ? std::min(kMany, sum + 2) : std::min(kMany, sum * copies);
}

}  // namespace grammar
