// Masks over a vocabulary: they say of each token what taking its bytes says.
#include <cstdio>
#include <random>

#include "fits.h"

namespace grammar {
namespace {

std::vector<std::string> some_tokens() {
  std::vector<std::string> out;
  for (int c = 1; c < 256; ++c) out.push_back(std::string(1, char(c)));
  for (auto text : {"{\"",        "\":",   "\": ",  "\",",  "\", \"", "\"}",      "\"}}",     "[1",           ", ",
                    "true",       "false", "null",  "name", "na",     "me\"",     "age",      "\"name\": \"", "é",
                    "\xc3\xa9\"", "\\\"",  "\\u00", "0000", "12",     "-1",       ".5",       "}]",           "}}",
                    "]}",         "\n",    "  ",    "ab",   "abc",    "aaaaaaaa", "\"aaaa\"", "x\"}"})
    out.push_back(text);
  out.push_back("");  // a special token
  return out;
}

void check_against_bytes(const Result<Grammar>& grammar, uint32_t seed, const char* what) {
  const auto tokens = some_tokens();
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  auto shared = over(grammar, views);
  ASSERT_TRUE(shared) << what;
  std::mt19937 random(seed);
  Matcher matcher(shared);
  std::string text;
  for (int step = 0; step < 30 && !matcher.complete(); ++step) {
    const auto next = allowed(matcher, uint32_t(tokens.size()));
    std::vector<bool> in_mask(tokens.size());
    for (uint32_t id : next) in_mask[id] = true;
    for (uint32_t id = 0; id < tokens.size(); ++id) {
      Matcher fresh(shared);
      const bool taken = (text.empty() || fresh.accept(text)) && !tokens[id].empty() && fresh.accept(tokens[id]);
      ASSERT_EQ(taken, in_mask[id]) << what << "\n" << text << " + " << tokens[id];
    }
    if (next.empty()) break;
    const uint32_t id = next[random() % next.size()];
    ASSERT_TRUE(matcher.accept_token(id));
    text += tokens[id];
  }
}

TEST(Matcher, MasksSayOfEachTokenWhatItsBytesSay) {
  const char* schemas[] = {
      R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},"na":{"type":"boolean"}}})",
      R"({"type":"array","items":{"type":"string","maxLength":9,"minLength":5}})",
      R"({"type":"object","additionalProperties":{"type":["number","null"]},"properties":{"ab":{"const":1}}})",
      R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"boolean"}]}}}})",
      "true"};
  for (auto schema : schemas)
    for (uint32_t seed = 0; seed < 2; ++seed) check_against_bytes(read_json_schema(schema), seed, schema);
  const char* grammars[] = {R"(root ::= "a" root "b" | "ab" | [^x]{3,70} "!")",
                            "root ::= (a | b){2,90} \"x\"\na ::= \"a\"+ \nb ::= \"ab\" | \"c\"",
                            "root ::= \"a\" s s | \"\"\ns ::= \"a\" root | \"b\""};
  for (auto text : grammars)
    for (uint32_t seed = 0; seed < 2; ++seed) check_against_bytes(read_gbnf(text), seed, text);
  for (uint32_t seed = 0; seed < 2; ++seed) check_against_bytes(read_regex("(a|ab)*(c|.{0,40}é)x?"), seed, "regex");
}

TEST(Matcher, ATextIsCompleteWhereNothingMayFollow) {
  auto shared = over(read_regex("ab?"));
  Matcher matcher(shared);
  EXPECT_FALSE(matcher.accepting());
  EXPECT_TRUE(matcher.accept("a"));
  EXPECT_TRUE(matcher.accepting());
  EXPECT_FALSE(matcher.complete());
  EXPECT_TRUE(matcher.accept("b"));
  EXPECT_TRUE(matcher.complete());
  EXPECT_FALSE(matcher.accept("b"));
}

TEST(Matcher, ALongTextKeepsFewFrames) {
  auto shared = over(read_json_schema("true"));
  Matcher matcher(shared);
  ASSERT_TRUE(matcher.accept("["));
  for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(matcher.accept(R"({"a":[1,"b"]},)"));
}

}  // namespace
}  // namespace grammar
