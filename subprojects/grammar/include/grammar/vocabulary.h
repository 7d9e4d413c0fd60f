// Vocabulary: the bytes of every token of a model, as a trie. Immutable; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace grammar {

class Vocabulary {
 public:
  // In the order of a depth-first walk: the children of node i begin at i + 1 and end before nodes[i].end; the next
  // child after c begins at nodes[c].end.
  struct TrieNode {
    uint8_t byte = 0;
    uint8_t longest = 0;  // bytes of the longest token that is here or below; 255 stands for more
    uint32_t end = 0;
    uint32_t token = 0, tokens_end = 0;  // of tokens(): those that end here
  };

  // `bytes` are per id; an empty one is never a part of a text (special tokens).
  explicit Vocabulary(std::span<const std::string_view> bytes);

  const std::vector<TrieNode>& nodes() const { return nodes_; }
  const std::vector<uint32_t>& tokens() const { return tokens_; }
  std::string_view bytes(uint32_t id) const;  // copied; empty for ids that there are not
  uint32_t size() const { return uint32_t(at_.size() - 1); }
  uint32_t length(uint32_t id) const { return at_[id + 1] - at_[id]; }
  size_t memory() const {  // bytes, about
    return text_.size() + 4 * (at_.size() + tokens_.size()) + sizeof(TrieNode) * nodes_.size();
  }
  uint32_t longest() const { return longest_; }  // bytes of a token

 private:
  std::vector<char> text_;
  std::vector<uint32_t> at_;  // per id: where its bytes begin; and the end
  std::vector<TrieNode> nodes_;
  std::vector<uint32_t> tokens_;
  uint32_t longest_ = 0;
};

}  // namespace grammar
