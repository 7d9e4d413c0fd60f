// GgufVocabulary: the tokens of a GGUF file's tokenizer, with their types and scores.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engines/llm/load/gguf.h"

namespace weir::llm {

enum class TokenType : int64_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

// "tokenizer.ggml.tokens"
std::string token_field(std::string_view name);
base::Status bad_token_field(std::string_view name, std::string_view what);

struct GgufVocabulary {
  std::vector<std::string> tokens;
  std::vector<TokenType> types;
  const std::vector<double>* scores = nullptr;  // in the file
  bool strips = false;                          // added tokens take the white space behind them

  // Errors: INVALID_ARGUMENT, naming the field.
  base::Status read(const Gguf& gguf);

  // By its id.
  nlohmann::json pieces() const;
  // Those that are looked for in a text before it is cut into words.
  nlohmann::json added() const;
  // The first token of that type.
  std::optional<size_t> first(TokenType type) const;
  // The token that "tokenizer.ggml.NAME_token_id" names; none where it is no token.
  std::optional<size_t> special(const Gguf& gguf, std::string_view name) const;
};

}  // namespace weir::llm
