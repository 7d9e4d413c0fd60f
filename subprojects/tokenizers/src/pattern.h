// Pattern: a regular expression of a tokenizer.json, which are written for Oniguruma, compiled by PCRE2 with UTF and
// UCP (and its JIT where the machine has one); or a plain string to look for. Immutable; any thread.
//
// Syntax that the two libraries read differently is translated (\s is White_Space; ^ and $ are line borders) or refused
// (class intersections, \h). https://github.com/kkos/oniguruma/blob/master/doc/RE, pcre2pattern(3).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizers/error.h"

namespace tokenizers {

class Pattern {
 public:
  struct Match {
    size_t from, to;
  };
  // The error says what is wrong and where.
  static Result<Pattern> compile(std::string_view regex);
  static Pattern literal(std::string text);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // How many more searches of one text may give up; at 0 no search is begun.
  struct FailureBudget {
    uint32_t left = 8;
  };

  // Working memory for matching; one thread.
  class Search {
   public:
    Search(const Pattern& pattern, FailureBudget& failures);  // both borrowed
    Search(Search&&) noexcept;
    ~Search();
    // The first match in `text` that starts at `from` or later; `text` is valid UTF-8. None too when matching takes
    // more steps than any tokenizer's pattern needs, or has done so too often.
    std::optional<Match> next(std::string_view text, size_t from);

   private:
    struct Memory;
    const Pattern* pattern_;
    FailureBudget* failures_;
    std::unique_ptr<Memory> memory_;
  };

 private:
  struct Code;
  Pattern();
  std::unique_ptr<Code> code_;  // null: literal_
  std::string literal_;
};

}  // namespace tokenizers
