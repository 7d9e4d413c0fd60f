// WordPiece: one word -> token ids, the longest piece of the vocabulary first, then the longest that continues it
// (BERT, arXiv 1810.04805, with the vocabulary of arXiv 1609.08144). Immutable after the last add(); any thread.
//
// A word of which some part is no piece is the unknown token as a whole, and so is one of too many characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "piece_map.h"

namespace tokenizers {

class WordPiece {
 public:
  WordPiece(std::string prefix, uint32_t unk, uint32_t most_characters)
      : prefix_(std::move(prefix)), unk_(unk), most_characters_(most_characters) {}

  void reserve(size_t pieces, size_t bytes);
  void add(std::string_view piece, uint32_t id);
  // Appends the ids of `word`, valid UTF-8.
  void encode(std::string_view word, std::vector<uint32_t>& out) const;

 private:
  std::string prefix_;  // of pieces that continue a word: "##"
  uint32_t unk_, most_characters_;
  PieceMap begins_, goes_on_;  // the latter without the prefix
};

}  // namespace tokenizers
