#include "grammar/vocabulary.h"

#include <algorithm>
#include <numeric>

namespace grammar {

Vocabulary::Vocabulary(std::span<const std::string_view> bytes) {
  at_.reserve(bytes.size() + 1);
  at_.push_back(0);
  for (auto text : bytes) {
    text_.insert(text_.end(), text.begin(), text.end());
    at_.push_back(uint32_t(text_.size()));
    longest_ = std::max(longest_, uint32_t(text.size()));
  }
  tokens_.resize(bytes.size());
  std::iota(tokens_.begin(), tokens_.end(), 0);
  std::erase_if(tokens_, [&](uint32_t id) { return bytes[id].empty(); });
  std::sort(tokens_.begin(), tokens_.end(),
            [&](uint32_t a, uint32_t b) { return bytes[a] != bytes[b] ? bytes[a] < bytes[b] : a < b; });
  std::vector<uint32_t> open;  // the nodes of the last text
  std::string_view last;
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view text = bytes[tokens_[i]];
    size_t common = 0;
    while (common < std::min(last.size(), text.size()) && last[common] == text[common]) ++common;
    for (; open.size() > common; open.pop_back()) nodes_[open.back()].end = uint32_t(nodes_.size());
    for (size_t at = common; at < text.size(); ++at) {
      open.push_back(uint32_t(nodes_.size()));
      nodes_.push_back({uint8_t(text[at]), 0, 0, 0, 0});
    }
    for (uint32_t node : open)
      nodes_[node].longest = std::max(nodes_[node].longest, uint8_t(std::min<size_t>(text.size(), 255)));
    TrieNode& node = nodes_[open.back()];
    if (node.tokens_end == 0) node.token = i;
    node.tokens_end = i + 1;
    last = text;
  }
  for (; !open.empty(); open.pop_back()) nodes_[open.back()].end = uint32_t(nodes_.size());
}

std::string_view Vocabulary::bytes(uint32_t id) const {
  if (id >= size()) return {};
  return {text_.data() + at_[id], at_[id + 1] - at_[id]};
}

}  // namespace grammar
