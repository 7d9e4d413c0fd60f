// Pipeline: the parts of a tokenizer.json, in the order in which a text goes through them. Private to the library.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "added_vocabulary.h"
#include "bpe.h"
#include "decoder.h"
#include "piece_map.h"
#include "post_processor.h"
#include "pre_tokenizer.h"
#include "tokenizers/error.h"
#include "tokenizers/tokenizer.h"
#include "unigram.h"
#include "word_piece.h"

namespace tokenizers {

struct Pipeline {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  std::optional<WordPiece> word_piece;  // the model,
  std::optional<Unigram> unigram;       // where it is not BPE
  PostProcessor post_processor;
  Decoder decoder;
  AddedVocabulary added;
  StringList spelled, bytes;  // by id
  PieceMap ids;               // spelling -> id, added tokens included
  std::vector<bool> special;  // by id
};

struct Tokenizer::Parts : Pipeline {};

// Fills an empty pipeline. The error names the part of the file that is wrong.
std::optional<Error> read_tokenizer(std::string_view json, Pipeline& parts);

}  // namespace tokenizers
