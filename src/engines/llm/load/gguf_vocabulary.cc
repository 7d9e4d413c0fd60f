#include "engines/llm/load/gguf_vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/encoding.h"

namespace weir::llm {
namespace {

using nlohmann::json;

bool is_text(const Gguf& gguf, std::string_view name, std::string_view text) {
  const auto* found = gguf.get<std::string>(name);
  return found && *found == text;
}

// Those of Phi-3 that leave the white space behind them, as its tokenizer.json says and llama.cpp knows.
bool is_plain(std::string_view token) { return token == "<unk>" || token == "<s>" || token == "<|endoftext|>"; }

}  // namespace

std::string token_field(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

base::Status bad_token_field(std::string_view name, std::string_view what) {
  return base::invalid("GGUF: '" + token_field(name) + "' " + std::string(what));
}

base::Status GgufVocabulary::read(const Gguf& gguf) {
  auto list = gguf.get<std::vector<std::string>>(token_field("tokens"));
  if (!list || list->empty()) return bad_token_field("tokens", "is no list of tokens");
  tokens = *list;
  std::set<std::string_view> seen;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].empty()) tokens[i] = "[EMPTY_" + std::to_string(i) + "]";  // as llama.cpp calls it
    if (!seen.insert(tokens[i]).second)
      return bad_token_field("tokens", "has '" + base::presentable(tokens[i], 60) + "' twice");
  }
  types.assign(tokens.size(), TokenType::kNormal);
  if (auto given = gguf.get<std::vector<int64_t>>(token_field("token_type"))) {
    if (given->size() < tokens.size()) return bad_token_field("token_type", "is shorter than the list of tokens");
    for (size_t i = 0; i < tokens.size(); ++i) types[i] = TokenType((*given)[i]);
  }
  strips = is_text(gguf, "general.architecture", "phi3") && is_text(gguf, token_field("model"), "llama");
  scores = gguf.get<std::vector<double>>(token_field("scores"));
  if (scores && scores->size() < tokens.size()) return bad_token_field("scores", "is shorter than the list of tokens");
  return {};
}

json GgufVocabulary::pieces() const {
  json out = json::object();
  for (size_t i = 0; i < tokens.size(); ++i) out[tokens[i]] = i;
  return out;
}

json GgufVocabulary::added() const {
  json out = json::array();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool special = types[i] == TokenType::kControl || types[i] == TokenType::kUnknown;
    if (!special && types[i] != TokenType::kUserDefined) continue;
    out.push_back({{"id", i},
                   {"content", tokens[i]},
                   {"single_word", false},
                   {"lstrip", false},
                   {"rstrip", strips && !is_plain(tokens[i])},
                   {"normalized", false},
                   {"special", special}});
  }
  return out;
}

std::optional<size_t> GgufVocabulary::first(TokenType type) const {
  auto found = std::find(types.begin(), types.end(), type);
  if (found == types.end()) return {};
  return size_t(found - types.begin());
}

std::optional<size_t> GgufVocabulary::special(const Gguf& gguf, std::string_view name) const {
  auto id = gguf.get<int64_t>(token_field(std::string(name) + "_token_id"));
  if (!id || *id < 0 || uint64_t(*id) >= tokens.size()) return {};
  return size_t(*id);
}

}  // namespace weir::llm
