// Tokenizers of encoders in GGUF files that are none of WordPieces: SentencePiece's unigram model, and BPE of bytes.
#include <limits>

#include "engines/llm/load/gguf_model.h"
#include "support.h"
#include "text/processor.h"

namespace weir::llm {
namespace {

using Ids = std::vector<uint32_t>;

Gguf unigram() {
  Gguf g;
  g.fields = {
      {"general.architecture", std::string("bert")},
      {"tokenizer.ggml.model", std::string("t5")},
      {"tokenizer.ggml.tokens", std::vector<std::string>{"<s>", "<pad>", "</s>", "<unk>", "\xe2\x96\x81", "a", "b",
                                                         "\xe2\x96\x81"
                                                         "ab"}},
      {"tokenizer.ggml.scores", std::vector<double>{0, 0, 0, 0, -2, -3, -3, -4}},
      {"tokenizer.ggml.token_type", std::vector<int64_t>{3, 3, 3, 2, 1, 1, 1, 1}},
      {"tokenizer.ggml.bos_token_id", int64_t(0)},
      {"tokenizer.ggml.eos_token_id", int64_t(2)},
      {"tokenizer.ggml.unknown_token_id", int64_t(3)}};
  g.tensors["token_embd.weight"] = Array{Stored::kF32, {8, 16}};
  return g;
}

std::shared_ptr<const text::Processor> processor_of(const std::string& tokenizer, const std::string& config) {
  auto made = text::make_processor(tokenizer, config, "");
  EXPECT_TRUE(made) << made.error().text;
  return made ? *made : nullptr;
}

std::shared_ptr<const text::Processor> processor_of(const Gguf& gguf) {
  auto tokenizer = tokenizer_of(gguf), config = tokenizer_config_of(gguf);
  EXPECT_TRUE(tokenizer) << tokenizer.error().text;
  return tokenizer ? processor_of(*tokenizer, config.value()) : nullptr;
}

Ids ids_in(const Gguf& gguf, std::string_view text) {
  auto processor = processor_of(gguf);
  return processor ? processor->encode(text, msg::AddSpecial::kYes) : Ids();
}

std::string error_of(const Gguf& gguf) {
  auto tokenizer = tokenizer_of(gguf);
  return tokenizer ? "" : tokenizer.error().text;
}

TEST(GgufUnigram, PiecesAreTheBestOfTheirScores) {
  Gguf g = unigram();
  EXPECT_EQ(ids_in(g, " ab  a"), (Ids{0, 7, 4, 5, 2}));
  EXPECT_EQ(ids_in(g, "<s>b x</s>"), (Ids{0, 0, 4, 6, 4, 3, 2, 2}));
  g.fields["tokenizer.ggml.remove_extra_whitespaces"] = false;
  EXPECT_EQ(ids_in(g, "ab  a"), (Ids{0, 7, 4, 4, 5, 2}));
  g.fields["tokenizer.ggml.add_space_prefix"] = false;
  EXPECT_EQ(ids_in(g, "ab"), (Ids{0, 5, 6, 2}));
  g.fields["tokenizer.ggml.add_eos_token"] = false;
  EXPECT_EQ(ids_in(g, "ab"), (Ids{0, 5, 6}));
}

// The ids are those of Hugging Face's library and of llama.cpp.
TEST(GgufUnigram, TextsAreNormalizedByTheFilesTable) {
  static const MadeFolder made("gguf_encoder_models.py");
  if (made.path.empty()) GTEST_SKIP() << "no python3-torch here";
  auto folder = Folder::open(made.path + "/roberta");
  ASSERT_TRUE(folder);
  auto model = open_gguf(*folder, "model.gguf");
  ASSERT_TRUE(model) << model.error().text;
  const auto ours = processor_of(model->gguf),
             theirs = processor_of(slurp(made.path + "/roberta/tokenizer.json"), "{}");
  ASSERT_TRUE(ours && theirs);
  const std::pair<const char*, Ids> cases[] = {
      {"", {}},
      {" a  b ", {4, 5, 4, 6}},
      {"the rain in Spain, fell\ton\nit.",
       {4, 24, 12, 9, 4, 22, 5, 13, 18, 104, 4, 3, 20, 5, 13, 18, 34, 4, 10, 9, 126, 135, 4, 13, 24, 33}},
      {"of\xEF\xAC\x81"
       "ce \xEF\xBC\xA1lpha \xE2\x91\xA0 \xE4\xB8\xAD\xC3\xA9 zz",
       {4, 19, 10, 70, 7, 9, 4, 31, 16, 20, 12, 5, 4, 32, 4, 36, 35, 4, 30, 30}},
      {"star <s> line </s><mask>x", {86, 5, 22, 0, 142, 68, 2, 159, 4, 28}},
      {"\xE6\x97\xA5\xE6\x9C\xAC q", {4, 3, 4, 21}},
  };
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(ours->encode(text, msg::AddSpecial::kNo), ids) << text;
    EXPECT_EQ(theirs->encode(text, msg::AddSpecial::kNo), ids) << text;
    EXPECT_EQ(ours->encode(text, msg::AddSpecial::kYes), theirs->encode(text, msg::AddSpecial::kYes)) << text;
  }
}

TEST(GgufUnigram, WhatIsWrongIsNamed) {
  const std::pair<std::pair<const char*, GgufValue>, const char*> cases[] = {
      {{"scores", std::string("1")}, "'tokenizer.ggml.scores' is no list of scores"},
      {{"scores", std::vector<double>{1, 2}}, "'tokenizer.ggml.scores' is shorter than"},
      {{"scores", std::vector<double>(8, std::numeric_limits<double>::infinity())}, "has one that is no number"},
      {{"scores", std::vector<double>(8, std::numeric_limits<double>::quiet_NaN())}, "has one that is no number"},
      {{"bos_token_id", int64_t(8)}, "'tokenizer.ggml.bos_token_id' is missing, or no token"},
      {{"eos_token_id", int64_t(-1)}, "'tokenizer.ggml.eos_token_id' is missing, or no token"},
      {{"precompiled_charsmap", std::string("x")}, "'tokenizer.ggml.precompiled_charsmap' is no list of bytes"},
      {{"precompiled_charsmap", std::vector<int64_t>{256}},
       "'tokenizer.ggml.precompiled_charsmap' is no list of bytes"},
      {{"precompiled_charsmap", std::vector<int64_t>((16 << 20) + 1)}, "has more than 16 MiB"},
  };
  for (const auto& [field, why] : cases) {
    Gguf g = unigram();
    g.fields["tokenizer.ggml." + std::string(field.first)] = field.second;
    EXPECT_NE(error_of(g).find(why), std::string::npos) << error_of(g) << " for " << why;
  }
  Gguf g = unigram();
  g.fields["tokenizer.ggml.unknown_token_id"] = int64_t(99);
  EXPECT_EQ(ids_in(g, "x"), (Ids{0, 4, 3, 2})) << "the token of that type";
  g.fields["tokenizer.ggml.token_type"] = std::vector<int64_t>(8, 1);
  EXPECT_NE(error_of(g).find("'tokenizer.ggml.unknown_token_id' is missing"), std::string::npos);
  // A table that is none is refused when the tokenizer is made.
  g = unigram();
  g.fields["tokenizer.ggml.precompiled_charsmap"] = std::vector<int64_t>{255, 255, 255, 127, 1};
  EXPECT_FALSE(text::make_processor(tokenizer_of(g).value(), "{}", ""));
}

TEST(GgufUnigram, OnlyEncodersHaveIt) {
  Gguf g = unigram();
  g.fields["general.architecture"] = std::string("llama");
  EXPECT_NE(error_of(g).find("\"t5\", which is not supported; gpt2 and llama are"), std::string::npos);
}

// RoBERTa's and ModernBERT's.
TEST(GgufUnigram, BytesOfAnEncoderHaveItsEndsAroundThem) {
  Gguf g;
  g.fields = {{"general.architecture", std::string("modern-bert")},
              {"tokenizer.ggml.model", std::string("gpt2")},
              {"tokenizer.ggml.pre", std::string("modern-bert")},
              {"tokenizer.ggml.tokens", std::vector<std::string>{"[CLS]", "[SEP]", "a", "b", "ab", "\xc4\xa0"}},
              {"tokenizer.ggml.token_type", std::vector<int64_t>{3, 3, 1, 1, 1, 1}},
              {"tokenizer.ggml.merges", std::vector<std::string>{"a b"}},
              {"tokenizer.ggml.cls_token_id", int64_t(0)},
              {"tokenizer.ggml.seperator_token_id", int64_t(1)}};
  g.tensors["token_embd.weight"] = Array{Stored::kF32, {6, 16}};
  EXPECT_EQ(ids_in(g, "ab a"), (Ids{0, 4, 5, 2, 1}));
  g.fields["tokenizer.ggml.pre"] = std::string("roberta-bpe");
  EXPECT_EQ(ids_in(g, "ab a"), (Ids{0, 4, 5, 2, 1}));
}

}  // namespace
}  // namespace weir::llm
