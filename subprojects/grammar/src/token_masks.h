// The local masks of a TokenAutomaton: what is known of a state without its stack.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "grammar/matcher.h"
#include "stacks.h"

namespace grammar {

// A list where there are few tokens, else bits.
struct LocalMask {
  std::vector<uint32_t> tokens, words;
  std::vector<uint32_t> leaves;  // nodes of the trie at which the rule may end, that have children
  size_t bytes() const { return sizeof *this + 4 * (tokens.size() + words.size() + leaves.size()); }
};

// A state; and, where it is in the body of a counted call, that call with what is still to be counted, as far as a
// token can reach.
struct LocalKey {
  uint32_t state = 0, call = UINT32_MAX, needed = 0, left = 0;
  bool operator==(const LocalKey&) const = default;
};

struct TokenAutomaton::Cache {
  static constexpr size_t kMostBytes = size_t(32) << 20;
  struct Hash {
    size_t operator()(const LocalKey& k) const {
      uint64_t x = (uint64_t(k.state) << 32 | k.call) * 0x9e3779b97f4a7c15ull;
      return size_t((x ^ (uint64_t(k.needed) << 32 | k.left)) * 0xbf58476d1ce4e5b9ull >> 16);
    }
  };
  std::shared_ptr<const LocalMask> find(const LocalKey& key);
  void put(const LocalKey& key, std::shared_ptr<const LocalMask> mask);

  mutable std::mutex mutex;
  std::unordered_map<LocalKey, std::shared_ptr<const LocalMask>, Hash> masks;  // this and the next: under mutex
  size_t bytes = 0;
};

// Walks the children of trie nodes with a position: found(node) for each node that it reaches.
class TrieWalk {
 public:
  TrieWalk(Stacks& stacks, const Vocabulary& vocabulary) : stacks_(stacks), nodes_(vocabulary.nodes()) {}

  // Nodes [begin, end), which are siblings with all below them. `found(node, position)`.
  template <class Found>
  void run(uint32_t begin, uint32_t end, const Position& from, Found&& found) {
    ends_.clear();
    const size_t frames = stacks_.frames();
    for (uint32_t i = begin; i < end && !stacks_.exhausted();) {
      while (!ends_.empty() && i >= ends_.back()) ends_.pop_back();
      if (levels_.size() <= ends_.size()) levels_.emplace_back(std::make_unique<Position>());
      Position& next = *levels_[ends_.size()];
      const Position& here = ends_.empty() ? from : *levels_[ends_.size() - 1];
      const auto& node = nodes_[i];
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
  const std::vector<Vocabulary::TrieNode>& nodes_;
  std::vector<std::unique_ptr<Position>> levels_;
  std::vector<uint32_t> ends_;
};

}  // namespace grammar
