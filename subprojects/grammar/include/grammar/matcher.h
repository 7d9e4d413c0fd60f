// Matcher: one text on its way through an automaton, byte by byte or token by token, and which tokens may come next.
//
// TokenAutomaton is what the matchers of one grammar and one vocabulary share: for every state the tokens that match
// whatever called the state's rule ("local" ones), found when a matcher first comes there. A token that outlives the
// rule is tried with the matcher's own stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "grammar/automaton.h"
#include "grammar/vocabulary.h"

namespace grammar {

class TokenAutomaton {
 public:
  TokenAutomaton(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const Vocabulary> vocabulary);
  ~TokenAutomaton();
  const Automaton& automaton() const { return *automaton_; }
  const Vocabulary& vocabulary() const { return *vocabulary_; }
  size_t bytes() const;  // of memory, about, as it is now

  struct Cache;  // of local masks; src/token_masks.h
  Cache& cache() const { return *cache_; }

 private:
  std::shared_ptr<const Automaton> automaton_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<Cache> cache_;
};

class Matcher {
 public:
  explicit Matcher(std::shared_ptr<const TokenAutomaton> shared);
  Matcher(Matcher&&) noexcept;
  ~Matcher();

  // Takes these bytes. False where they do not fit; the matcher is then of no use.
  bool accept(std::string_view bytes);
  bool accept_token(uint32_t id) { return accept(shared_->vocabulary().bytes(id)); }
  // Words of 32 ids, ceil(vocabulary / 32) of them: sets the bits of the tokens that may come next, clears the others.
  // False where the grammar is so ambiguous that finding them takes too long: the sequence has to end.
  bool mask(std::span<uint32_t> words);

  bool accepting() const;  // the text may end here
  bool complete() const;   // it must

  struct Parts;  // src/matcher.cc

 private:
  std::shared_ptr<const TokenAutomaton> shared_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace grammar
