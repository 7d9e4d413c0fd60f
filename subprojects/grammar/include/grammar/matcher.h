// Matcher: one text on its way through an automaton, byte by byte or token by token, and which tokens may come next.
//
// TokenAutomaton is what the matchers of one grammar and one vocabulary share: for every state the tokens that match
// whatever called the state's rule ("local" ones), found when a matcher first comes there. A token that outlives the
// rule is tried with the matcher's own stack.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/vocabulary.h"

namespace grammar {

// Bytes of local masks that several TokenAutomatons may keep together. Where they are used up, the one that keeps most
// drops its own: one with many masks makes no other find its few again for each token. Any thread.
class MaskBudget {
 public:
  // A TokenAutomaton's masks. Any thread.
  class Holder {
   public:
    virtual size_t kept() const = 0;  // bytes
    // Keeps none any more. They are in what it returns, to be destroyed without a lock: there may be many thousands.
    virtual std::shared_ptr<const void> drop() = 0;

   protected:
    ~Holder() = default;
  };

  explicit MaskBudget(size_t most) : most_(most) {}
  void join(Holder& holder);
  void leave(Holder& holder);  // no drop() of it is called any more
  // Takes so many, for which some that keep more than others on average may have to drop theirs. False: there are not
  // so many. The caller holds no lock that a drop() takes.
  bool take_from_large(size_t bytes) {
    while (!take(bytes))
      if (!drop_large()) return false;
    return true;
  }
  bool take(size_t bytes) {
    if (used_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= most_) return true;
    give(bytes);
    return false;
  }
  void give(size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  size_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  bool drop_large();  // false: nobody keeps anything

  const size_t most_;
  std::atomic<size_t> used_{0};
  std::mutex mutex_;
  std::vector<Holder*> holders_;  // under mutex_
  uint64_t draw_ = 1;             // under mutex_
};

class TokenAutomaton {
 public:
  static constexpr size_t kMostMaskBytes = size_t(32) << 20;  // of one; those that do not fit are found anew
  // `budget`: shared with others; null: its own.
  TokenAutomaton(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const Vocabulary> vocabulary,
                 std::shared_ptr<MaskBudget> budget = nullptr);
  ~TokenAutomaton();
  // Finds the local masks of all states ahead, so that no text has to: false where they take more than that many steps
  // (5 to 20 ns each), where one takes more than a text may take, or once `cancelled` (or null) is true. What is found
  // is kept.
  bool find_masks(uint64_t steps, const std::atomic<bool>* cancelled = nullptr) const;
  const Automaton& automaton() const { return *automaton_; }
  const Vocabulary& vocabulary() const { return *vocabulary_; }
  size_t bytes() const;    // of memory, about, as it is now
  uint64_t steps() const;  // that all texts together have wanted for their masks

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
  // False where the grammar is so ambiguous that finding them takes too long: the sequence has to end. What all texts
  // of a TokenAutomaton may take for that, beyond a little for each, they have together: a costly grammar does not take
  // longer the more texts it has.
  bool mask(std::span<uint32_t> words);

  bool accepting() const;  // the text may end here
  bool complete() const;   // it must

  struct Parts;  // src/matcher.cc

 private:
  std::shared_ptr<const TokenAutomaton> shared_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace grammar
