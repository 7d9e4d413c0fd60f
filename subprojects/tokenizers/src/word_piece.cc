#include "word_piece.h"

#include <algorithm>

namespace tokenizers {
namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// Bytes of the longest start of `text` that the map has, and its value; 0 when there is none.
size_t longest(const PieceMap& map, std::string_view text, uint32_t& value) {
  size_t n = std::min(text.size(), map.longest());
  for (; n > 0; --n) {
    if (n < text.size() && !begins_character(text[n])) continue;
    if (const uint32_t* found = map.find(text.substr(0, n))) {
      value = *found;
      return n;
    }
  }
  return 0;
}

}  // namespace

void WordPiece::reserve(size_t pieces, size_t bytes) {
  begins_.reserve(pieces, bytes);
  goes_on_.reserve(pieces, bytes);
}

void WordPiece::add(std::string_view piece, uint32_t id) {
  begins_.put(piece, id);
  if (piece.starts_with(prefix_)) goes_on_.put(piece.substr(prefix_.size()), id);
}

void WordPiece::encode(std::string_view word, std::vector<uint32_t>& out) const {
  const size_t before = out.size();
  bool known = word.size() <= most_characters_ ||
               size_t(std::count_if(word.begin(), word.end(), begins_character)) <= most_characters_;
  for (size_t at = 0; known && at < word.size();) {
    uint32_t id = unk_;
    size_t n = longest(at == 0 ? begins_ : goes_on_, word.substr(at), id);
    known = n > 0;
    out.push_back(id);
    at += n;
  }
  if (known) return;
  out.resize(before);
  out.push_back(unk_);
}

}  // namespace tokenizers
