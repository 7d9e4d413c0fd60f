// DecodeStream: text that comes token by token, never half a character. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "tokenizers/tokenizer.h"

namespace tokenizers {

// The texts of all steps and of finish() together are what Tokenizer::decode() makes of all ids; each is whole UTF-8.
class DecodeStream {
 public:
  DecodeStream(const Tokenizer& tokenizer, SkipSpecial skip);  // borrowed
  // Appends the text that this token makes certain to `out`; nothing while a UTF-8 sequence is incomplete.
  void step(uint32_t id, std::string& out);
  // Appends the bytes that were held back; an incomplete sequence becomes U+FFFD.
  void finish(std::string& out);

 private:
  const Tokenizer& tokenizer_;
  SkipSpecial skip_;
  bool at_start_;   // of a text of WordPieces: no piece has come
  uint32_t strip_;  // how many more spaces at the text's beginning are not part of it
  std::string held_;
};

}  // namespace tokenizers
