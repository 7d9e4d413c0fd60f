// Decoder: the text that a piece of the vocabulary adds, as a tokenizer.json's `decoder` says. All decoders that are
// supported look at one piece at a time, but for white space that is taken off the beginning of the text; so a decoder
// is a table that is made once, when the file is loaded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "normalizer.h"

namespace tokenizers {

struct Decoder {
  bool byte_level = false;
  bool byte_fallback = false;    // <0x0A> is the byte 0x0A
  std::string continuing;        // WordPiece: pieces without this prefix ("##") but the first begin with a space …
  bool cleanup = false;          // … which goes before punctuation and English endings
  std::vector<Replace> replace;  // in each piece, in this order
  char strip = ' ';              // this character …
  uint32_t strip_start = 0;      // … is taken off the text's beginning up to so many times

  // The bytes of a piece; perhaps a part of a UTF-8 sequence.
  std::string bytes(std::string_view piece, Pattern::FailureBudget& failures) const;
  // The bytes of the first piece of a text, which differ with WordPiece.
  std::string first(std::string_view piece) const;
};

// 0x0A of "<0x0A>".
std::optional<uint8_t> byte_of_piece(std::string_view piece);

}  // namespace tokenizers
