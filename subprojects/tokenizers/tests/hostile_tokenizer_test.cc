// Files that are made to hold a server up, or to bring it down: refused with the name of the part, or harmless.
#include <atomic>

#include "cpu_time.h"
#include "tiny_tokenizers.h"

namespace tokenizers {
namespace {

std::string fault_of(const std::string& json) {
  auto tokenizer = Tokenizer::parse(json);
  if (tokenizer) return "no fault";
  EXPECT_LT(tokenizer.error().message.size(), 500u);
  return tokenizer.error().message;
}

Json many(size_t count, const Json& one) { return Json(std::vector<Json>(count, one)); }

TEST(HostileTokenizers, EachDefectIsNamed) {
  const Json good = byte_level_file({"a b"});
  const Json replace = Json::parse(R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})");
  Json nested = replace;
  for (int i = 0; i < 40; ++i) nested = {{"type", "Sequence"}, {"normalizers", Json::array({nested})}};
  auto split = [](std::string_view regex) -> Json {
    return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}};
  };
  auto token = [](Json id, Json content) -> Json { return {{"id", id}, {"content", content}}; };
  struct Case {
    const char* name;
    const char* pointer;
    Json value;
    const char* reason;
  };
  const Case cases[] = {
      {"a vocabulary of another kind", "/model/vocab", 7, "model.vocab"},
      {"an id that is too large", "/model/vocab/x", 1u << 22, "model.vocab"},
      {"an id of 2^32", "/model/vocab/x", uint64_t(1) << 32, "model.vocab"},
      {"an id of 2^63", "/model/vocab/x", uint64_t(1) << 63, "model.vocab"},
      {"a negative id", "/model/vocab/x", -1, "model.vocab"},
      {"half an id", "/model/vocab/x", 0.5, "model.vocab"},
      {"a long piece", "/model/vocab", {{std::string(5000, 'x'), 0}}, "4096 bytes"},
      {"an empty merge", "/model/merges/0", " ", "model.merges[0]"},
      {"a merge with itself", "/model/merges/0", Json::array({"a", ""}), "model.merges[0]"},
      {"a merge of three", "/model/merges/0", Json::array({"a", "b", "c"}), "model.merges[0]"},
      {"merges that are none", "/model/merges", {{"a", "b"}}, "model.merges"},
      {"an added token without text", "/added_tokens/0", token(3, ""), "added_tokens[0].content"},
      {"a long added token", "/added_tokens/0", token(3, std::string(513, 'x')), "added_tokens[0].content"},
      {"an added token's id", "/added_tokens/0", token(uint64_t(1) << 40, "x"), "added_tokens[0].id"},
      {"an added token that is none", "/added_tokens/0", "x", "added_tokens[0]"},
      {"many normalizers",
       "/normalizer",
       {{"type", "Sequence"}, {"normalizers", many(100000, replace)}},
       "one step too many"},
      {"normalizers inside each other", "/normalizer", nested, "'Sequence'"},
      {"a long prefix", "/normalizer", {{"type", "Prepend"}, {"prepend", std::string(300, 'x')}}, "prepend"},
      {"many pre-tokenizers",
       "/pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", many(100000, {{"type", "WhitespaceSplit"}})}},
       "one step too many"},
      {"a space that becomes two", "/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "  "}}, "one character"},
      {"many decoders", "/decoder", {{"type", "Sequence"}, {"decoders", many(100000, replace)}}, "one step too many"},
      {"many markers",
       "/post_processor",
       {{"type", "Sequence"},
        {"processors", many(65, {{"type", "BertProcessing"}, {"cls", {"a", 1}}, {"sep", {"a", 1}}})}},
       "64 ids"},
      {"a marker beyond the vocabulary",
       "/post_processor",
       {{"type", "BertProcessing"}, {"cls", {"a", 1u << 21}}, {"sep", {"a", 1}}},
       "post_processor"},
      {"a pattern that is not closed", "/pre_tokenizer", split("(a"), "pre_tokenizer.pattern"},
      {"a pattern that is too long", "/pre_tokenizer", split(std::string(70000, 'a')), "too long"},
      {"a pattern of many groups", "/pre_tokenizer", split(repeated("(", 5000) + repeated(")", 5000)), "pattern"},
      {"a pattern that multiplies", "/pre_tokenizer", split("(((((a{999}){999}){999}){999}){999})"), "pattern"},
      {"a recursive pattern", "/pre_tokenizer", split("\\g<0>"), "not supported"},
      {"an unknown kind of split",
       "/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"String", "x"}}}, {"behavior", "Sideways"}},
       "'Sideways'"},
  };
  for (const auto& c : cases) {
    Json file = good;
    file[Json::json_pointer(c.pointer)] = c.value;
    auto fault = fault_of(file.dump());
    EXPECT_NE(fault.find(c.reason), std::string::npos) << c.name << ": " << fault;
    EXPECT_TRUE(fault.starts_with("tokenizer.json: ")) << fault;
  }
}

TEST(HostileTokenizers, WhatIsNoJsonIsRefused) {
  const std::string good = byte_level_file({"a b"}).dump();
  for (size_t i = 0; i < good.size(); i += 1 + i / 16) EXPECT_NE(fault_of(good.substr(0, i)), "no fault") << i;
  EXPECT_NE(fault_of(repeated("[", 100000)).find("is not JSON"), std::string::npos);
  EXPECT_NE(fault_of(repeated("{\"model\":", 100000)).find("is not JSON"), std::string::npos);
  EXPECT_NE(fault_of("{\"model\":\"\xff\"}").find("is not JSON"), std::string::npos);
  EXPECT_NE(fault_of(std::string("\0", 1)).find("is not JSON"), std::string::npos);
}

