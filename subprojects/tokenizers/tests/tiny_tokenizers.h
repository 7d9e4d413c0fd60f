// Tokenizer files of a few pieces, for tests that look at one rule each.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace tokenizers {

using Json = nlohmann::json;

// How byte-level vocabularies spell the 256 bytes: printable Latin-1 as itself, the others from U+0100 on.
inline std::vector<std::string> byte_spellings() {
  std::vector<std::string> out;
  unsigned next = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    unsigned code = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD) ? b : next++;
    out.push_back(code < 0x80 ? std::string(1, char(code))
                              : std::string{char(0xC0 | code >> 6), char(0x80 | (code & 0x3F))});
  }
  return out;
}

inline void add_merges(Json& model, const std::vector<std::string>& merges) {
  for (const auto& merge : merges) {
    size_t space = merge.find(' ');
    model["merges"].push_back(merge);
    std::string joined = merge.substr(0, space) + merge.substr(space + 1);
    if (!model["vocab"].contains(joined)) model["vocab"][joined] = model["vocab"].size();
  }
}

// All bytes in order (the id of a byte is its value), then what the merges make, then <|end|> as a special token.
inline Json byte_level_file(const std::vector<std::string>& merges) {
  Json file = {{"normalizer", nullptr},
               {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
               {"post_processor", nullptr},
               {"decoder", {{"type", "ByteLevel"}}}};
  Json& model = file["model"] = {{"type", "BPE"}, {"vocab", Json::object()}, {"merges", Json::array()}};
  int id = 0;
  for (const std::string& spelling : byte_spellings()) model["vocab"][spelling] = id++;
  add_merges(model, merges);
  file["added_tokens"] =
      Json::array({{{"id", model["vocab"].size()}, {"content", "<|end|>"}, {"special", true}, {"normalized", false}}});
  return file;
}

// <unk> <s> </s>, the 256 bytes, the characters, then what the merges make; Llama-2's normalizer and decoder.
inline Json sentencepiece_file(const std::vector<std::string>& characters, const std::vector<std::string>& merges) {
  Json file = Json::parse(R"({
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "pre_tokenizer": null,
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true}, {"id": 1, "content": "<s>", "special": true},
      {"id": 2, "content": "</s>", "special": true}],
    "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
      "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2}, "merges": []}})");
  Json& model = file["model"];
  static const char* kHex = "0123456789ABCDEF";
  for (int b = 0; b < 256; ++b) model["vocab"][std::string("<0x") + kHex[b / 16] + kHex[b % 16] + ">"] = b + 3;
  for (const auto& c : characters) model["vocab"][c] = model["vocab"].size();
  add_merges(model, merges);
  return file;
}

inline std::shared_ptr<const Tokenizer> tokenizer_of(const Json& file) {
  auto tokenizer = Tokenizer::parse(file.dump());
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return tokenizer ? *tokenizer : nullptr;
}

inline std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text,
                                       AddSpecial add = AddSpecial::kNo) {
  std::vector<std::string> out;
  for (uint32_t id : tokenizer.encode(text, add)) out.emplace_back(tokenizer.piece(id));
  return out;
}

}  // namespace tokenizers
