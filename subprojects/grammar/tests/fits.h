// Whether texts fit a grammar.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/matcher.h"
#include "grammar/readers.h"

namespace grammar {

inline std::shared_ptr<const TokenAutomaton> over(const Result<Grammar>& grammar,
                                                  const std::vector<std::string_view>& tokens = {}) {
  if (!grammar) {
    ADD_FAILURE() << grammar.error().message;
    return nullptr;
  }
  auto automaton = Automaton::compile(*grammar);
  if (!automaton) {
    ADD_FAILURE() << automaton.error().message;
    return nullptr;
  }
  return std::make_shared<TokenAutomaton>(*automaton, std::make_shared<Vocabulary>(tokens));
}

inline bool fits(const std::shared_ptr<const TokenAutomaton>& shared, std::string_view text) {
  Matcher matcher(shared);
  return (text.empty() || matcher.accept(text)) && matcher.accepting();
}
inline bool fits(const Result<Grammar>& grammar, std::string_view text) { return fits(over(grammar), text); }

// Why the grammar is refused, by its reader or when it is compiled; empty: it is not.
inline std::string refusal(const Result<Grammar>& grammar) {
  if (!grammar) return grammar.error().message;
  auto automaton = Automaton::compile(*grammar);
  return automaton ? "" : automaton.error().message;
}

// The tokens that may come next, by the mask; empty also where it is refused.
inline std::vector<uint32_t> allowed(Matcher& matcher, uint32_t vocabulary) {
  std::vector<uint32_t> words((vocabulary + 31) / 32), out;
  if (!matcher.mask(words)) return out;
  for (uint32_t id = 0; id < vocabulary; ++id)
    if (words[id / 32] >> id % 32 & 1) out.push_back(id);
  return out;
}

}  // namespace grammar
