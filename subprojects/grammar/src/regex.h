// Regular expressions into nodes of a grammar that is there already.
#pragma once

#include <string>
#include <string_view>

#include "grammar/error.h"
#include "grammar/grammar.h"

namespace grammar {

// kWhole: the whole text matches. kSearch: a part of it does, as JSON schema's `pattern` has it.
enum class Match : uint8_t { kWhole, kSearch };
// kJson: the text is the inside of a JSON string; characters that are escaped there are.
enum class Quoting : uint8_t { kNone, kJson };

struct Regex {
  Node node = Grammar::kEmpty;
  uint64_t least = 0, most = 0;  // characters; most >= kUnbounded: any number
  // Where the whole is one character, repeated: its node. Else kNever.
  Node unit = Grammar::kNever;
};

// The error begins with "at <byte>: ".
Result<Regex> read_regex_into(Grammar& out, std::string_view text, Match match, Quoting quoting);
// One of these characters.
Node quoted(Grammar& out, const std::vector<CodeRange>& ranges, Quoting quoting);

}  // namespace grammar
