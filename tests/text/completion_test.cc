#include "text/completion.h"

#include "tiny_tokenizers.h"

namespace weir::text {
namespace {

using tokenizers::byte_level_file;
using tokenizers::sentencepiece_file;
using tokenizers::tokenizer_of;

using State = Completion::State;
using Keep = StopStrings::Keep;

std::string say(Completion& completion, std::string_view bytes) {
  std::string out;
  for (char c : bytes)
    if (completion.push(uint8_t(c), out) != State::kGoing) return out + "|";
  completion.finish(out);
  return out;
}

TEST(Completion, AStopStringEndsItAcrossTokens) {
  auto tokenizer = tokenizer_of(byte_level_file({}));
  Completion completion(*tokenizer, {SkipSpecial::kYes, {"cd"}, Keep::kNo, {}, 0});
  EXPECT_EQ(say(completion, "abcdef"), "ab|");
  ASSERT_NE(completion.stop_string(), nullptr);
  EXPECT_EQ(*completion.stop_string(), "cd");
  EXPECT_EQ(completion.tokens(), 4u);
}

TEST(Completion, WhatMightHaveBeenAStopStringIsTextAfterAll) {
  auto tokenizer = tokenizer_of(byte_level_file({}));
  Completion completion(*tokenizer, {SkipSpecial::kYes, {"cd"}, Keep::kNo, {}, 0});
  EXPECT_EQ(say(completion, "abc"), "abc");
  EXPECT_EQ(completion.stop_string(), nullptr);
}

TEST(Completion, StopStringsCountOnlyAfterTheLeastNumberOfTokens) {
  auto tokenizer = tokenizer_of(byte_level_file({}));
  Completion completion(*tokenizer, {SkipSpecial::kYes, {"a"}, Keep::kNo, {}, 2});
  EXPECT_EQ(say(completion, "aaba"), "aab|");
}

TEST(Completion, AnEndTokenHasTextOnlyWhereItIsKept) {
  auto tokenizer = tokenizer_of(byte_level_file({}));
  for (Keep keep : {Keep::kNo, Keep::kYes}) {
    Completion completion(*tokenizer, {SkipSpecial::kNo, {}, keep, {256}, 0});
    std::string out;
    EXPECT_EQ(completion.push('a', out), State::kGoing);
    EXPECT_EQ(completion.push(256, out), State::kEnded);
    EXPECT_EQ(out, keep == Keep::kYes ? "a<|end|>" : "a");
  }
}

TEST(Completion, AnIncompleteCharacterAtTheEndIsTheReplacementCharacter) {
  auto tokenizer = tokenizer_of(byte_level_file({}));
  Completion completion(*tokenizer, {});
  EXPECT_EQ(say(completion, "a\xe2\x82"), "a\xef\xbf\xbd");
}

TEST(Completion, TheFirstSpaceStaysWhereTextWentBefore) {
  auto tokenizer = tokenizer_of(sentencepiece_file({"▁", "a", "b"}, {"▁ a", "▁ b"}));
  uint32_t a = *tokenizer->id("▁a"), b = *tokenizer->id("▁b");
  std::string alone, behind;
  Completion first(*tokenizer, {});
  first.push(b, alone);
  EXPECT_EQ(alone, "b");
  Completion next(*tokenizer, {});
  std::vector<uint32_t> prompt{1, a};
  next.after(prompt);
  next.push(b, behind);
  EXPECT_EQ(behind, " b");
}

TEST(Completion, TextThatNoContextCanHoldIsRefusedUnread) {
  auto tokenizer = tokenizer_of(byte_level_file({}));
  auto ids = encode_prompt(*tokenizer, std::string(1 << 20, 'a'), AddSpecial::kNo, 100);
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code, base::Code::kOutOfRange);
  EXPECT_EQ(encode_prompt(*tokenizer, "ab", AddSpecial::kNo, 100)->size(), 2u);
}

}  // namespace
}  // namespace weir::text
