// Regular expressions: what ECMA-262 and Python's re write alike.
//
//   choice = sequence { "|" sequence }     sequence = { atom [ "*" | "+" | "?" | "{m}" | "{m,}" | "{m,n}" ] [ "?" ] }
//   atom   = "(" ["?:" | "?P<name>" | "?<name>"] choice ")" | "[" … "]" | "." | "\" … | character
// ^ and $ may stand at the ends of the alternatives of the whole. In a group they may stand where the text ends anyhow:
// ^(?:^a|b$)$ is ^(?:a|b)$.
#include "regex.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "grammar/readers.h"
#include "text_cursor.h"

namespace grammar {
namespace {

using Ranges = std::vector<CodeRange>;

const Ranges kDigits{{'0', '9'}}, kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
    kSpace{{'\t', '\r'}, {' ', ' '}}, kLine{{'\n', '\n'}, {'\r', '\r'}};

void add(Ranges& to, const Ranges& more) { to.insert(to.end(), more.begin(), more.end()); }

Ranges whole_class(char c) {
  switch (c) {
    case 'd': return kDigits;
    case 'w': return kWord;
    case 's': return kSpace;
    case 'D': return complement(kDigits);
    case 'W': return complement(kWord);
    default: return complement(kSpace);
  }
}

constexpr const char* kAnchors = "^ and $ are supported at the ends of the whole only";
constexpr const char* kBackReferences = "back-references are not supported";

uint64_t times(uint64_t a, uint64_t b) {
  return a == 0 || b == 0 ? 0 : a >= kUnbounded || b >= kUnbounded ? kUnbounded : std::min<uint64_t>(a * b, kUnbounded);
}

class RegexReader {
 public:
  RegexReader(Grammar& out, std::string_view text, Match match, Quoting quoting)
      : in_{text}, out_(out), match_(match), quoting_(quoting) {}

  Result<Regex> read() {
    std::vector<Regex> all;
    do all.push_back(alternative());
    while (error_.empty() && in_.take('|'));
    if (error_.empty() && !in_.end()) (void)fail("a ) that closes nothing");
    if (!error_.empty()) return Error{error_};
    return choice_of(std::move(all));
  }

 private:
  Regex fail(const std::string& why) {
    if (error_.empty()) error_ = "at " + std::to_string(std::min(in_.at, in_.text.size())) + ": " + why;
    in_.at = in_.text.size();
    return {};
  }

  // An alternative of the whole expression, with its anchors.
  Regex alternative() {
    const bool begins = in_.take('^');
    at_start_ = begins || match_ == Match::kWhole, at_end_ = false;
    Regex inside = sequence();
    const bool ends = in_.take('$');
    while (in_.take('$')) {
    }
    const bool more = !in_.end() && in_.peek() != '|' && in_.peek() != ')';
    if ((ends && more) || (at_end_ && !ends && match_ == Match::kSearch)) return fail(kAnchors);
    if (match_ == Match::kWhole || (begins && ends)) return inside;
    const Node any = out_.repeat(quoted(out_, {{0, kLastCharacter}}, quoting_), 0, kUnbounded);
    inside.node = out_.sequence({begins ? Grammar::kEmpty : any, inside.node, ends ? Grammar::kEmpty : any});
    inside.most = kUnbounded, inside.unit = Grammar::kNever;
    return inside;
  }

  Regex choice_of(std::vector<Regex> all) {
    if (all.size() == 1) return all.front();
    Regex out{Grammar::kNever, kUnbounded, 0, Grammar::kNever};
    std::vector<Node> nodes;
    for (const Regex& r : all) {
      nodes.push_back(r.node);
      out.least = std::min(out.least, r.least), out.most = std::max(out.most, r.most);
    }
    out.node = out_.choice(std::move(nodes));
    return out;
  }

  Regex choice() {
    if (++depth_ > kMostNested) return fail("more than " + std::to_string(kMostNested) + " groups inside each other");
    const bool starts = at_start_;
    bool ends = false;
    std::vector<Regex> all;
    do {
      at_start_ = starts, at_end_ = false;
      all.push_back(sequence());
      ends = ends || at_end_;
    } while (error_.empty() && in_.take('|'));
    at_end_ = ends;
    --depth_;
    return choice_of(std::move(all));
  }

