// Grammar: a context-free grammar as expressions over bytes and Unicode characters. Readers (readers.h) build it;
// Automaton::compile() turns it into what a Matcher steps through.
//
// Expressions are nodes that are added once and never change; a node may be a part of several others, so that they form
// a graph without cycles. Recursion goes through rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace grammar {

using Node = uint32_t;
inline constexpr uint32_t kUnbounded = UINT32_MAX;
inline constexpr size_t kMostNodes = 200'000;  // of one grammar
inline constexpr size_t kMostRules = 5000;

// Unicode characters from `first` to `last`.
struct CodeRange {
  uint32_t first = 0, last = 0;
};

struct Expression {
  enum class Kind : uint8_t { kLiteral, kClass, kSequence, kChoice, kRepeat, kRule };
  Kind kind = Kind::kSequence;
  uint32_t least = 0, most = 0;   // of kRepeat; most may be kUnbounded
  uint32_t rule = 0;              // of kRule
  std::string bytes;              // of kLiteral
  std::vector<CodeRange> ranges;  // of kClass: ascending, apart
  std::vector<Node> parts;        // of kSequence, kChoice, kRepeat
};

// kShared: the rule is entered by a call, so that what is known of its states serves all that refer to it. kInline: a
// small rule that is not recursive may be copied to where it is referred to.
enum class Sharing : uint8_t { kInline, kShared };

struct Rule {
  std::string name;
  Node body = 0;
  Sharing sharing = Sharing::kInline;
  bool defined = false;
};

class Grammar {
 public:
  static constexpr Node kEmpty = 0;  // matches the empty text
  static constexpr Node kNever = 1;  // matches nothing
  Grammar();

  // Each returns the node. What can never match makes a sequence kNever, and is left out of a choice.
  Node literal(std::string_view bytes);
  Node characters(std::vector<CodeRange> ranges);  // one of these; in any order
  Node sequence(std::vector<Node> parts);
  Node choice(std::vector<Node> parts);
  Node repeat(Node part, uint32_t least, uint32_t most);
  Node optional(Node part) { return choice({part, kEmpty}); }
  Node rule(uint32_t rule);

  uint32_t add_rule(std::string name, Sharing sharing = Sharing::kInline);
  void define(uint32_t rule, Node body);

  const Expression& at(Node node) const { return nodes_[node]; }
  const std::vector<Rule>& rules() const { return rules_; }
  uint32_t root = 0;  // the rule that is the whole text
  // More than kMostNodes nodes or kMostRules rules were asked for: the grammar is not to be used.
  bool too_large() const { return too_large_; }

 private:
  Node add(Expression expression);

  std::vector<Expression> nodes_;
  std::vector<Rule> rules_;
  bool too_large_ = false;
};

inline constexpr uint32_t kLastCharacter = 0x10ffff;
// All characters that are in none of the ranges; surrogates are no characters.
std::vector<CodeRange> complement(std::vector<CodeRange> ranges);
// Ascending, apart, and without surrogates.
std::vector<CodeRange> normalized(std::vector<CodeRange> ranges);

}  // namespace grammar
