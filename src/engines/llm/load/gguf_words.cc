#include "engines/llm/load/gguf_words.h"

#include <algorithm>

namespace weir::llm {
namespace {

// They are those of the tokenizer.json files that the models were published with.
constexpr std::string_view
    kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    kLlama3Words =
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    kQwen2Words =
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    kQwen35Words =
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    kTekkenWords =
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    kGpt4oWords =
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    kDeepSeek3Words =
        R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    kBailingWords =
        R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
    kSeedCoderWords =
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)",
    kSentence = R"( ?[^(\s|.,!?…。，、।۔،)]+)", kDigit = R"(\p{N})", kDigits = R"(\p{N}+)",
    kThreeDigits = "[0-9][0-9][0-9]",
    kCased =  // of DeepSeek's first model: letters that have a case, as far as its regular expressions know them
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-)"
    R"(ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮ)"
    R"(ⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)",
    kLineEnd = R"([\r\n])", kHan = "[一-龥ࠀ-一가-\U0000d7ff]+";

struct Row {
  std::vector<std::string_view> names;
  WordRule rule;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {{"", "default"}, {{R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Words, kDigits, kThreeDigits}}},
      {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
       {{kLlama3Words}, false, true, true}},
      {{"smaug-bpe", "dbrx", "chatglm-bpe", "glm4"}, {{kLlama3Words}}},
      {{"gpt-2", "roberta-bpe", "phi-2", "gigachat", "a.x-4.0", "mellum", "jais", "trillion", "granite-docling",
        "exaone4"},
       {{kGpt2Words}}},
      {{"mpt", "olmo", "modern-bert"}, {{kGpt2Words}, true}},
      {{"qwen2", "megrez", "stablelm2"}, {{kQwen2Words}, true}},
      {{"deepseek-r1-qwen", "hunyuan", "kormo", "solar-open", "grok-2"}, {{kQwen2Words}}},
      {{"qwen35"}, {{kQwen35Words}, true}},
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"}, {{kDigit, kGpt2Words}}},
      {{"tekken"}, {{kTekkenWords}, false, true, true}},
      {{"gpt-4o", "llama4", "kanana2"}, {{kGpt4oWords}}},
      {{"deepseek-llm"}, {{kLineEnd, kCased, R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(\s+$)", kHan, kDigits}}},
      {{"deepseek-coder"}, {{kLineEnd, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kHan, kDigit}}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm"}, {{R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", kDeepSeek3Words}}},
      {{"falcon"}, {{R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Words, kThreeDigits}}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"}, {{kBailingWords}}},
      {{"seed-coder"}, {{kSeedCoderWords}}},
      {{"poro-chat", "bloom", "gpt3-finnish"}, {{kSentence}}},
      {{"viking"}, {{kSentence, kDigit}}},
      {{"superbpe"}, {{kDigits, R"((?=(\d{3})+(?!\d)))"}}},
  };
  return kRows;
}

}  // namespace

const WordRule* word_rule(std::string_view name) {
  for (const Row& row : rows())
    if (std::find(row.names.begin(), row.names.end(), name) != row.names.end()) return &row.rule;
  return nullptr;
}

}  // namespace weir::llm
