#include "tokenizers/tokenizer.h"

#include "tiny_tokenizers.h"

namespace tokenizers {
namespace {

using Pieces = std::vector<std::string>;

TEST(Tokenizer, LowestRankIsMergedFirstAndThenTheLeftmost) {
  auto tokenizer = tokenizer_of(byte_level_file({"b c", "a b", "a a", "aa a"}));
  EXPECT_EQ(pieces(*tokenizer, "abc"), (Pieces{"a", "bc"}));
  EXPECT_EQ(pieces(*tokenizer, "aaa"), (Pieces{"aaa"}));
  EXPECT_EQ(pieces(*tokenizer, "aaaaa"), (Pieces{"aa", "aaa"}));
}

TEST(Tokenizer, APieceThatItsMergesDoNotLeadToIsNotFound) {
  Json file = byte_level_file({"b c", "a b", "ab c"});
  EXPECT_EQ(pieces(*tokenizer_of(file), "abc"), (Pieces{"a", "bc"}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(pieces(*tokenizer_of(file), "abc"), (Pieces{"abc"}));
}

TEST(Tokenizer, MergesAreStringsOrPairs) {
  Json file = byte_level_file({"a b"});
  file["model"]["merges"] = Json::parse(R"([["a", "b"]])");
  EXPECT_EQ(pieces(*tokenizer_of(file), "ab"), (Pieces{"ab"}));
}

TEST(Tokenizer, WordsAreCutAsGpt2CutsThem) {
  auto tokenizer = tokenizer_of(byte_level_file({"Ġ a", "Ġ Ġ", "' s"}));
  EXPECT_EQ(pieces(*tokenizer, "a a  a's"), (Pieces{"a", "Ġa", "Ġ", "Ġa", "'s"}));
  EXPECT_EQ(pieces(*tokenizer, "a  "), (Pieces{"a", "ĠĠ"}));
}

TEST(Tokenizer, BytesThatAreNoUtf8AreTheReplacementCharacter) {
  auto tokenizer = tokenizer_of(byte_level_file({}));
  EXPECT_EQ(tokenizer->encode("\xff", AddSpecial::kNo), (std::vector<uint32_t>{0xEF, 0xBF, 0xBD}));
  EXPECT_EQ(tokenizer->encode("\xe2\x82", AddSpecial::kNo), (std::vector<uint32_t>{0xEF, 0xBF, 0xBD}));
}

TEST(Tokenizer, AddedTokensAreRecognisedAnywhereAndSpecialOnesLeftOutWhenAsked) {
  auto tokenizer = tokenizer_of(byte_level_file({}));
  auto ids = tokenizer->encode("a<|end|>b", AddSpecial::kNo);
  EXPECT_EQ(ids, (std::vector<uint32_t>{'a', 256, 'b'}));
  EXPECT_TRUE(tokenizer->special(256));
  EXPECT_EQ(tokenizer->decode(ids, SkipSpecial::kNo), "a<|end|>b");
  EXPECT_EQ(tokenizer->decode(ids, SkipSpecial::kYes), "ab");
  EXPECT_EQ(tokenizer->id("<|end|>"), 256u);
  EXPECT_EQ(tokenizer->size(), 257u);
}

TEST(Tokenizer, AddedTokensTakeWhiteSpaceAndKeepOutOfWords) {
  Json file = byte_level_file({});
  auto add = [&](std::string content, std::string flag) {
    file["added_tokens"].push_back({{"id", 257 + file["added_tokens"].size()}, {"content", content}, {flag, true}});
  };
  add("<l>", "lstrip");
  add("<r>", "rstrip");
  add("yes", "single_word");
  auto tokenizer = tokenizer_of(file);
  EXPECT_EQ(pieces(*tokenizer, "a \n<l> b"), (Pieces{"a", "<l>", "Ġ", "b"}));
  EXPECT_EQ(pieces(*tokenizer, "a <r> \nb"), (Pieces{"a", "Ġ", "<r>", "b"}));
  EXPECT_EQ(pieces(*tokenizer, "yes eyes"), (Pieces{"yes", "Ġ", "e", "y", "e", "s"}));
  EXPECT_EQ(pieces(*tokenizer, "(yes)"), (Pieces{"(", "yes", ")"}));
}

TEST(Tokenizer, TheLongestOfTwoAddedTokensWins) {
  Json file = byte_level_file({});
  file["added_tokens"].push_back({{"id", 300}, {"content", "<|end|>>"}});
  EXPECT_EQ(tokenizer_of(file)->encode("<|end|>>", AddSpecial::kNo), (std::vector<uint32_t>{300}));
}

TEST(Tokenizer, SentencePieceFallsBackToBytesAndSpacesAreMarks) {
  auto tokenizer = tokenizer_of(sentencepiece_file({"▁", "a", "b"}, {"▁ a", "a b", "▁a b"}));
  EXPECT_EQ(pieces(*tokenizer, "ab é", AddSpecial::kYes), (Pieces{"<s>", "▁ab", "▁", "<0xC3>", "<0xA9>"}));
  EXPECT_EQ(pieces(*tokenizer, "a  a"), (Pieces{"▁a", "▁", "▁a"}));
  auto ids = tokenizer->encode("ab é\n", AddSpecial::kYes);
  EXPECT_EQ(tokenizer->decode(ids, SkipSpecial::kYes), "ab é\n");
  EXPECT_EQ(tokenizer->decode(ids, SkipSpecial::kNo), "<s> ab é\n");
}

TEST(Tokenizer, PiecesThatCrossSpacesAreFoundToo) {
  auto tokenizer = tokenizer_of(sentencepiece_file({"▁", "a", "b"}, {"a ▁", "a▁ b"}));
  EXPECT_EQ(pieces(*tokenizer, "a b"), (Pieces{"▁", "a▁b"}));
}

TEST(Tokenizer, UnknownCharactersFuseOnlyWhereTheFileSaysSo) {
  Json file = sentencepiece_file({"▁", "a"}, {});
  file["model"]["byte_fallback"] = false;
  EXPECT_EQ(pieces(*tokenizer_of(file), "xya"), (Pieces{"▁", "<unk>", "a"}));
  file["model"]["fuse_unk"] = false;
  EXPECT_EQ(pieces(*tokenizer_of(file), "xya"), (Pieces{"▁", "<unk>", "<unk>", "a"}));
}

TEST(Tokenizer, NfcComposesBeforeAnythingElse) {
  Json file = byte_level_file({});
  file["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(tokenizer_of(file)->encode("e\xCC\x81", AddSpecial::kNo), (std::vector<uint32_t>{0xC3, 0xA9}));
}

// Long words take another way through the merges than short ones: both give the same.
TEST(Tokenizer, AWordOfAnyLengthIsMergedAlike) {
  auto tokenizer = tokenizer_of(byte_level_file({"a b", "b a", "ab a", "a a", "b b", "aa aa", "aba b"}));
  uint32_t state = 1;
  for (size_t n = 1; n < 200; ++n) {
    std::string text;
    for (size_t i = 0; i < n; ++i) text += (state = state * 1664525 + 1013904223) >> 30 ? 'a' : 'b';
    // The reference: merge by the definition.
    Pieces want;
    for (char c : text) want.emplace_back(1, c);
    const std::vector<std::pair<std::string, std::string>> merges{{"a", "b"}, {"b", "a"},   {"ab", "a"}, {"a", "a"},
                                                                  {"b", "b"}, {"aa", "aa"}, {"aba", "b"}};
    for (bool again = true; again;) {
      again = false;
      for (const auto& [left, right] : merges) {
        for (size_t i = 0; i + 1 < want.size() && !again; ++i)
          if (want[i] == left && want[i + 1] == right) {
            want[i] += right;
            want.erase(want.begin() + long(i) + 1);
            again = true;
          }
        if (again) break;
      }
    }
    EXPECT_EQ(pieces(*tokenizer, text), want) << text;
  }
}

TEST(Tokenizer, EveryLineOfTheDigitsAndMetaspaceStepsIsKept) {
  Json file = byte_level_file({"1 2"});
  Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, byte_level}}};
  EXPECT_EQ(pieces(*tokenizer_of(file), "12"), (Pieces{"1", "2"}));
  file["pre_tokenizer"]["pretokenizers"][0]["individual_digits"] = false;
  EXPECT_EQ(pieces(*tokenizer_of(file), "12"), (Pieces{"12"}));

  file = sentencepiece_file({"▁", "a"}, {"▁ a"});
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}};
  EXPECT_EQ(pieces(*tokenizer_of(file), "a a<s>a"), (Pieces{"▁a", "▁a", "<s>", "a"}));
}

