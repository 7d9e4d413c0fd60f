#include "text/completion.h"

#include "text/processor.h"
#include "tiny_tokenizers.h"

namespace weir::text {
namespace {

using tokenizers::byte_level_file;
using tokenizers::sentencepiece_file;

// A Processor without a chat template.
std::shared_ptr<const Processor> processor_of(const tokenizers::Json& file) {
  auto out = std::make_shared<Processor>();
  out->tokenizer = tokenizers::tokenizer_of(file);
  return out;
}

using State = Completion::State;
using Keep = StopStrings::Keep;

std::string emit(Completion& completion, std::string_view bytes) {
  std::string out;
  for (char c : bytes)
    if (completion.push(uint8_t(c), out) != State::kGoing) return out + "|";
  completion.finish(out);
  return out;
}

TEST(Prompts, WhatNoContextHoldsIsCutBetweenCharacters) {
  const auto cut = [](const std::string& text, Part goes) {
    std::string out = text;
    cut_prompt(out, 2, goes, 1);
    EXPECT_TRUE(check_prompt(out, 2).ok());
    return out;
  };
  std::string text = "a";
  for (int i = 0; i < 200; ++i) text += "\u00e9";
  text += "z";
  const auto accents = [](int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += "\u00e9";
    return out;
  };
  EXPECT_EQ(cut(text, Part::kEnd), "a" + accents(127));
  EXPECT_EQ(cut(text, Part::kBeginning), accents(127) + "z");
  EXPECT_EQ(cut(text, Part::kMiddle), "a" + accents(63) + accents(64) + "z");
}

TEST(Completion, AStopStringEndsItAcrossTokens) {
  auto processor = processor_of(byte_level_file({}));
  Completion completion(*processor, {msg::SkipSpecial::kYes, {"cd"}, Keep::kNo, {}, 0});
  EXPECT_EQ(emit(completion, "abcdef"), "ab|");
  ASSERT_NE(completion.stop_string(), nullptr);
  EXPECT_EQ(*completion.stop_string(), "cd");
  EXPECT_EQ(completion.tokens(), 4u);
}

TEST(Completion, WhatMightHaveBeenAStopStringIsTextAfterAll) {
  auto processor = processor_of(byte_level_file({}));
  Completion completion(*processor, {msg::SkipSpecial::kYes, {"cd"}, Keep::kNo, {}, 0});
  EXPECT_EQ(emit(completion, "abc"), "abc");
  EXPECT_EQ(completion.stop_string(), nullptr);
}

TEST(Completion, StopStringsCountOnlyAfterTheLeastNumberOfTokens) {
  auto processor = processor_of(byte_level_file({}));
  Completion completion(*processor, {msg::SkipSpecial::kYes, {"a"}, Keep::kNo, {}, 2});
  EXPECT_EQ(emit(completion, "aaba"), "aab|");
}

TEST(Completion, AnEndTokenHasTextOnlyWhereItIsKept) {
  auto processor = processor_of(byte_level_file({}));
  for (Keep keep : {Keep::kNo, Keep::kYes}) {
    Completion completion(*processor, {msg::SkipSpecial::kNo, {}, keep, {256}, 0});
    std::string out;
    EXPECT_EQ(completion.push('a', out), State::kGoing);
    EXPECT_EQ(completion.push(256, out), State::kEnded);
    EXPECT_EQ(out, keep == Keep::kYes ? "a<|end|>" : "a");
  }
}

TEST(Completion, OfSpecialTokensAParsersMarkersStay) {
  auto processor = processor_of(byte_level_file({}));
  for (bool reads : {false, true}) {
    Completion::Options options;
    options.parsed = msg::AnswerFormat{reads ? msg::ToolFormat::kHarmony : msg::ToolFormat::kHermes, false};
    Completion completion(*processor, std::move(options));
    std::string out;
    EXPECT_EQ(completion.push('a', out), State::kGoing);
    EXPECT_EQ(completion.push(256, out), State::kGoing);
    completion.finish(out);
    EXPECT_EQ(out, reads ? "a<|end|>" : "a") << "harmony ends its messages with it";
  }
}

TEST(Completion, AnIncompleteCharacterAtTheEndIsTheReplacementCharacter) {
  auto processor = processor_of(byte_level_file({}));
  Completion completion(*processor, {});
  EXPECT_EQ(emit(completion, "a\xe2\x82"), "a\xef\xbf\xbd");
}

TEST(Completion, TheFirstSpaceStaysWhereTextWentBefore) {
  auto processor = processor_of(sentencepiece_file({"▁", "a", "b"}, {"▁ a", "▁ b"}));
  uint32_t a = *processor->tokenizer->id("▁a"), b = *processor->tokenizer->id("▁b");
  std::string alone, behind;
  Completion first(*processor, {});
  first.push(b, alone);
  EXPECT_EQ(alone, "b");
  Completion next(*processor, {});
  std::vector<uint32_t> prompt{1, a};
  next.after(prompt);
  next.push(b, behind);
  EXPECT_EQ(behind, " b");
}

TEST(Completion, TextThatNoContextCanHoldIsRefusedUnread) {
  auto processor = processor_of(byte_level_file({}));
  auto ids = encode_prompt(*processor, std::string(1 << 20, 'a'), msg::AddSpecial::kNo, 100);
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code, base::Code::kOutOfRange);
  EXPECT_EQ(encode_prompt(*processor, "ab", msg::AddSpecial::kNo, 100)->size(), 2u);
}

}  // namespace
}  // namespace weir::text