  Regex sequence() {
    std::vector<Node> nodes;
    Regex sum, last;
    while (error_.empty() && !in_.end()) {
      const char c = in_.peek();
      if (c == '|' || c == ')' || (c == '$' && depth_ == 0)) break;
      if (anchor()) continue;
      if (at_end_) return fail(kAnchors);
      const size_t before = anchors_;
      last = atom();
      if (anchors_ != before && quantifier_next()) return fail("a quantifier behind a group with ^ or $");
      last = repeated(last);
      at_start_ = false;
      nodes.push_back(last.node);
      sum.least = std::min<uint64_t>(sum.least + last.least, kUnbounded);
      sum.most = std::min<uint64_t>(sum.most + last.most, kUnbounded);
      if (out_.too_large()) return fail("it is too large");
    }
    if (nodes.size() == 1) return last;
    sum.node = out_.sequence(std::move(nodes));
    return sum;
  }

  // One that is true wherever it may stand.
  bool anchor() {
    const bool starts = at_start_ && in_.take('^');
    const bool ends = !starts && depth_ > 0 && in_.take('$');
    at_end_ = at_end_ || ends;
    anchors_ += starts || ends;
    return starts || ends;
  }

  bool quantifier_next() const {
    const char c = in_.peek();
    return c == '*' || c == '+' || c == '?' || c == '{';
  }

  Regex repeated(Regex part) {
    uint32_t least = 0, most = kUnbounded;
    if (in_.take('*')) {
    } else if (in_.take('+')) {
      least = 1;
    } else if (in_.take('?')) {
      most = 1;
    } else if (in_.peek() != '{') {
      return part;
    } else {
      ++in_.at;
      if (!in_.bounds(least, most) || least > most) return fail("expected {m}, {m,} or {m,n}");
    }
    in_.take('?');  // lazy: the same texts
    if (quantifier_next()) return fail("a quantifier behind a quantifier");
    Regex out;
    out.node = out_.repeat(part.node, least, most);
    out.least = times(part.least, least), out.most = times(part.most, most);
    out.unit = part.least == 1 && part.most == 1 ? part.node : Grammar::kNever;
    return out;
  }

  Regex one_of(Ranges ranges) {
    const Node node = quoted(out_, normalized(std::move(ranges)), quoting_);
    return {node, 1, 1, node};
  }

  Regex atom() {
    const char c = in_.peek();
    switch (c) {
      case '(': return group();
      case '[': return ++in_.at, one_of(characters());
      case '.': return ++in_.at, one_of(complement(kLine));
      case '*':
      case '+':
      case '?': return fail("a quantifier behind nothing");
      case '^':
      case '$': return fail(kAnchors);
      case '\\': break;
      default: {
        const uint32_t character = in_.character();
        return one_of({{character, character}});
      }
    }
    ++in_.at;
    return one_of(escape());
  }

  Regex group() {
    ++in_.at;
    if (in_.take('?') && !in_.take(':')) {
      const size_t behind = in_.peek() == '<' ? 1 : 0;
      if (in_.peek(behind) == '=' || in_.peek(behind) == '!') return fail("look-around is not supported");
      if (in_.take('P') && in_.peek() == '=') return fail(kBackReferences);
      if (in_.peek() != '<') return fail("groups of this kind (flags, atomic ones) are not supported");
      ++in_.at;
      if (!take_name()) return fail("expected a group's name of letters, digits and _, and >");
    }
    const Regex inside = choice();
    return in_.take(')') || !error_.empty() ? inside : fail("expected )");
  }

  // Without brackets, so that whoever counts brackets counts groups.
  bool take_name() {
    const size_t from = in_.at;
    const auto in_name = [](unsigned char c) { return c == '_' || c >= 0x80 || std::isalnum(c); };
    while (in_name(in_.peek())) ++in_.at;
    return in_.at > from && in_.take('>');
  }

  Ranges refuse_escape(const std::string& why) {
    (void)fail(why);
    return {};
  }

