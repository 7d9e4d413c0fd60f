// TokenizerParts: what a tokenizer.json becomes. The room's own; other rooms see Tokenizer.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decode.h"
#include "text/piece_map.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"
#include "text/word_piece.h"

namespace weir::text {

struct TokenizerParts {
  Normalizer normalizer;
  PreTokenizer pre;
  Bpe bpe;
  std::optional<WordPiece> word_piece;  // instead of merges
  Decoder decoder;
  AddedTokens added;
  std::vector<uint32_t> prefix, suffix;  // what the post-processor puts around a text
  StringList spelled, bytes;             // by id
  PieceMap ids;                          // spelling -> id, added tokens included
  std::vector<bool> special;             // by id
};

struct Tokenizer::Parts : TokenizerParts {};

// Fills empty parts. Errors: INVALID_ARGUMENT, naming the part of the file.
base::Status read_tokenizer(std::string_view json, TokenizerParts& parts);

}  // namespace weir::text
