#include "grammar/grammar.h"

#include <algorithm>
#include <utility>

namespace grammar {

Grammar::Grammar() : nodes_(2) { nodes_[kNever].kind = Expression::Kind::kChoice; }

Node Grammar::add(Expression expression) {
  if (nodes_.size() >= kMostNodes) return too_large_ = true, kEmpty;
  nodes_.push_back(std::move(expression));
  return Node(nodes_.size() - 1);
}

Node Grammar::literal(std::string_view bytes) {
  if (bytes.empty()) return kEmpty;
  Expression e;
  e.kind = Expression::Kind::kLiteral, e.bytes = bytes;
  return add(std::move(e));
}

Node Grammar::characters(std::vector<CodeRange> ranges) {
  Expression e;
  e.kind = Expression::Kind::kClass, e.ranges = normalized(std::move(ranges));
  return e.ranges.empty() ? kNever : add(std::move(e));
}

Node Grammar::sequence(std::vector<Node> parts) {
  if (std::find(parts.begin(), parts.end(), kNever) != parts.end()) return kNever;
  std::erase(parts, kEmpty);
  if (parts.empty()) return kEmpty;
  if (parts.size() == 1) return parts.front();
  Expression e;
  e.kind = Expression::Kind::kSequence, e.parts = std::move(parts);
  return add(std::move(e));
}

Node Grammar::choice(std::vector<Node> parts) {
  std::erase(parts, kNever);
  if (parts.empty()) return kNever;
  if (parts.size() == 1) return parts.front();
  Expression e;
  e.kind = Expression::Kind::kChoice, e.parts = std::move(parts);
  return add(std::move(e));
}

Node Grammar::repeat(Node part, uint32_t least, uint32_t most) {
  if (least > most) return kNever;
  if (most == 0 || part == kEmpty) return kEmpty;
  if (part == kNever) return least == 0 ? kEmpty : kNever;
  if (least == 1 && most == 1) return part;
  Expression e;
  e.kind = Expression::Kind::kRepeat, e.least = least, e.most = most, e.parts = {part};
  return add(std::move(e));
}

Node Grammar::rule(uint32_t rule) {
  Expression e;
  e.kind = Expression::Kind::kRule, e.rule = rule;
  return add(std::move(e));
}

uint32_t Grammar::add_rule(std::string name, Sharing sharing) {
  if (rules_.size() >= kMostRules) return too_large_ = true, 0;
  rules_.push_back({std::move(name), kEmpty, sharing, false});
  return uint32_t(rules_.size() - 1);
}

void Grammar::define(uint32_t rule, Node body) { rules_[rule].body = body, rules_[rule].defined = true; }

std::vector<CodeRange> normalized(std::vector<CodeRange> ranges) {
  std::vector<CodeRange> all, out;
  for (auto [first, last] : ranges) {
    last = std::min(last, kLastCharacter);
    if (first > last) continue;
    if (first < 0xd800) all.push_back({first, std::min(last, 0xd7ffu)});
    if (last > 0xdfff) all.push_back({std::max(first, 0xe000u), last});
  }
  std::sort(all.begin(), all.end(), [](CodeRange a, CodeRange b) { return a.first < b.first; });
  for (auto range : all) {
    if (!out.empty() && range.first <= out.back().last + 1)
      out.back().last = std::max(out.back().last, range.last);
    else
      out.push_back(range);
  }
  return out;
}

std::vector<CodeRange> complement(std::vector<CodeRange> ranges) {
  std::vector<CodeRange> out;
  uint32_t next = 0;
  for (auto [first, last] : normalized(std::move(ranges))) {
    if (first > next) out.push_back({next, first - 1});
    next = last + 1;
  }
  if (next <= kLastCharacter) out.push_back({next, kLastCharacter});
  return normalized(std::move(out));
}

}  // namespace grammar
