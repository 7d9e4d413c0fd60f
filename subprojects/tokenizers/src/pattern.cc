#include "pattern.h"

#include <algorithm>
#include <cstdint>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace tokenizers {

namespace {

constexpr size_t kMaxPattern = 1 << 16;
// Steps that one search may take: more than any tokenizer's pattern needs, and no more than a text is worth.
constexpr uint32_t kMatchLimit = 10'000'000, kMinSteps = 100'000, kStepsPerByte = 64;
constexpr size_t kJitStack = 4u << 20;

// Property White_Space as ranges: PCRE2's own \s also has U+180E, and ranges become one table look-up for Latin-1.
constexpr std::string_view kSpaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";

// Oniguruma's syntax -> PCRE2's.
class Translation {
 public:
  explicit Translation(std::string_view source) : source_(source) {}

  std::optional<Error> run() {
    while (at_ < source_.size() && error_.empty()) step();
    if (error_.empty()) return std::nullopt;
    return Error{std::move(error_)};
  }
  std::string take() { return std::move(out_); }

 private:
  void step() {
    char c = source_[at_];
    if (c == '\\' && at_ + 1 < source_.size()) return escape(source_[at_ + 1]);
    if (depth_ > 0 && c == '&' && source_.substr(at_).starts_with("&&")) return refuse("a class intersection (&&)");
    if (depth_ > 0 && c == '[' && !source_.substr(at_).starts_with("[:")) return refuse("a class inside a class");
    if (c == '[') {
      open_class();
      return;
    }
    if (c == ']' && depth_ > 0) depth_ = 0;
    out_ += c;
    ++at_;
  }

  void open_class() {
    if (depth_ > 0) {  // [:alpha:]
      size_t end = source_.find(":]", at_);
      if (end == source_.npos) return refuse("an unfinished class");
      out_ += source_.substr(at_, end + 2 - at_);
      at_ = end + 2;
      return;
    }
    depth_ = 1;
    out_ += source_[at_++];
    if (at_ < source_.size() && source_[at_] == '^') out_ += source_[at_++];
    if (at_ < source_.size() && source_[at_] == ']') out_ += "\\]", ++at_;
  }

  void escape(char c) {
    at_ += 2;
    auto set = [&](std::string_view sign, std::string_view members) {
      if (depth_ == 0) (out_ += '[') += sign;
      out_ += members;
      if (depth_ == 0) out_ += ']';
    };
    switch (c) {
      case 's': return set("", kSpaces);
      case 'w': return set("", kWord);
      case 'S':
        if (depth_ == 0) return set("^", kSpaces);
        out_ += "\\P{White_Space}";
        return;
      case 'W':
        if (depth_ == 0) return set("^", kWord);
        return refuse("\\W inside a class");
      case 'h':
      case 'H':
      case 'G':
      case 'K':
      case 'R':
      case 'X':
      case 'g':
      case 'k': return refuse(std::string("\\") + c);
      default: out_ += '\\', out_ += c;
    }
  }

  void refuse(std::string what) { error_ = what + " at byte " + std::to_string(at_) + " is not supported"; }

  std::string_view source_;
  std::string out_, error_;
  size_t at_ = 0;
  int depth_ = 0;  // inside […]
};

}  // namespace

struct Pattern::Code {
  pcre2_code* code = nullptr;
  bool jit = false;
  ~Code() { pcre2_code_free(code); }
};

struct Pattern::Search::Memory {
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
  ~Memory() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

Pattern::Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Pattern Pattern::literal(std::string text) {
  Pattern out;
  out.literal_ = std::move(text);
  return out;
}

Result<Pattern> Pattern::compile(std::string_view regex) {
  if (regex.size() > kMaxPattern) return Error{"the regular expression is too long"};
  Translation translation(regex);
  if (auto error = translation.run()) return std::move(*error);
  std::string source = translation.take();
  int error = 0;
  size_t where = 0;
  Pattern out;
  out.code_ = std::make_unique<Code>();
  out.code_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &where, nullptr);
  if (!out.code_->code) {
    char text[256] = {};
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
    return Error{"the regular expression '" + std::string(regex.substr(0, 200)) + "': " + text};
  }
  out.code_->jit = pcre2_jit_compile(out.code_->code, PCRE2_JIT_COMPLETE) == 0;
  return out;
}

Pattern::Search::Search(Search&&) noexcept = default;
Pattern::Search::~Search() = default;

Pattern::Search::Search(const Pattern& pattern, FailureBudget& failures) : pattern_(&pattern), failures_(&failures) {
  if (!pattern.code_) return;
  memory_ = std::make_unique<Memory>();
  memory_->data = pcre2_match_data_create(1, nullptr);
  memory_->context = pcre2_match_context_create(nullptr);
  pcre2_set_heap_limit(memory_->context, 64 << 10);  // KiB
}

std::optional<Pattern::Match> Pattern::Search::next(std::string_view text, size_t from) {
  if (!memory_) {
    const std::string& word = pattern_->literal_;
    size_t at = word.empty() ? text.npos : text.find(word, from);
    if (at == text.npos) return std::nullopt;
    return Match{at, at + word.size()};
  }
  if (failures_->left == 0) return std::nullopt;
  auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const Code& code = *pattern_->code_;
  pcre2_set_match_limit(memory_->context,
                        uint32_t(std::min<size_t>(kMinSteps + kStepsPerByte * text.size(), kMatchLimit)));
  int rc;
  if (code.jit) {
    rc = pcre2_jit_match(code.code, subject, text.size(), from, 0, memory_->data, memory_->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && !memory_->stack) {
      memory_->stack = pcre2_jit_stack_create(64 << 10, kJitStack, nullptr);
      if (memory_->stack) pcre2_jit_stack_assign(memory_->context, nullptr, memory_->stack);
      rc = pcre2_jit_match(code.code, subject, text.size(), from, 0, memory_->data, memory_->context);
    }
  } else {
    rc = pcre2_match(code.code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, memory_->data, memory_->context);
  }
  if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) --failures_->left;
  if (rc < 0) return std::nullopt;
  size_t* found = pcre2_get_ovector_pointer(memory_->data);
  if (found[0] < from || found[1] < found[0]) return std::nullopt;  // \K in a lookaround
  return Match{found[0], found[1]};
}

}  // namespace tokenizers
