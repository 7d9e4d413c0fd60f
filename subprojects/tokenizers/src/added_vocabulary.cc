#include "added_vocabulary.h"

#include <unicode/uchar.h>

#include "utf8.h"

namespace tokenizers {

namespace {

bool word_character(char32_t c) {
  auto code = UChar32(c);
  return c == '_' || u_isUAlphabetic(code) || u_isdigit(code) || (U_GET_GC_MASK(code) & (U_GC_M_MASK | U_GC_PC_MASK));
}

// The first byte of the character that ends at `end`.
size_t before(std::string_view text, size_t end) {
  do --end;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  return end;
}

bool inside_word(std::string_view text, size_t from, size_t to) {
  size_t at = to;
  return (from > 0 && word_character(utf8_code(text.substr(before(text, from), from - before(text, from))))) ||
         (to < text.size() && word_character(utf8_next(text, at)));
}

}  // namespace

const TokenTrie::Node* TokenTrie::child(const Node& node, uint8_t byte) const {
  for (const auto& [b, index] : node.next)
    if (b == byte) return &nodes_[index];
  return nullptr;
}

void TokenTrie::add(std::string_view content, const AddedToken& token) {
  if (content.empty()) return;
  uint32_t at = 0;
  for (char c : content) {
    const Node* next = child(nodes_[at], uint8_t(c));
    if (next) {
      at = uint32_t(next - nodes_.data());
      continue;
    }
    nodes_[at].next.emplace_back(uint8_t(c), uint32_t(nodes_.size()));
    at = uint32_t(nodes_.size());
    nodes_.emplace_back();
  }
  nodes_[at].token = int32_t(tokens_.size());
  tokens_.push_back({token.id, token.single_word, token.lstrip, token.rstrip});
  begins_[uint8_t(content[0])] = true;
}

std::optional<TokenTrie::Found> TokenTrie::next(std::string_view text, size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (!begins_[uint8_t(text[at])]) continue;
    int32_t best = -1;
    size_t end = at;
    const Node* node = &nodes_[0];
    for (size_t i = at; i < text.size() && (node = child(*node, uint8_t(text[i]))); ++i)
      if (node->token >= 0) best = node->token, end = i + 1;
    if (best < 0) continue;
    const TrieToken& token = tokens_[size_t(best)];
    if (token.single_word && inside_word(text, at, end)) {
      at = end - 1;
      continue;
    }
    Found found{at, end, token.id};
    while (token.lstrip && found.from > from) {
      size_t start = before(text, found.from);
      if (!u_isUWhiteSpace(UChar32(utf8_code(text.substr(start, found.from - start))))) break;
      found.from = start;
    }
    for (size_t stop = found.to; token.rstrip && found.to < text.size(); found.to = stop)
      if (!u_isUWhiteSpace(UChar32(utf8_next(text, stop)))) break;
    return found;
  }
  return std::nullopt;
}

void AddedVocabulary::add(const AddedToken& token, const Normalizer& normalizer) {
  if (!token.normalized || normalizer.empty()) return raw_.add(token.content, token);
  std::string storage;
  Pattern::FailureBudget failures;
  normalized_.add(normalizer.apply(token.content, storage, failures), token);
}

}  // namespace tokenizers
