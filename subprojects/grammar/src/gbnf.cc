// GBNF, llama.cpp's notation (grammars/README.md there):
//
//   grammar   = { rule }                       rule     = name "::=" choice (newline | end)
//   choice    = sequence { "|" sequence }      sequence = { item [ "*" | "+" | "?" | "{m}" | "{m,}" | "{m,n}" ] }
//   item      = '"' … '"' | "[" … "]" | "." | name | "(" choice ")"
// Newlines end a rule but behind "::=" and "|" and inside of parentheses. "#" begins a comment.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "grammar/readers.h"
#include "text_cursor.h"

namespace grammar {
namespace {

enum class Lines : uint8_t { kStay, kCross };  // whether white space includes newlines

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfReader {
 public:
  explicit GbnfReader(std::string_view text) : in_{text} {}

  Result<Grammar> read() {
    for (space(Lines::kCross); error_.empty() && !in_.end(); space(Lines::kCross)) rule();
    auto root = names_.find("root");
    if (error_.empty() && (root == names_.end() || !out_.rules()[root->second].defined))
      return Error{"there is no rule 'root'"};
    if (!error_.empty()) return Error{error_};
    out_.root = root->second;
    return std::move(out_);
  }

 private:
  Node fail(const std::string& why) {
    if (error_.empty())
      error_ = "line " + std::to_string(1 + std::count(in_.text.begin(), in_.text.begin() + ptrdiff_t(in_.at), '\n')) +
               ": " + why;
    in_.at = in_.text.size();
    return Grammar::kEmpty;
  }

  void space(Lines lines) {
    for (; !in_.end(); ++in_.at) {
      const char c = in_.peek();
      if (c == '#') {
        while (!in_.end() && in_.peek() != '\n') ++in_.at;
        if (in_.end()) return;
      }
      const bool line = in_.peek() == '\n' || in_.peek() == '\r';
      if (line ? lines == Lines::kStay : in_.peek() != ' ' && in_.peek() != '\t') return;
    }
  }

  std::string_view name() {
    const size_t from = in_.at;
    while (is_name(in_.peek())) ++in_.at;
    return in_.text.substr(from, in_.at - from);
  }

  uint32_t rule_of(std::string_view name) {
    auto [at, fresh] = names_.try_emplace(std::string(name), 0);
    if (fresh) at->second = out_.add_rule(std::string(name.substr(0, 100)));
    return at->second;
  }

  void rule() {
    const std::string_view what = name();
    if (what.empty()) return void(fail("expected the name of a rule"));
    space(Lines::kStay);
    if (!in_.take("::=")) return void(fail("expected ::= behind '" + std::string(what.substr(0, 60)) + "'"));
    const uint32_t rule = rule_of(what);
    space(Lines::kCross);
    const Node body = choice(Lines::kStay);
    if (!error_.empty()) return;
    if (!in_.end() && in_.peek() != '\n' && in_.peek() != '\r') return void(fail("expected the end of the rule"));
    out_.define(rule, body);
  }

  Node choice(Lines lines) {
    if (++depth_ > kMostNested) return fail("more than " + std::to_string(kMostNested) + " groups inside each other");
    std::vector<Node> parts{sequence(lines)};
    while (error_.empty() && in_.take('|')) {
      space(Lines::kCross);
      parts.push_back(sequence(lines));
    }
    --depth_;
    return parts.size() == 1 ? parts.front() : out_.choice(std::move(parts));
  }

  Node sequence(Lines lines) {
    std::vector<Node> parts;
    while (error_.empty() && !in_.end()) {
      const char c = in_.peek();
      if (c == '|' || c == ')' || c == '\n' || c == '\r') break;
      const Node part = item();
      space(lines);
      parts.push_back(repeated(part, lines));
      if (out_.too_large()) return fail("it is too large");
    }
    return out_.sequence(std::move(parts));
  }

  Node item() {
    if (in_.take('"')) return literal();
    if (in_.take('[')) return characters();
    if (in_.take('.')) return out_.characters({{0, kLastCharacter}});
    if (in_.take('(')) {
      space(Lines::kCross);
      const Node inside = choice(Lines::kCross);
      return in_.take(')') || !error_.empty() ? inside : fail("expected )");
    }
    if (in_.peek() == '<' || in_.peek() == '!') return fail("tokens (<…>) are not supported");
    const std::string_view refers = name();
    if (refers.empty()) return fail("expected a literal, a class, a group or the name of a rule");
    return out_.rule(rule_of(refers));
  }

  Node repeated(Node part, Lines lines) {
    for (; error_.empty(); space(lines)) {
      uint32_t least = 0, most = kUnbounded;
      if (in_.take('*')) {
      } else if (in_.take('+')) {
        least = 1;
      } else if (in_.take('?')) {
        most = 1;
      } else if (in_.take('{')) {
        if (!in_.bounds(least, most) || least > most) return fail("expected {m}, {m,} or {m,n}");
      } else {
        break;
      }
      part = out_.repeat(part, least, most);
    }
    return part;
  }

  uint32_t character() {
    if (!in_.take('\\')) return in_.character();
    const char c = in_.peek();
    if (!in_.end()) ++in_.at;
    uint32_t out = 0;
    switch (c) {
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^': return uint32_t(c);
      case 'x':
      case 'u':
      case 'U':
        if (in_.hex(c == 'x' ? 2 : c == 'u' ? 4 : 8, out) && out <= kLastCharacter) return out;
        [[fallthrough]];
      default: return fail("no such escape");
    }
  }

  Node literal() {
    std::string bytes;
    while (error_.empty() && !in_.take('"')) {
      if (in_.end()) return fail("a literal has no end");
      append_utf8(bytes, character());
    }
    return out_.literal(bytes);
  }

  Node characters() {
    const bool others = in_.take('^');
    std::vector<CodeRange> ranges;
    while (error_.empty() && !in_.take(']')) {
      if (in_.end()) return fail("a class has no end");
      CodeRange range;
      range.first = range.last = character();
      if (in_.peek() == '-' && in_.peek(1) != ']' && in_.take('-')) {
        if (in_.end()) return fail("a class has no end");
        range.last = character();
      }
      ranges.push_back(range);
    }
    return out_.characters(others ? complement(std::move(ranges)) : std::move(ranges));
  }

  TextCursor in_;
  Grammar out_;
  std::unordered_map<std::string, uint32_t> names_;
  size_t depth_ = 0;
  std::string error_;
};

}  // namespace

Result<Grammar> read_gbnf(std::string_view text) {
  if (text.size() > kMostText) return Error{"it has more than " + std::to_string(kMostText) + " bytes"};
  return GbnfReader(text).read();
}

Result<Grammar> read_choice(std::span<const std::string> texts) {
  Grammar out;
  std::vector<Node> all;
  size_t bytes = 0;
  for (const auto& text : texts) {
    if (text.empty()) return Error{"a choice is empty"};
    bytes += text.size();
    all.push_back(out.literal(text));
  }
  if (all.empty()) return Error{"the list of choices is empty"};
  if (bytes > kMostText) return Error{"the choices have more than " + std::to_string(kMostText) + " bytes"};
  out.root = out.add_rule("root");
  out.define(out.root, out.choice(std::move(all)));
  return out;
}

}  // namespace grammar
