// Matcher::Parts: what a matcher has of its text: the position, and the calls that it is inside of. matcher.cc has the
// text; token_masks.cc the masks that do not depend on it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "token_masks.h"

namespace grammar {

struct Matcher::Parts {
  // The steps for the masks of one token that each text has of its own. A step takes 5 to 20 ns.
  static constexpr uint64_t kStepsPerToken = 100'000;
  static constexpr uint64_t kStepsPerText = 100'000;  // that it adds to those of all texts

  explicit Parts(const TokenAutomaton& from) : shared(from), stacks(from.automaton()), walk(stacks) {
    stacks.steps_left = kStepsPerToken;
    from.cache().steps.give(kStepsPerText);
    stacks.enter({from.automaton().start, kRootFrame}, position);
  }

  bool accept(std::string_view bytes);
  bool mask(std::span<uint32_t> words);
  bool add_masks(std::span<uint32_t> words);
  void add_local(const LocalMask& local, std::span<uint32_t> words) const;
  void add_leaves(const LocalMask& local, FrameId base, std::span<uint32_t> words);
  LocalKey key_of(const Item& item, FrameId& base) const;
  LocalKey counted_key(uint32_t state, uint32_t index, uint32_t count) const;
  // `count`: one of those that the key stands for. Null: out of steps.
  std::shared_ptr<const LocalMask> local_mask(const LocalKey& key, uint32_t count);
  bool has_uncounted(const LocalKey& key);
  std::shared_ptr<LocalMask> find_mask(const LocalKey& key, uint32_t count, const LocalMask* uncounted);
  void find_rests(LocalMask& mask);
  void take_short(const LocalMask& uncounted, uint32_t most, LocalMask& out) const;
  bool takes_nothing(uint32_t rule);

  const TokenAutomaton& shared;
  Stacks stacks;
  TrieWalk walk;
  Position position, next;
  std::vector<uint32_t> leaves;  // keeps its capacity
};

}  // namespace grammar
