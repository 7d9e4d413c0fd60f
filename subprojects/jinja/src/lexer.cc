#include "lexer.h"

#include <algorithm>
#include <charconv>

#include "builtins.h"
#include "utf8.h"

namespace jinja {

namespace {

using Kind = Token::Kind;

size_t leading_blanks(std::string_view text) { return text.size() - trimmed(text, Side::kLeft).size(); }
bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80); }
bool digit(char c) { return c >= '0' && c <= '9'; }

// Newlines become \n, and the last one goes.
std::string prepared(std::string_view source) {
  std::string out = repaired(source);
  size_t to = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == '\r') {
      if (i + 1 < out.size() && out[i + 1] == '\n') ++i;
      out[to++] = '\n';
    } else {
      out[to++] = out[i];
    }
  }
  out.resize(to);
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) data();
    add(Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fault(const std::string& what) const {
    throw Exception{{Error::Kind::kTemplate, "line " + std::to_string(line_) + ": " + what}, true};
  }
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  void add(Kind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }
  void move(size_t n) {
    line_ += int(std::count(source_.begin() + long(at_), source_.begin() + long(at_ + n), '\n'));
    at_ += n;
  }
  void skip_blanks() { move(leading_blanks(rest())); }

  // Text up to the next tag, then the tag.
  void data() {
    size_t end = source_.find('{', at_);
    while (end != source_.npos && (end + 1 == source_.size() || !tag_character(source_[end + 1])))
      end = source_.find('{', end + 1);
    if (end == source_.npos) {
      add(Kind::kData, std::string(rest()));
      at_ = source_.size();
      return;
    }
    char kind = source_[end + 1];
    size_t open = 2;
    char sign = end + 2 < source_.size() ? source_[end + 2] : 0;
    if (sign == '-' || sign == '+')
      ++open;
    else
      sign = 0;
    text(end, sign, kind != '{');
    move(end - at_ + open);
    if (kind == '#')
      comment();
    else if (kind == '%' && raw_begins())
      raw();
    else
      tag(kind);
    line_starts_ = source_[at_ - 1] == '\n';
  }
  static bool tag_character(char c) { return c == '{' || c == '%' || c == '#'; }

  // Emits [at_, end), less the white space that the tag behind it takes.
  void text(size_t end, char sign, bool block) {
    std::string_view data = rest().substr(0, end - at_);
    if (sign == '-') {
      data = trimmed(data, Side::kRight);
    } else if (sign != '+' && block) {
      size_t line = data.rfind('\n') + 1;  // 0 when there is none
      std::string_view last = data.substr(line);
      if ((line > 0 || line_starts_) && leading_blanks(last) == last.size()) data = data.substr(0, line);
    }
    if (!data.empty()) add(Kind::kData, std::string(data));
  }

  // Behind the end of a comment, raw or block tag; `end` is where its two last characters are.
  void close_tag(size_t end, char before) {
    move(end + 2 - at_);
    if (before == '-')
      skip_blanks();
    else if (before != '+' && at_ < source_.size() && source_[at_] == '\n')
      move(1);
  }

  void comment() {
    size_t end = source_.find("#}", at_);
    if (end == source_.npos) fault("a comment is not closed");
    close_tag(end, end > at_ ? source_[end - 1] : 0);
  }

  size_t after_blanks(size_t from) const {
    return from + leading_blanks(std::string_view(source_).substr(std::min(from, source_.size())));
  }
  // The place of %} or -%} behind blanks and a word; npos when something else stands there.
  size_t end_after_word(size_t from, std::string_view word) const {
    from = after_blanks(from);
    if (source_.compare(from, word.size(), word) != 0) return source_.npos;
    from = after_blanks(from + word.size());
    if (from < source_.size() && (source_[from] == '-' || source_[from] == '+')) ++from;
    return source_.compare(from, 2, "%}") == 0 ? from : source_.npos;
  }
  bool raw_begins() const { return end_after_word(at_, "raw") != source_.npos; }

  void raw() {
    size_t end = end_after_word(at_, "raw");
    bool strip = source_[end - 1] == '-';
    move(end + 2 - at_);
    if (strip) skip_blanks();
    line_starts_ = source_[at_ - 1] == '\n';
    for (size_t open = source_.find("{%", at_); open != source_.npos; open = source_.find("{%", open + 2)) {
      size_t inside = open + 2;
      char sign = inside < source_.size() ? source_[inside] : 0;
      if (sign == '-' || sign == '+')
        ++inside;
      else
        sign = 0;
      size_t close = end_after_word(inside, "endraw");
      if (close == source_.npos) continue;
      text(open, sign, true);
      return close_tag(close, source_[close - 1]);
    }
    fault("raw is not closed");
  }

  void tag(char kind) {
    std::string_view end = kind == '%' ? "%}" : "}}";
    add(kind == '%' ? Kind::kBlockBegin : Kind::kVariableBegin, "");
    std::string open;  // brackets
    while (true) {
      skip_blanks();
      if (at_ == source_.size()) fault("a tag is not closed");
      size_t sign = source_[at_] == '-' || (source_[at_] == '+' && kind == '%') ? 1 : 0;
      if (open.empty() && rest().substr(sign).starts_with(end)) {
        add(kind == '%' ? Kind::kBlockEnd : Kind::kVariableEnd, "");
        char before = sign ? source_[at_] : kind == '%' ? 0 : '+';  // a variable's end takes no newline
        return close_tag(at_ + sign, before);
      }
      token(open);
    }
  }

  void token(std::string& open) {
    char c = source_[at_];
    if (letter(c)) return word();
    if (digit(c)) return number();
    if (c == '\'' || c == '"') return string(c);
    static constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                      "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                      ">",  "<",  "=",  ".",  ":",  "|",  ","};
    for (std::string_view op : kOperators) {
      if (!rest().starts_with(op)) continue;
      bracket(op[0], open);
      add(Kind::kOperator, std::string(op));
      return move(op.size());
    }
    fault(std::string("unexpected '") + c + "'");
  }

  void bracket(char c, std::string& open) {
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c != ')' && c != ']' && c != '}') return;
    if (open.empty() || open.back() != c) fault(std::string("unexpected '") + c + "'");
    open.pop_back();
  }

  void word() {
    size_t n = 0;
    while (at_ + n < source_.size() && (letter(source_[at_ + n]) || digit(source_[at_ + n]))) ++n;
    add(Kind::kName, std::string(rest().substr(0, n)));
    at_ += n;
  }

  // 0x1f, 0o17, 0b11: as the decimal token that means the same. False where there is none.
  bool number_of_base() {
    std::string_view text = rest();
    if (text.size() < 3 || text[0] != '0' || (at_ > 0 && source_[at_ - 1] == '.')) return false;
    char letter = char(text[1] | 0x20);
    int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    std::string digits;
    size_t end = 2;
    auto is_digit = [&](size_t k) {
      int value = 16;
      if (k < text.size()) std::from_chars(&text[k], &text[k] + 1, value, 16);
      return value < base;
    };
    while (is_digit(end) || (end < text.size() && text[end] == '_' && is_digit(end + 1))) {
      if (text[end] != '_') digits += text[end];
      ++end;
    }
    if (base == 0 || digits.empty()) return false;
    int64_t value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value, base).ec != std::errc())
      fault("the number is too large");
    add(Kind::kInteger, std::to_string(value));
    at_ += end;
    return true;
  }

  void number() {
    if (number_of_base()) return;
    std::string digits;
    size_t i = at_;
    auto run = [&] {
      for (; i < source_.size() &&
             (digit(source_[i]) || (source_[i] == '_' && i + 1 < source_.size() && digit(source_[i + 1])));
           ++i)
        if (source_[i] != '_') digits += source_[i];
    };
    auto digit_at = [&](size_t k) { return k < source_.size() && digit(source_[k]); };
    run();
    bool real = false;
    bool behind_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!behind_dot && i < source_.size() && source_[i] == '.' && digit_at(i + 1)) {
      real = true, digits += source_[i++];
      run();
    }
    if (!behind_dot && i < source_.size() && (source_[i] == 'e' || source_[i] == 'E')) {
      size_t sign = i + 1 < source_.size() && (source_[i + 1] == '+' || source_[i + 1] == '-') ? 1 : 0;
      if (digit_at(i + 1 + sign)) {
        real = true, digits += source_.substr(i, 1 + sign), i += 1 + sign;
        run();
      }
    }
    add(real ? Kind::kFloat : Kind::kInteger, std::move(digits));
    at_ = i;
  }

  void string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fault("a string is not closed");
    add(Kind::kString, unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    move(end + 1 - at_);
  }

  // As Python's unicode-escape codec.
  std::string unescaped(std::string_view raw) const {
    static constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
    std::string out;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\') {
        out += raw[i];
        continue;
      }
      char c = raw[++i];  // there is one: the lexer took it with the backslash
      size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
      if (c == '\n') continue;
      if (size_t k = kFrom.find(c); k != kFrom.npos) {
        out += kTo[k];
      } else if (digits > 0) {
        append_code(out, raw.substr(i + 1, digits), digits, 16);
        i += digits;
      } else if (c >= '0' && c <= '7') {
        size_t n = 1;
        while (n < 3 && i + n < raw.size() && raw[i + n] >= '0' && raw[i + n] <= '7') ++n;
        append_code(out, raw.substr(i, n), n, 8);
        i += n - 1;
      } else {
        (out += '\\') += c;
      }
    }
    return out;
  }
  void append_code(std::string& out, std::string_view digits, size_t want, int base) const {
    unsigned code = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, base);
    bool whole = digits.size() == want && error == std::errc() && end == digits.data() + digits.size();
    if (!whole || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) fault("a wrong escape in a string");
    utf8_append(out, code);
  }

  std::string source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) { return Lexer(prepared(source)).run(); }

}  // namespace jinja