std::string fault_of(Json file) {
  auto tokenizer = Tokenizer::parse(file.dump());
  if (tokenizer) return "no fault";
  return tokenizer.error().message;
}

TEST(Tokenizer, AFileThatIsWrongIsRefusedByTheNameOfItsPart) {
  auto good = byte_level_file({"a b"});
  auto with = [&](const char* pointer, Json value) {
    Json file = good;
    file[Json::json_pointer(pointer)] = std::move(value);
    return fault_of(std::move(file));
  };
  EXPECT_NE(with("/model/type", "WordLevel").find("model.type 'WordLevel'"), std::string::npos);
  EXPECT_NE(with("/model/vocab/x", -1).find("model.vocab"), std::string::npos);
  EXPECT_NE(with("/model/vocab/x", 1u << 31).find("model.vocab"), std::string::npos);
  EXPECT_NE(with("/model/vocab", Json::array()).find("model.vocab"), std::string::npos);
  EXPECT_NE(with("/model/merges/0", "a x y").find("model.merges[0]"), std::string::npos);
  EXPECT_NE(with("/model/merges/0", "x y").find("model.merges[0]"), std::string::npos);
  EXPECT_NE(with("/model/merges/0", 7).find("model.merges[0]"), std::string::npos);
  EXPECT_NE(with("/model/unk_token", "nobody").find("model.unk_token"), std::string::npos);
  EXPECT_NE(with("/normalizer", Json{{"type", "Precompiled"}}).find("normalizer"), std::string::npos);
  EXPECT_NE(with("/decoder", Json{{"type", "CTC"}}).find("'CTC'"), std::string::npos);
  EXPECT_NE(with("/added_tokens/0/id", 1e300).find("added_tokens[0].id"), std::string::npos);
  EXPECT_NE(with("/added_tokens/0/content", 1).find("added_tokens[0].content"), std::string::npos);
  Json split = {{"type", "Split"}, {"pattern", {{"Regex", "(("}}}, {"behavior", "Isolated"}};
  EXPECT_NE(with("/pre_tokenizer", split).find("pre_tokenizer.pattern"), std::string::npos);
  split["pattern"]["Regex"] = "[a-z&&[^b]]";
  EXPECT_NE(with("/pre_tokenizer", split).find("class intersection"), std::string::npos);
  EXPECT_NE(Tokenizer::parse("{").error().message.find("is not JSON"), std::string::npos);
  EXPECT_NE(Tokenizer::parse("[]").error().message.find("not an object"), std::string::npos);
}

TEST(Tokenizer, APatternThatBacktracksForeverDoesNotHang) {
  Json file = byte_level_file({});
  file["pre_tokenizer"] = Json::parse(R"j({"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "(a|aa|aaa)+$b"}, "behavior": "Isolated"},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})j");
  EXPECT_EQ(tokenizer_of(file)->encode(std::string(40, 'a'), AddSpecial::kNo).size(), 40u);
}

}  // namespace
}  // namespace tokenizers
