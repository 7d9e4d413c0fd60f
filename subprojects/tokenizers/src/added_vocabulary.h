// AddedVocabulary: the tokens that are found in a text before the model sees it (<s>, <|im_start|>, …).
// Immutable after the last add(); any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "normalizer.h"

namespace tokenizers {

struct AddedToken {
  uint32_t id = 0;
  std::string content;
  bool single_word = false;  // not inside a word
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // and behind it
  bool normalized = false;   // looked for in the normalized text
  bool special = false;
};

// Longest match at the leftmost place.
class TokenTrie {
 public:
  struct Found {
    size_t from, to;
    uint32_t id;
  };
  void add(std::string_view content, const AddedToken& token);
  bool empty() const { return tokens_.empty(); }
  std::optional<Found> next(std::string_view text, size_t from) const;

 private:
  struct Node {
    int32_t token = -1;
    std::vector<std::pair<uint8_t, uint32_t>> next;
  };
  struct TrieToken {
    uint32_t id;
    bool single_word, lstrip, rstrip;
  };
  const Node* child(const Node& node, uint8_t byte) const;

  std::vector<Node> nodes_{Node{}};
  std::vector<TrieToken> tokens_;
  bool begins_[256] = {};
};

class AddedVocabulary {
 public:
  static constexpr size_t kMaxContent = 512;  // bytes of one token's content

  void add(const AddedToken& token, const Normalizer& normalizer);
  const TokenTrie& raw() const { return raw_; }                // for the text as it came
  const TokenTrie& normalized() const { return normalized_; }  // for what the normalizer made of it

 private:
  TokenTrie raw_, normalized_;
};

}  // namespace tokenizers
