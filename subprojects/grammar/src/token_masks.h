// The local masks of a TokenAutomaton: what is known of a state without its stack.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "grammar/matcher.h"
#include "stacks.h"

namespace grammar {

// The bytes that tokens which outlive a rule have behind its end, as a trie, so that tokens with the same rest are
// tried together.
struct TokenRests {
  Vocabulary rests;              // its ids are places in `tokens`
  std::vector<uint32_t> tokens;  // per rest
};

// A list where there are few tokens, else bits.
struct LocalMask {
  std::vector<uint32_t> tokens, words;
  std::vector<uint32_t> leaves;  // nodes of the trie at which the rule may end, that have children
  // Where there are many leaves: `wide` are those that are tried one by one, for they have many tokens below.
  std::unique_ptr<const TokenRests> rests;
  std::vector<uint32_t> wide;
  size_t bytes() const {
    return sizeof *this + 4 * (tokens.size() + words.size() + leaves.size() + wide.size()) +
           (rests ? rests->rests.memory() + 4 * rests->tokens.size() : 0);
  }
};

// A state; and, where it is in the body of a counted call, that call with what is still to be counted, as far as a
// token can reach; `left` is kUncounted for a text that may repeat as often as it likes.
struct LocalKey {
  uint32_t state = 0, call = UINT32_MAX, needed = 0, left = 0;
  bool operator==(const LocalKey&) const = default;
};

struct TokenAutomaton::Cache final : MaskBudget::Holder {
  explicit Cache(std::shared_ptr<MaskBudget> shared) : budget(std::move(shared)) { budget->join(*this); }
  ~Cache() {
    budget->leave(*this);
    budget->give(kept());
  }
  Cache(const Cache&) = delete;
  struct Hash {
    size_t operator()(const LocalKey& k) const {
      uint64_t x = (uint64_t(k.state) << 32 | k.call) * 0x9e3779b97f4a7c15ull;
      return size_t((x ^ (uint64_t(k.needed) << 32 | k.left)) * 0xbf58476d1ce4e5b9ull >> 16);
    }
  };
  std::shared_ptr<const LocalMask> find(const LocalKey& key);
  void put(const LocalKey& key, std::shared_ptr<const LocalMask> mask);
  size_t kept() const override { return bytes.load(std::memory_order_relaxed); }
  std::shared_ptr<const void> drop() override;
  // Masks that were not found: how many steps were too few for one. kNoSteps: there is no finding it.
  static constexpr uint64_t kNoSteps = UINT64_MAX;
  uint64_t too_few(const LocalKey& key);
  void put_too_few(const LocalKey& key, uint64_t steps);

  SharedSteps steps;
  std::atomic<uint64_t> steps_taken{0};
  const std::shared_ptr<MaskBudget> budget;
  mutable std::mutex mutex;
  using Masks = std::unordered_map<LocalKey, std::shared_ptr<const LocalMask>, Hash>;
  Masks masks;                                          // under mutex
  std::atomic<size_t> bytes{0};                         // of them; written under mutex
  std::unordered_map<LocalKey, uint64_t, Hash> costly;  // under mutex
};

// Walks the children of trie nodes with a position: found(node) for each node that it reaches.
class TrieWalk {
 public:
  explicit TrieWalk(Stacks& stacks) : stacks_(stacks) {}

  // Nodes [begin, end), which are siblings with all below them; of those only the ones that a token of more than
  // `above` bytes goes through. `found(node, position)`.
  template <class Found>
  void run(const std::vector<Vocabulary::TrieNode>& nodes, uint32_t begin, uint32_t end, const Position& from,
           Found&& found, uint32_t above = 0) {
    ends_.clear();
    const size_t frames = stacks_.frames();
    for (uint32_t i = begin; i < end && !stacks_.exhausted();) {
      while (!ends_.empty() && i >= ends_.back()) ends_.pop_back();
      if (nodes[i].longest <= above) {
        i = nodes[i].end;
        continue;
      }
      if (levels_.size() <= ends_.size()) levels_.emplace_back(std::make_unique<Position>());
      Position& next = *levels_[ends_.size()];
      const Position& here = ends_.empty() ? from : *levels_[ends_.size() - 1];
      const auto& node = nodes[i];
      stacks_.advance(here, node.byte, next);
      if (!next.dead()) found(i, next);
      if (next.items.empty() || node.end == i + 1) {
        i = node.end;
      } else {
        ends_.push_back(node.end);
        ++i;
      }
    }
    stacks_.shrink(frames);
  }

 private:
  Stacks& stacks_;
  std::vector<std::unique_ptr<Position>> levels_;
  std::vector<uint32_t> ends_;
};

}  // namespace grammar
