#include "tokenizers/decode_stream.h"

#include <random>

#include "tiny_tokenizers.h"

namespace tokenizers {
namespace {

std::string streamed(const Tokenizer& tokenizer, const std::vector<uint32_t>& ids, SkipSpecial skip) {
  DecodeStream stream(tokenizer, skip);
  std::string out;
  for (uint32_t id : ids) {
    std::string piece;
    stream.step(id, piece);
    // Whole sequences only: read on its own it is the same.
    EXPECT_EQ(Json(piece).dump(-1, ' ', false, Json::error_handler_t::replace), Json(piece).dump());
    out += piece;
  }
  stream.finish(out);
  return out;
}

TEST(DecodeStream, ASequenceIsHeldBackUntilItIsWhole) {
  auto tokenizer = tokenizer_of(byte_level_file({}));
  DecodeStream stream(*tokenizer, SkipSpecial::kNo);
  std::string out;
  for (uint32_t id : {0xF0, 0x9F, 0x98}) stream.step(id, out);
  EXPECT_EQ(out, "");
  stream.step(0x80, out);
  EXPECT_EQ(out, "😀");
  stream.step(0xE2, out);
  stream.step('a', out);
  EXPECT_EQ(out,
            "😀\xEF\xBF\xBD"
            "a");
  stream.step(0xC3, out);
  stream.finish(out);
  EXPECT_EQ(out,
            "😀\xEF\xBF\xBD"
            "a\xEF\xBF\xBD");
}

TEST(DecodeStream, AnyIdsStreamToWhatDecodeGives) {
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

TEST(DecodeStream, TheFirstSpaceOfASentencePieceTextIsNotText) {
  auto tokenizer = tokenizer_of(sentencepiece_file({"▁", "a"}, {"▁ a", "▁ ▁"}));
  auto id = [&](const char* piece) { return *tokenizer->id(piece); };
  EXPECT_EQ(streamed(*tokenizer, {id("▁a"), id("▁a")}, SkipSpecial::kNo), "a a");
  EXPECT_EQ(streamed(*tokenizer, {id("▁▁"), id("▁a")}, SkipSpecial::kNo), "  a");
}

}  // namespace
}  // namespace tokenizers
