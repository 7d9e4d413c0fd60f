#include "text/stream.h"

#include <random>

#include "tiny_tokenizers.h"

namespace weir::text {
namespace {

std::string streamed(const Tokenizer& tokenizer, const std::vector<uint32_t>& ids, SkipSpecial skip) {
  Detokenizer stream(tokenizer, skip);
  std::string out;
  for (uint32_t id : ids) {
    std::string piece;
    stream.push(id, piece);
    // Whole sequences only: read on its own it is the same.
    EXPECT_EQ(Json(piece).dump(-1, ' ', false, Json::error_handler_t::replace), Json(piece).dump());
    out += piece;
  }
  stream.finish(out);
  return out;
}

TEST(Detokenizer, ASequenceIsHeldBackUntilItIsWhole) {
  auto tokenizer = tokenizer_of(byte_level_file({}));
  Detokenizer stream(*tokenizer, SkipSpecial::kNo);
  std::string out;
  for (uint32_t id : {0xF0, 0x9F, 0x98}) stream.push(id, out);
  EXPECT_EQ(out, "");
  stream.push(0x80, out);
  EXPECT_EQ(out, "😀");
  stream.push(0xE2, out);
  stream.push('a', out);
  EXPECT_EQ(out,
            "😀\xEF\xBF\xBD"
            "a");
  stream.push(0xC3, out);
  stream.finish(out);
  EXPECT_EQ(out,
            "😀\xEF\xBF\xBD"
            "a\xEF\xBF\xBD");
}

TEST(Detokenizer, AnyIdsStreamToWhatDecodeGives) {
  auto bytes = tokenizer_of(byte_level_file({"Ã ©", "Ġ a", "ð Ł"}));
  auto marks = tokenizer_of(sentencepiece_file({"▁", "a", "é"}, {"▁ a", "▁ ▁"}));
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round)
    for (const auto& tokenizer : {bytes, marks}) {
      std::vector<uint32_t> ids(random() % 12);
      for (auto& id : ids) id = random() % 3 ? random() % (tokenizer->size() + 2) : 0xE0 + random() % 0x20;
      if (!ids.empty() && random() % 2) ids[0] = tokenizer->size() - 1;
      for (SkipSpecial skip : {SkipSpecial::kNo, SkipSpecial::kYes})
        ASSERT_EQ(streamed(*tokenizer, ids, skip), tokenizer->decode(ids, skip));
    }
}

TEST(Detokenizer, TheFirstSpaceOfASentencePieceTextIsNotText) {
  auto tokenizer = tokenizer_of(sentencepiece_file({"▁", "a"}, {"▁ a", "▁ ▁"}));
  auto id = [&](const char* piece) { return *tokenizer->id(piece); };
  EXPECT_EQ(streamed(*tokenizer, {id("▁a"), id("▁a")}, SkipSpecial::kNo), "a a");
  EXPECT_EQ(streamed(*tokenizer, {id("▁▁"), id("▁a")}, SkipSpecial::kNo), "  a");
}

struct Stopped {
  std::string text;
  bool stopped;
  bool operator==(const Stopped&) const = default;
};

Stopped run(std::vector<std::string> stops, StopStrings::Keep keep, std::string_view text, auto&& cut) {
  StopStrings matcher(std::move(stops), keep);
  Stopped out{};
  while (!text.empty()) {
    size_t n = std::min<size_t>(text.size(), cut());
    if (matcher.push(text.substr(0, n), out.text)) return out.stopped = true, out;
    text.remove_prefix(n);
  }
  matcher.finish(out.text);
  return out;
}

TEST(StopStrings, AStopAcrossPiecesEndsTheTextBeforeIt) {
  StopStrings stops({"\n\nUser:"}, StopStrings::Keep::kNo);
  std::string out;
  EXPECT_FALSE(stops.push("hello\n", out));
  EXPECT_EQ(out, "hello");
  EXPECT_FALSE(stops.push("\nUs", out));
  EXPECT_EQ(out, "hello");
  EXPECT_TRUE(stops.push("er: hi", out));
  EXPECT_EQ(out, "hello");
  EXPECT_EQ(stops.which(), "\n\nUser:");
}

TEST(StopStrings, WhatWasHeldBackForNothingIsText) {
  StopStrings stops({"abcd"}, StopStrings::Keep::kNo);
  std::string out;
  EXPECT_FALSE(stops.push("xabc", out));
  EXPECT_EQ(out, "x");
  EXPECT_FALSE(stops.push("abc", out));
  EXPECT_EQ(out, "xabc");
  stops.finish(out);
  EXPECT_EQ(out, "xabcabc");
}

TEST(StopStrings, OfTwoThatEndTogetherTheLongerOneStops) {
  StopStrings stops({"b", "ab"}, StopStrings::Keep::kNo);
  std::string out;
  EXPECT_TRUE(stops.push("xab", out));
  EXPECT_EQ(out, "x");
  EXPECT_EQ(stops.which(), "ab");
}

TEST(StopStrings, CutsMakeNoDifference) {
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    auto letters = [&](size_t n) {
      std::string s;
      while (n--) s += "ab"[random() % 2];
      return s;
    };
    std::vector<std::string> stops;
    for (size_t n = random() % 4; n--;) stops.push_back(letters(random() % 6));
    auto keep = random() % 2 ? StopStrings::Keep::kYes : StopStrings::Keep::kNo;
    std::string text = letters(random() % 24);
    // The definition: the least end, then the least beginning.
    Stopped want{text, false};
    for (size_t end = 1; end <= text.size() && !want.stopped; ++end)
      for (size_t from = 0; from < end && !want.stopped; ++from)
        for (const auto& stop : stops)
          if (!stop.empty() && text.substr(from, end - from) == stop)
            want = {text.substr(0, keep == StopStrings::Keep::kYes ? end : from), true};
    ASSERT_EQ(run(stops, keep, text, [&] { return 1 + random() % 5; }), want) << text;
  }
}

}  // namespace
}  // namespace weir::text
