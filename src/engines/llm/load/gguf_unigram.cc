#include "engines/llm/load/gguf_unigram.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/encoding.h"

namespace weir::llm {
namespace {

using nlohmann::json;

constexpr size_t kMostCharsmap = 16 << 20;  // bytes, as in subprojects/tokenizers

json metaspace(bool begins) {
  return {{"type", "Metaspace"}, {"replacement", "\xE2\x96\x81"}, {"prepend_scheme", begins ? "always" : "never"}};
}

bool flag(const Gguf& gguf, std::string_view name, bool otherwise) {
  const bool* is = gguf.get<bool>(token_field(name));
  return is ? *is : otherwise;
}

// The table of normalized spellings, which is bytes in the file and base64 in tokenizer.json.
base::Status write_charsmap(const Gguf& gguf, json& out) {
  constexpr std::string_view kName = "precompiled_charsmap";
  if (!gguf.has(token_field(kName))) return {};
  const auto* numbers = gguf.get<std::vector<int64_t>>(token_field(kName));
  if (!numbers) return bad_token_field(kName, "is no list of bytes");
  if (numbers->size() > kMostCharsmap) return bad_token_field(kName, "has more than 16 MiB");
  std::string bytes;
  bytes.reserve(numbers->size());
  for (int64_t n : *numbers) {
    if (n < -128 || n > 255) return bad_token_field(kName, "is no list of bytes");
    bytes.push_back(char(static_cast<unsigned char>(n & 255)));
  }
  if (!bytes.empty())
    out["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", base::base64_encode(bytes)}};
  return {};
}

}  // namespace

base::Status write_unigram(const Gguf& gguf, const GgufVocabulary& words, json& out) {
  if (!words.scores) return bad_token_field("scores", "is no list of scores");
  json& vocabulary = out["model"]["vocab"] = json::array();
  for (size_t i = 0; i < words.tokens.size(); ++i) {
    const double score = (*words.scores)[i];
    if (!std::isfinite(score)) return bad_token_field("scores", "has one that is no number");
    vocabulary.push_back({words.tokens[i], score});
  }
  auto unknown = words.special(gguf, "unknown");
  if (!unknown) unknown = words.first(TokenType::kUnknown);
  if (!unknown) return bad_token_field("unknown_token_id", "is missing, or no token");
  out["model"]["type"] = "Unigram", out["model"]["unk_id"] = *unknown, out["model"]["byte_fallback"] = false;
  if (auto s = write_charsmap(gguf, out); !s.ok()) return s;
  const bool begins = flag(gguf, "add_space_prefix", true);
  json steps = json::array();
  // Runs of white space count as one space, and none at a text's ends.
  if (flag(gguf, "remove_extra_whitespaces", true)) steps.push_back({{"type", "WhitespaceSplit"}});
  steps.push_back(metaspace(begins));
  out["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
  out["decoder"] = metaspace(begins);
  return {};
}

// RoBERTa has its end twice between two texts, BERT once.
base::Status write_ends(const Gguf& gguf, const GgufVocabulary& words, json& out) {
  auto find = [&](std::initializer_list<const char*> names) {
    for (auto* name : names)
      if (auto id = words.special(gguf, name)) return id;
    return std::optional<size_t>();
  };
  const auto begin = find({"bos", "cls"}), end = find({"eos", "seperator", "separator"});
  const bool begins = flag(gguf, "add_bos_token", true), ends = flag(gguf, "add_eos_token", true);
  if (begins && !begin) return bad_token_field("bos_token_id", "is missing, or no token");
  if (ends && !end) return bad_token_field("eos_token_id", "is missing, or no token");
  json before = json::array(), after = json::array(), used = json::object();
  auto add = [&](size_t id, json& to) {
    const std::string& name = words.tokens[id];
    to.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
    used[name] = {{"id", name}, {"ids", json::array({id})}, {"tokens", json::array({name})}};
  };
  if (begins) add(*begin, before);
  if (ends) add(*end, after);
  auto text = [](const char* name) { return json{{"Sequence", {{"id", name}, {"type_id", 0}}}}; };
  json single = before, pair;
  single.push_back(text("A"));
  single.insert(single.end(), after.begin(), after.end());
  pair = single;
  const auto* architecture = gguf.get<std::string>("general.architecture");
  if (architecture && *architecture == "bert") pair.insert(pair.end(), after.begin(), after.end());
  pair.push_back(text("B"));
  pair.insert(pair.end(), after.begin(), after.end());
  out["post_processor"] = {{"type", "TemplateProcessing"},
                           {"single", std::move(single)},
                           {"pair", std::move(pair)},
                           {"special_tokens", std::move(used)}};
  return {};
}

}  // namespace weir::llm
