// The tokenizers that GGUF files describe, beside the tokenizer.json of the same vocabulary.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engines/llm/load/gguf_texts.h"
#include "engines/llm/support.h"
#include "text/processor.h"

namespace weir::llm {
namespace {

using nlohmann::json;
using Ids = std::vector<uint32_t>;

constexpr const char* kTexts[] = {"",
                                  "Hello, World! It's 1234567 o'clock.",
                                  "  two  spaces\n\n\tand a tab \r\n",
                                  "<|im_start|>user\nwho?<|im_end|>\n",
                                  "\xc3\xa4\xc3\xb6\xc3\xbc \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80 e\xcc\x81",
                                  "if (a == b) { return c->d[3]; }"};

std::shared_ptr<const text::Processor> processor(const Gguf& gguf) {
  auto tokenizer = tokenizer_of(gguf), config = tokenizer_config_of(gguf);
  EXPECT_TRUE(tokenizer) << tokenizer.error().text;
  EXPECT_TRUE(config) << config.error().text;
  auto made = text::make_processor(*tokenizer, *config, "");
  EXPECT_TRUE(made) << made.error().text;
  return *made;
}
std::string tokenizer_refusal(const Gguf& gguf) {
  auto tokenizer = tokenizer_of(gguf);
  return tokenizer ? "" : tokenizer.error().text;
}

// The demo model's tokenizer.json as the fields that llama.cpp's converter makes of such.
Gguf demo() {
  const json file = json::parse(slurp(WEIR_ROOT "/conf/models/chat/1/tokenizer.json"));
  const json config = json::parse(slurp(WEIR_ROOT "/conf/models/chat/1/tokenizer_config.json"));
  std::map<uint64_t, std::string> words;
  for (const auto& [word, id] : file["model"]["vocab"].items()) words[id.get<uint64_t>()] = word;
  std::vector<int64_t> types(words.size(), 1);
  for (const auto& token : file["added_tokens"]) words[token["id"]] = token["content"], types.push_back(3);
  std::vector<std::string> tokens, merges;
  for (const auto& [id, word] : words) tokens.push_back(word);
  for (const auto& merge : file["model"]["merges"]) merges.push_back(merge);
  Gguf g;
  g.fields = {{"tokenizer.ggml.model", std::string("gpt2")},
              {"tokenizer.ggml.pre", std::string("qwen2")},
              {"tokenizer.ggml.tokens", tokens},
              {"tokenizer.ggml.token_type", types},
              {"tokenizer.ggml.merges", merges},
              {"tokenizer.ggml.eos_token_id", int64_t(3068)},
              {"tokenizer.ggml.bos_token_id", int64_t(3066)},
              {"tokenizer.ggml.add_bos_token", false},
              {"tokenizer.chat_template", config["chat_template"].get<std::string>()}};
  return g;
}

TEST(GgufTokenizer, OfBytesIsTheTokenizerJsonOfItsVocabulary) {
  auto ours = processor(demo());
  auto theirs = text::make_processor(slurp(WEIR_ROOT "/conf/models/chat/1/tokenizer.json"),
                                     slurp(WEIR_ROOT "/conf/models/chat/1/tokenizer_config.json"), "");
  ASSERT_TRUE(theirs) << theirs.error().text;
  for (const std::string text : kTexts) {
    const Ids ids = ours->encode(text, msg::AddSpecial::kYes);
    // Qwen2's own normalizer composes; the demo model has none.
    if (text.find("e\xcc\x81") == text.npos) {
      EXPECT_EQ(ids, (*theirs)->encode(text, msg::AddSpecial::kYes)) << text;
    }
    EXPECT_EQ(ours->decode(ids, msg::SkipSpecial::kYes), (*theirs)->decode(ids, msg::SkipSpecial::kYes)) << text;
    EXPECT_EQ(ours->decode(ids, msg::SkipSpecial::kNo), (*theirs)->decode(ids, msg::SkipSpecial::kNo)) << text;
  }
  EXPECT_EQ(ours->eos, "<|im_end|>");
  const auto messages = nlohmann::ordered_json::parse(R"([{"role":"user","content":"who?"}])");
  EXPECT_EQ(ours->render_chat(messages, {}, {}).value(), (*theirs)->render_chat(messages, {}, {}).value());
}

TEST(GgufTokenizer, ABeginningIsAddedWhereTheFileOrItsKindSaysSo) {
  Gguf g = demo();
  EXPECT_EQ(processor(g)->encode("a", msg::AddSpecial::kYes).size(), 1u);
  g.fields["tokenizer.ggml.add_bos_token"] = true;
  g.fields["tokenizer.ggml.add_eos_token"] = true;
  EXPECT_EQ(processor(g)->encode("a", msg::AddSpecial::kYes).front(), 3066u);
  EXPECT_EQ(processor(g)->encode("a", msg::AddSpecial::kYes).back(), 3068u);
  g.fields.erase("tokenizer.ggml.add_bos_token");
  g.fields.erase("tokenizer.ggml.add_eos_token");
  EXPECT_EQ(processor(g)->encode("a", msg::AddSpecial::kYes).size(), 1u);
  g.fields["tokenizer.ggml.pre"] = std::string("llama-bpe");
  EXPECT_EQ(processor(g)->encode("a", msg::AddSpecial::kYes).front(), 3066u);
}

TEST(GgufTokenizer, NamesOfWordRulesCutAsTheirModelsDo) {
  Gguf g = demo();
  auto words = [&](const char* pre, const char* text) {
    g.fields["tokenizer.ggml.pre"] = std::string(pre);
    return processor(g)->encode(text, msg::AddSpecial::kNo).size();
  };
  // The demo model has no merges of digits.
  for (const char* pre :
       {"default", "gpt-2",    "llama-bpe",    "qwen2",          "qwen35",      "smollm",          "tekken",
        "gpt-4o",  "falcon",   "deepseek-llm", "deepseek-coder", "deepseek-v3", "bailingmoe",      "seed-coder",
        "viking",  "superbpe", "mpt",          "refact",         "smaug-bpe",   "deepseek-r1-qwen"})
    EXPECT_GT(words(pre, "Hello 123 world"), 3u) << pre;
  g.fields["tokenizer.ggml.pre"] = std::string("brand-new");
  EXPECT_EQ(tokenizer_refusal(g), "GGUF: 'tokenizer.ggml.pre' is \"brand-new\", which is not supported");
  g.fields.erase("tokenizer.ggml.pre");
  EXPECT_EQ(tokenizer_refusal(g), "");
}

// Pieces of SentencePiece: the higher its score, the earlier one is made.
Gguf pieces() {
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<int64_t> types{2, 3, 3};
  std::vector<double> scores{0, 0, 0};
  for (int b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", b);
    tokens.push_back(name), types.push_back(6), scores.push_back(0);
  }
  double score = 0;
  for (const char* piece :
       {"\xe2\x96\x81t", "he", "\xe2\x96\x81the", "re", "the", "\xe2\x96\x81", "t", "h", "e", "r", "a"})
    tokens.push_back(piece), types.push_back(1), scores.push_back(score -= 1);
  tokens.push_back("[TOOL]"), types.push_back(4), scores.push_back(0);
  Gguf g;
  g.fields = {{"tokenizer.ggml.model", std::string("llama")}, {"tokenizer.ggml.tokens", tokens},
              {"tokenizer.ggml.token_type", types},           {"tokenizer.ggml.scores", scores},
              {"tokenizer.ggml.bos_token_id", int64_t(1)},    {"tokenizer.ggml.eos_token_id", int64_t(2)},
              {"tokenizer.ggml.unknown_token_id", int64_t(0)}};
  return g;
}

TEST(GgufTokenizer, OfSentencePieceMergesByScores) {
  auto p = processor(pieces());
  constexpr uint32_t kFirst = 259;  // "▁t"
  EXPECT_EQ(p->encode("the", msg::AddSpecial::kYes), (Ids{1, kFirst + 2}));
  EXPECT_EQ(p->encode("there", msg::AddSpecial::kNo), (Ids{kFirst + 2, kFirst + 3}));
  EXPECT_EQ(p->encode("rare", msg::AddSpecial::kNo), (Ids{kFirst + 5, kFirst + 9, kFirst + 10, kFirst + 3}));
  EXPECT_EQ(p->encode("a\n", msg::AddSpecial::kNo), (Ids{kFirst + 5, kFirst + 10, 3 + 10})) << "a byte of its own";
  EXPECT_EQ(p->encode("the</s>the", msg::AddSpecial::kNo), (Ids{kFirst + 2, 2, kFirst + 2}));
  EXPECT_EQ(p->encode("a[TOOL]", msg::AddSpecial::kNo), (Ids{kFirst + 5, kFirst + 10, kFirst + 11}));
  EXPECT_EQ(p->decode(Ids{1, kFirst + 2, kFirst + 2, 2}, msg::SkipSpecial::kYes), "the the");
  EXPECT_EQ(p->decode(Ids{3 + 0xc3, 3 + 0xa4}, msg::SkipSpecial::kYes), "\xc3\xa4");
  Gguf bare = pieces();
  bare.fields["tokenizer.ggml.add_space_prefix"] = false;
  bare.fields["tokenizer.ggml.add_bos_token"] = false;
  EXPECT_EQ(processor(bare)->encode("the", msg::AddSpecial::kYes), (Ids{kFirst + 4}));
  EXPECT_EQ(processor(bare)->decode(Ids{kFirst + 2}, msg::SkipSpecial::kYes), " the");
}

TEST(GgufTokenizer, WhatIsWrongOrNotKnownIsNamed) {
  const std::pair<std::pair<const char*, GgufValue>, const char*> cases[] = {
      {{"tokenizer.ggml.model", std::string("bert")},
       "'tokenizer.ggml.model' is \"bert\", which is not supported; gpt2"},
      {{"tokenizer.ggml.model", int64_t(1)}, "'tokenizer.ggml.model' is not there"},
      {{"tokenizer.ggml.tokens", int64_t(1)}, "'tokenizer.ggml.tokens' is no list of tokens"},
      {{"tokenizer.ggml.tokens", std::vector<std::string>{"a", "a"}}, "'tokenizer.ggml.tokens' has 'a' twice"},
      {{"tokenizer.ggml.token_type", std::vector<int64_t>{1}}, "'tokenizer.ggml.token_type' is shorter"},
      {{"tokenizer.ggml.scores", std::vector<double>{1}}, "'tokenizer.ggml.scores' is shorter"},
      {{"tokenizer.ggml.scores", int64_t(1)}, "'tokenizer.ggml.scores' is no list of scores"},
  };
  for (const auto& [field, why] : cases) {
    Gguf g = pieces();
    g.fields[field.first] = field.second;
    EXPECT_NE(tokenizer_refusal(g).find(why), std::string::npos) << why << ": " << tokenizer_refusal(g);
  }
  Gguf g = demo();
  g.fields["tokenizer.ggml.merges"] = std::vector<std::string>{"ab"};
  EXPECT_EQ(tokenizer_refusal(g), "GGUF: 'tokenizer.ggml.merges' has 'ab', which are no two tokens");
}

// Each of these would take a multiple of its own memory.
TEST(GgufTokenizer, ListsThatAreTooLongAreRefusedBeforeTheyAreCopied) {
  const std::string tokens = "tokenizer.ggml.tokens";
  for (const std::string kind : {"gpt2", "llama", "bert"}) {
    Gguf g = kind == "gpt2" ? demo() : pieces();
    g.fields["tokenizer.ggml.model"] = kind;
    if (kind == "bert") g.fields["general.architecture"] = kind;
    g.fields[tokens] = std::vector<std::string>((1 << 20) + 1);
    EXPECT_EQ(tokenizer_refusal(g), "GGUF: '" + tokens + "' has more than 1048576 tokens") << kind;
    EXPECT_FALSE(kind != "bert" && tokenizer_config_of(g)) << kind;
    g.fields[tokens] = std::vector<std::string>{std::string(8 << 20, 'a'), std::string((8 << 20) + 1, 'b')};
    EXPECT_EQ(tokenizer_refusal(g), "GGUF: '" + tokens + "' has more than 16 MiB") << kind;
    g.fields["tokenizer.ggml.token_type"] = std::vector<int64_t>{4, 3};
    g.fields[tokens] = std::vector<std::string>{std::string(2 << 20, 'a'), std::string((2 << 20) + 1, 'b')};
    EXPECT_EQ(tokenizer_refusal(g), "GGUF: 'tokenizer.ggml.token_type' names added tokens of more than 4 MiB") << kind;
    std::vector<std::string> numbered((1 << 16) + 1);
    for (size_t i = 0; i < numbered.size(); ++i) numbered[i] = std::to_string(i);
    g.fields["tokenizer.ggml.token_type"] = std::vector<int64_t>(numbered.size(), 3);
    g.fields[tokens] = std::move(numbered);
    EXPECT_EQ(tokenizer_refusal(g), "GGUF: 'tokenizer.ggml.token_type' names more than 65536 added tokens") << kind;
    g.tensors["token_embd.weight"] = {Stored::kF32, {64, 2}, {}};
    EXPECT_EQ(tokenizer_refusal(g), "GGUF: '" + tokens + "' has more tokens than 'token_embd.weight' has rows") << kind;
  }
  Gguf g = demo();
  g.fields["tokenizer.ggml.merges"] = std::vector<std::string>(1 << 20, "a b");
  EXPECT_EQ(tokenizer_refusal(g), "GGUF: 'tokenizer.ggml.merges' are too many");
  g.fields["tokenizer.ggml.merges"] = std::vector<std::string>{"a " + std::string(32 << 20, 'b')};
  EXPECT_EQ(tokenizer_refusal(g), "GGUF: 'tokenizer.ggml.merges' are too many");
}

// A piece of n bytes can be cut in n ways, and each takes as long as it is long.
TEST(GgufTokenizer, LongPiecesTakeNoLongTime) {
  Gguf g = pieces();
  auto tokens = *g.get<std::vector<std::string>>("tokenizer.ggml.tokens");
  for (int i = 0; i < 1000; ++i) tokens.push_back(std::string(4000, 'a') + std::to_string(i));
  g.fields["tokenizer.ggml.scores"] = std::vector<double>(tokens.size());
  g.fields["tokenizer.ggml.token_type"] = std::vector<int64_t>(tokens.size(), 1);
  g.fields["tokenizer.ggml.tokens"] = std::move(tokens);
  EXPECT_EQ(tokenizer_refusal(g), "");
}

TEST(GgufTokenizer, ManyPiecesThatCouldBeCutAtEachByteAreRefused) {
  Gguf g = pieces();
  auto tokens = *g.get<std::vector<std::string>>("tokenizer.ggml.tokens");
  for (int i = 0; i < 5000; ++i) tokens.push_back(std::string(250, 'x') + std::to_string(i));
  g.fields["tokenizer.ggml.scores"] = std::vector<double>(tokens.size());
  g.fields["tokenizer.ggml.token_type"] = std::vector<int64_t>(tokens.size(), 1);
  g.fields["tokenizer.ggml.tokens"] = std::move(tokens);
  EXPECT_EQ(tokenizer_refusal(g), "GGUF: 'tokenizer.ggml.tokens' has too many long pieces");
}

// As Hugging Face has them: looked for before the text is cut into words.
TEST(GgufTokenizer, WordsThatWereAddedToAnEncodersAreFoundInATextAsTheyAre) {
  const std::vector<std::string> tokens{"[PAD]",
                                        "[UNK]",
                                        "[CLS]",
                                        "[SEP]",
                                        "\xe2\x96\x81hello",
                                        "\xe2\x96\x81"
                                        "c++",
                                        "\xe2\x96\x81"
                                        "c"};
  Gguf g;
  g.fields = {{"general.architecture", std::string("bert")},
              {"tokenizer.ggml.model", std::string("bert")},
              {"tokenizer.ggml.tokens", tokens},
              {"tokenizer.ggml.token_type", std::vector<int64_t>{3, 2, 3, 3, 1, 4, 1}},
              {"tokenizer.ggml.unknown_token_id", int64_t(1)},
              {"tokenizer.ggml.cls_token_id", int64_t(2)},
              {"tokenizer.ggml.seperator_token_id", int64_t(3)}};
  EXPECT_EQ(processor(g)->encode("Hello C++", msg::AddSpecial::kYes), (Ids{2, 4, 5, 3}));
  EXPECT_EQ(processor(g)->decode(Ids{2, 4, 5, 3}, msg::SkipSpecial::kYes), "hello c++");
}

// "<|end|>\n" of Phi-3's chat template is one token.
TEST(GgufTokenizer, AddedTokensOfPhi3TakeTheSpaceBehindThem) {
  Gguf g;
  g.fields = {{"general.architecture", std::string("phi3")},
              {"tokenizer.ggml.model", std::string("llama")},
              {"tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>", "<|end|>", "<0x0A>", "\xe2\x96\x81"}},
              {"tokenizer.ggml.scores", std::vector<double>{0, 0, 0, 0, 0}},
              {"tokenizer.ggml.token_type", std::vector<int64_t>{2, 3, 4, 6, 1}},
              {"tokenizer.ggml.add_space_prefix", false},
              {"tokenizer.ggml.add_bos_token", false}};
  EXPECT_EQ(processor(g)->encode("<|end|>\n <s>\n", msg::AddSpecial::kNo), (Ids{2, 1, 3}));
  g.fields["general.architecture"] = std::string("llama");
  EXPECT_EQ(processor(g)->encode("<|end|>\n <s>\n", msg::AddSpecial::kNo), (Ids{2, 3, 4, 1, 3}));
}

}  // namespace
}  // namespace weir::llm