  // Behind the backslash.
  Ranges escape() {
    if (in_.end()) return refuse_escape("a backslash ends it");
    const char c = in_.text[in_.at++];
    uint32_t code = 0;
    switch (c) {
      case 'd':
      case 'w':
      case 's':
      case 'D':
      case 'W':
      case 'S': return whole_class(c);
      case 'n': return {{'\n', '\n'}};
      case 'r': return {{'\r', '\r'}};
      case 't': return {{'\t', '\t'}};
      case 'f': return {{'\f', '\f'}};
      case 'v': return {{'\v', '\v'}};
      case '0': return {{0, 0}};
      case 'x':
      case 'u':
        if (c == 'u' && in_.take('{')) {
          while (!in_.end() && in_.peek() != '}' && code <= kLastCharacter) {
            uint32_t digit = 0;
            if (!in_.hex(1, digit)) break;
            code = code << 4 | digit;
          }
          if (in_.take('}') && code <= kLastCharacter) return {{code, code}};
          return refuse_escape("no such escape");
        }
        return in_.hex(c == 'x' ? 2 : 4, code) ? Ranges{{code, code}} : refuse_escape("no such escape");
      default: break;
    }
    if (c == 'k' || (c >= '1' && c <= '9')) return refuse_escape(kBackReferences);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
      return refuse_escape(std::string("\\") + c + " is not supported");
    --in_.at;
    code = in_.character();
    return {{code, code}};
  }

  // Behind the bracket.
  Ranges characters() {
    const bool others = in_.take('^');
    Ranges all;
    for (bool first = true; error_.empty() && (first || !in_.take(']')); first = false) {
      if (first && in_.take(']')) break;
      if (in_.end()) return refuse_escape("a class has no end");
      Ranges part = in_.peek() == '\\' ? (++in_.at, in_.take('b') ? Ranges{{8, 8}} : escape()) : single();
      const bool one = part.size() == 1 && part[0].first == part[0].last;
      if (one && in_.peek() == '-' && in_.peek(1) != ']' && in_.peek(1) != '\0') {
        ++in_.at;
        const Ranges to = in_.peek() == '\\' ? (++in_.at, escape()) : single();
        if (to.size() != 1 || to[0].first != to[0].last || to[0].first < part[0].first)
          return refuse_escape("a range of a class is not one");
        part[0].last = to[0].first;
      }
      add(all, part);
    }
    return others ? complement(std::move(all)) : all;
  }
  Ranges single() {
    const uint32_t c = in_.character();
    return {{c, c}};
  }

  TextCursor in_;
  Grammar& out_;
  const Match match_;
  const Quoting quoting_;
  size_t depth_ = 0;
  bool at_start_ = false;  // the text begins here, whatever matches
  bool at_end_ = false;    // it ends here, by an anchor of this group
  size_t anchors_ = 0;     // of groups, so far
  std::string error_;
};

}  // namespace

Node quoted(Grammar& out, const std::vector<CodeRange>& ranges, Quoting quoting) {
  if (quoting == Quoting::kNone) return out.characters(ranges);
  constexpr char kHex[] = "0123456789abcdef";
  std::vector<CodeRange> plain;
  std::vector<Node> all;
  for (auto [first, last] : ranges) {
    for (uint32_t c = first; c <= std::min(last, 0x1fu); ++c) {
      const size_t named = std::string_view("\b\t\n\f\r").find(char(c));
      if (named != std::string_view::npos)
        all.push_back(out.literal(std::string("\\") + "btnfr"[named]));
      else
        all.push_back(out.literal(std::string("\\u00") + kHex[c >> 4] + kHex[c & 15]));
    }
    for (char c : {'"', '\\'})
      if (first <= uint32_t(c) && uint32_t(c) <= last) all.push_back(out.literal(std::string("\\") + c));
    for (CodeRange part : {CodeRange{0x20, 0x21}, CodeRange{0x23, 0x5b}, CodeRange{0x5d, kLastCharacter}})
      if (std::max(first, part.first) <= std::min(last, part.last))
        plain.push_back({std::max(first, part.first), std::min(last, part.last)});
  }
  all.push_back(out.characters(std::move(plain)));
  return out.choice(std::move(all));
}

Result<Regex> read_regex_into(Grammar& out, std::string_view text, Match match, Quoting quoting) {
  if (text.size() > kMostText) return Error{"it has more than " + std::to_string(kMostText) + " bytes"};
  return RegexReader(out, text, match, quoting).read();
}

Result<Grammar> read_regex(std::string_view text) {
  Grammar out;
  auto regex = read_regex_into(out, text, Match::kWhole, Quoting::kNone);
  if (!regex) return regex.error();
  out.root = out.add_rule("root");
  out.define(out.root, regex->node);
  return out;
}

}  // namespace grammar