TEST(HostileTokenizers, AddedTokensAreManyOnlyTogether) {
  Json file = byte_level_file({});
  for (int i = 0; i < 9000; ++i) {
    std::string content = std::to_string(i);
    file["added_tokens"].push_back({{"id", 300 + i}, {"content", content + std::string(500 - content.size(), 'x')}});
  }
  EXPECT_NE(fault_of(file.dump()).find("added_tokens have more than 4 MiB"), std::string::npos);
}

// Gaps, ids given twice, pieces given twice, merges whose result is their part: nothing that goes round in circles.
TEST(HostileTokenizers, OddVocabulariesWork) {
  std::string file = byte_level_file({"a b", "ab a", "a a"}).dump();
  auto with = [&](const std::string& from, const std::string& to) {
    std::string out = file;
    out.replace(out.find(from), from.size(), to);
    auto tokenizer = Tokenizer::parse(out);
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    return *tokenizer;
  };
  auto gaps = with("\"ab\":256", "\"ab\":4000000");
  EXPECT_EQ(gaps->size(), 4000001u);
  EXPECT_EQ(gaps->decode(gaps->encode("abab", AddSpecial::kNo), SkipSpecial::kNo), "abab");
  EXPECT_EQ(gaps->bytes(3999999), "");
  auto shared = with("\"aa\":258", "\"aa\":97");  // the id of "a"
  EXPECT_EQ(shared->encode(std::string(1000, 'a'), AddSpecial::kNo).size(), 1u);
  auto twice = with("\"ab\":256", "\"ab\":256,\"ab\":259");
  EXPECT_FALSE(twice->encode("ab", AddSpecial::kNo).empty());
}

TEST(HostileTokenizers, ATextGrowsOnlySoFar) {
  Json file = sentencepiece_file({"▁", "a"}, {});
  Json replace = Json::parse(R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})");
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", many(60, replace)}};
  EXPECT_LT(tokenizer_of(file)->encode(std::string(100000, 'a'), AddSpecial::kNo).size(), 1'700'000u);
  replace["pattern"] = {{"Regex", "(?=)"}};
  replace["content"] = std::string(1000, 'a');
  file["normalizer"]["normalizers"] = many(3, replace);
  EXPECT_LT(tokenizer_of(file)->encode(std::string(1000, 'a'), AddSpecial::kNo).size(), 21'000u);
  file["normalizer"] = nullptr;
  file["decoder"] = {{"type", "Sequence"}, {"decoders", many(60, replace)}};
  auto tokenizer = Tokenizer::parse(file.dump());
  ASSERT_FALSE(tokenizer);
  EXPECT_NE(tokenizer.error().message.find("decoder makes too much"), std::string::npos) << tokenizer.error().message;
}

// Each piece of a text may be one more that a pattern goes astray in.
TEST(HostileTokenizers, APatternThatGoesAstrayInEveryWordIsGivenUp) {
  Json file = byte_level_file({});
  file["pre_tokenizer"] = Json::parse(R"j({"type": "Sequence", "pretokenizers": [
    {"type": "WhitespaceSplit"},
    {"type": "Split", "pattern": {"Regex": "(a|aa|aaa)+$[bc]"}, "behavior": "Isolated"},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})j");
  // Each takes a twentieth of a second: eight words are cut as the file says, the rest is one piece with its spaces.
  auto ids = tokenizer_of(file)->encode(repeated(std::string(40, 'a') + " ", 20000), AddSpecial::kNo);
  EXPECT_EQ(ids.size(), 20000u * 41 - 8);
}

// --- texts that are made to hold a worker up ------------------------------------------------------------------------

TEST(HostileTexts, TakeTimeInProportion) {
  auto tokenizer = tokenizer_of(byte_level_file({"a a", "aa aa", "a b", "aaaa aaaa"}));
  const std::pair<const char*, std::string> texts[] = {{"one letter", "a"},    {"two letters", "ab"},
                                                       {"words", "aab "},      {"spaces", " "},
                                                       {"newlines", "\n\n a"}, {"no UTF-8", "\xff"}};
  // Twice as much still fits the second cache, which other programs share: beyond it linear work looks worse.
  for (const auto& [name, part] : texts)
    EXPECT_LE(growth(100'000 / part.size(),
                     [&, &part = part](size_t n) { (void)tokenizer->encode(repeated(part, n), AddSpecial::kNo); }),
              2.5)
        << name;
}

TEST(HostileTexts, ThatNobodyWaitsForAreLeftSoon) {
  auto tokenizer = tokenizer_of(byte_level_file({"a a", "aa aa"}));
  const std::atomic<bool> cancelled{true};
  const std::string text = repeated("ab ", 500'000);
  EXPECT_LT(tokenizer->encode(text, AddSpecial::kNo, &cancelled).size() * 100,
            tokenizer->encode(text, AddSpecial::kNo).size());
  // A long word keeps its letters, but not all of them are merged.
  const std::string word = repeated("a", 2'000'000);
  EXPECT_GT(tokenizer->encode(word, AddSpecial::kNo, &cancelled).size(), word.size() / 2);
  EXPECT_EQ(tokenizer->encode(word, AddSpecial::kNo).size(), word.size() / 4);
}

}  // namespace
}  // namespace tokenizers
