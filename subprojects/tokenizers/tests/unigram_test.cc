// Unigram models, and the tables of normalized spellings that come with them.
#include "../src/charsmap.h"

#include <algorithm>

#include "cpu_time.h"
#include "tiny_tokenizers.h"

namespace tokenizers {
namespace {

using Pieces = std::vector<std::string>;
using Scored = std::vector<std::pair<std::string, double>>;

Json unigram_file(const Scored& scored) {
  Json file = Json::parse(R"({
    "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
    "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true}],
    "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0]]}})");
  for (const auto& [piece, score] : scored) file["model"]["vocab"].push_back(Json::array({piece, score}));
  return file;
}

TEST(Unigram, ThePathOfTheBestSumIsTaken) {
  auto tokenizer =
      tokenizer_of(unigram_file({{"▁", -3}, {"a", -1}, {"b", -1}, {"ab", -3}, {"▁ab", -4.5}, {"abb", -2.5}}));
  EXPECT_EQ(pieces(*tokenizer, "ab"), (Pieces{"▁ab"}));
  EXPECT_EQ(pieces(*tokenizer, "abb"), (Pieces{"▁", "abb"})) << "-5.5, and the others are -5.5 and less: found first";
  EXPECT_EQ(pieces(*tokenizer, "ba ab"), (Pieces{"▁", "b", "a", "▁ab"}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("ba ab", AddSpecial::kNo), SkipSpecial::kNo), "ba ab");
}

TEST(Unigram, NeighboursThatAreUnknownAreOneToken) {
  auto tokenizer = tokenizer_of(unigram_file({{"▁", -3}, {"a", -1}}));
  EXPECT_EQ(pieces(*tokenizer, "xyzaé"), (Pieces{"▁", "<unk>", "a", "<unk>"}));
  EXPECT_EQ(pieces(*tokenizer, ""), Pieces{});
}

TEST(Unigram, UnknownCharactersFallBackToBytesWhereAllAreThere) {
  Json file = unigram_file({{"▁", -3}, {"<0xC3>", -9}, {"<0xA9>", -9}});
  file["model"]["byte_fallback"] = true;
  auto tokenizer = tokenizer_of(file);
  EXPECT_EQ(pieces(*tokenizer, "é"), (Pieces{"▁", "<0xC3>", "<0xA9>"}));
  EXPECT_EQ(pieces(*tokenizer, "éx"), (Pieces{"▁", "<unk>"})) << "all of what is unknown, or nothing";
}

TEST(Unigram, AFileThatIsWrongIsRefusedByTheNameOfItsPart) {
  auto with = [&](const char* pointer, Json value) {
    Json file = unigram_file({{"a", -1}});
    file[Json::json_pointer(pointer)] = std::move(value);
    auto tokenizer = Tokenizer::parse(file.dump());
    return tokenizer ? std::string("taken") : tokenizer.error().message;
  };
  auto names = [](const std::string& text, std::string_view part) { return text.find(part) != text.npos; };
  EXPECT_PRED2(names, with("/model/vocab", Json::object({{"a", 1}})), "model.vocab is not a list");
  EXPECT_PRED2(names, with("/model/vocab/1", "a"), "model.vocab[1]");
  EXPECT_PRED2(names, with("/model/vocab/1", Json::array({"a"})), "model.vocab[1]");
  EXPECT_PRED2(names, with("/model/vocab/1", Json::array({"a", "b"})), "model.vocab[1]");
  EXPECT_PRED2(names, with("/model/vocab/1", Json::array({std::string(257, 'a'), 1})), "more than 256 bytes");
  EXPECT_PRED2(names, with("/model/vocab", Json::array()), "model.vocab is empty");
  EXPECT_PRED2(names, with("/model/unk_id", 2), "model.unk_id");
  EXPECT_PRED2(names, with("/model/unk_id", nullptr), "model.unk_id");
  EXPECT_PRED2(names, with("/pre_tokenizer", {{"type", "ByteLevel"}}), "only BPE spells bytes");
  for (const char* table : {"", "A", "!!!!", "AAAA", "AAAAAA==", "/////wAAAAA=", "AwAAAAAAAAA="})
    EXPECT_PRED2(names, with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", table}}),
                 "normalizer.precompiled_charsmap");
}

// Every position begins a piece of every length.
TEST(Unigram, TakesTimeInProportion) {
  Scored scored{{"▁", -3}};
  for (size_t n = 1; n <= 64; ++n) scored.emplace_back(std::string(n, 'a'), -double(n));
  Json file = unigram_file(scored);
  file["pre_tokenizer"]["split"] = false;
  auto tokenizer = tokenizer_of(file);
  for (std::string_view part : {"a", "x", "é", "ax", "\xff"})
    EXPECT_LE(growth(20'000, [&](size_t n) { (void)tokenizer->encode(repeated(part, n), AddSpecial::kNo); }), 2.5)
        << part;
}

TEST(Unigram, AWordThatNobodyWaitsForIsLeftSoon) {
  auto tokenizer = tokenizer_of(unigram_file({{"▁", -3}, {"a", -1}}));
  const std::atomic<bool> cancelled{true};
  EXPECT_EQ(tokenizer->encode(repeated("a", 1'000'000), AddSpecial::kNo, &cancelled).size(), 0u);
}

// --- tables
// -----------------------------------------------------------------------------------------------------------

// A double array of the few spellings of one byte that a table for tests needs, each below 0x80.
std::string table(const std::vector<std::pair<char, std::string>>& spellings) {
  std::vector<uint32_t> units(1024, 0);
  std::string texts;
  units[0] = 256u << 10;  // the root's children: 256 + byte
  uint32_t leaf = 512;
  for (const auto& [byte, text] : spellings) {
    const uint32_t at = 256 ^ uint8_t(byte);
    units[at] = uint8_t(byte) | 1u << 8 | (at ^ leaf) << 10;  // its value is at `leaf`
    units[leaf++] = 1u << 31 | uint32_t(texts.size());
    texts += text + '\0';
  }
  std::string out;
  auto put = [&](uint32_t number) {
    for (int i = 0; i < 4; ++i) out += char(number >> 8 * i);
  };
  put(uint32_t(units.size() * 4));
  for (uint32_t unit : units) put(unit);
  return out + texts;
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) bits = bits << 8 | (at + i < bytes.size() ? uint8_t(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i) out += at + i > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * i) & 63];
  }
  return out;
}

std::string normalized(const Charsmap& map, std::string_view text, size_t most = 1 << 20) {
  std::string out(text);
  map.apply(text, out, most);
  return out;
}

TEST(Charsmap, SpellingsAreReplacedClusterByCluster) {
  auto map = Charsmap::parse(base64(table({{'a', "bb"}, {'\r', " "}, {'x', ""}})));
  ASSERT_TRUE(map);
  EXPECT_EQ(normalized(*map, "a cxa"), "bb cbb");
  EXPECT_EQ(normalized(*map, "1\r\n2"), "1 2") << "CR LF is one cluster, and goes as a whole";
  EXPECT_EQ(normalized(*map, "a\u0301!"), "bb!") << "so does a letter with its accent";
  EXPECT_EQ(normalized(*map, "a\u0301\u0301\u0301!"), "bb\u0301\u0301\u0301!") << "but for long clusters";
  std::string out = "untouched";
  EXPECT_FALSE(map->apply("nothing here", out, 1000));
  EXPECT_EQ(out, "untouched");
}

TEST(Charsmap, ATextGrowsOnlySoFar) {
  auto map = Charsmap::parse(base64(table({{'a', std::string(1000, 'b')}, {'c', std::string(2000, 'd')}})));
  ASSERT_TRUE(map);
  EXPECT_LT(normalized(*map, std::string(1000, 'a'), 10'000).size(), 12'100u);
  EXPECT_EQ(normalized(*map, "ccc"), "ccc") << "too long for a spelling";
}

TEST(Charsmap, AnyBytesAreATableOrNone) {
  std::string good = table({{'a', "bb"}, {'b', "c"}});
  for (size_t at = 4; at < good.size(); at += 3) {
    std::string bad = good;
    bad[at] = char(bad[at] ^ 0x5A), bad[at / 2] = char(0xFF);
    if (auto map = Charsmap::parse(base64(bad))) normalized(*map, "abc\xF0\x9F\x98\x80 \r\n");
  }
}

// The bound and one byte past it: a small trie, and texts that nobody refers to.
TEST(Charsmap, ATableHasSoManyBytesAndNoMore) {
  std::string largest = table({{'a', "bb"}});
  largest.resize(Charsmap::kMaxTable, 'x');
  auto map = Charsmap::parse(base64(largest));
  ASSERT_TRUE(map);
  EXPECT_EQ(normalized(*map, "a"), "bb");
  EXPECT_FALSE(Charsmap::parse(base64(largest + "x")));
}

TEST(Charsmap, ASpellingsTextHasSoManyBytesAndNoMore) {
  const std::string longest(Charsmap::kMaxText, 'x');
  auto map = Charsmap::parse(base64(table({{'a', longest}, {'b', longest + "x"}})));
  ASSERT_TRUE(map);
  EXPECT_EQ(normalized(*map, "a"), longest);
  EXPECT_EQ(normalized(*map, "b"), "b");
}

TEST(Charsmap, AHeadThatLiesIsRefused) {
  const std::string good = table({{'a', "bb"}});
  const size_t trie = 1024 * 4;
  for (uint64_t size : {uint64_t(0), uint64_t(trie) + 1, uint64_t(good.size()), uint64_t(UINT32_MAX)}) {
    std::string bad = good;
    for (size_t i = 0; i < 4; ++i) bad[i] = char(size >> 8 * i);
    EXPECT_FALSE(Charsmap::parse(base64(bad))) << size;
  }
}

// A trie in which every character leads on, round and round, and one whose values lie beyond the texts.
TEST(Charsmap, ATrieThatLiesIsHarmless) {
  for (const uint32_t filler : {0u, 1u << 10, 0xFFFFFC00u, 0xFFFFFFFFu, 1u << 31}) {
    std::string bad = table({{'a', "bb"}});
    for (size_t unit = 0; unit < 1024; ++unit)
      for (size_t i = 0; i < 4; ++i) bad[4 + 4 * unit + i] = char((filler | (unit & 0xFF)) >> 8 * i);
    auto map = Charsmap::parse(base64(bad));
    ASSERT_TRUE(map);
    const std::string text = repeated("abc\u00e9\U0001F600 \r\n", 1000);
    EXPECT_LE(normalized(*map, text, 1 << 20).size(), size_t(1 << 20)) << filler;
  }
}

TEST(Charsmap, ClustersAreThoseOfUnicode) {
  const std::pair<std::string_view, size_t> firsts[] = {{"ab", 1},
                                                        {"\r\n", 2},
                                                        {"\n\u0301", 1},
                                                        {"e\u0301x", 3},
                                                        {"\u1100\u1161\u11A8", 9},
                                                        {"\u0600a", 3},
                                                        {"\u0915\u093E", 6},
                                                        {"👍🏽x", 8},
                                                        {"👨‍👩‍👧x", 18},
                                                        {"🇩🇪🇫🇷", 8},
                                                        {"a\u200D👍", 4},
                                                        {"\u00A0\u0301", 4},
                                                        {"\u0301\u0301", 4},
                                                        {"é", 2},
                                                        {"\u00ADx", 2}};
  for (const auto& [text, size] : firsts) EXPECT_EQ(grapheme_size(text, 0), size) << text;
}

}  // namespace
}  // namespace tokenizers
