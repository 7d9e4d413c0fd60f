// The readers take these texts, and refuse those.
#include "fits.h"

namespace grammar {
namespace {

constexpr const char* kJsonGbnf = R"gbnf(
# llama.cpp's grammars/json.gbnf
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
)gbnf";

TEST(Gbnf, LlamaCppsJsonGrammarTakesJson) {
  auto json = over(read_gbnf(kJsonGbnf));
  for (auto text : {"{}", R"({"a": [1, -2.5e+3, true, {"b": "\u00e9 \" é 😀"}]})", "{\n    \"x\": null}\n"})
    EXPECT_TRUE(fits(json, text)) << text;
  for (auto text : {"", "[]", "{", R"({"a"})", R"({"a":01})", "{\"a\":\"\n\"}", "{\"a\":\"\xff\"}"})
    EXPECT_FALSE(fits(json, text)) << text;
}

TEST(Gbnf, RepetitionsCountTheirItem) {
  auto word = over(read_gbnf("root ::= [a-c]{2,4} (\"-\" ab{3})? \n ab ::= \"x\" | \"yy\""));
  for (auto text : {"ab", "abca", "aa-xyyx"}) EXPECT_TRUE(fits(word, text)) << text;
  for (auto text : {"a", "abcab", "aa-xx", "aa-xxxx", "aa-"}) EXPECT_FALSE(fits(word, text)) << text;
  auto long_one = over(read_gbnf("root ::= a{200,1000} \"!\"\na ::= \"ab\" | \"c\""));
  EXPECT_TRUE(fits(long_one, std::string(200, 'c') + "!"));
  EXPECT_TRUE(fits(long_one, std::string(1000, 'c') + "!"));
  EXPECT_FALSE(fits(long_one, std::string(199, 'c') + "!"));
  EXPECT_FALSE(fits(long_one, std::string(1001, 'c') + "!"));
}

TEST(Gbnf, RecursionNestsAsDeepAsTheStack) {
  auto nested = over(read_gbnf(R"x(root ::= "(" root ")" | "")x"));
  EXPECT_TRUE(fits(nested, std::string(100, '(') + std::string(100, ')')));
  EXPECT_FALSE(fits(nested, std::string(100, '(') + std::string(99, ')')));
  auto right = over(read_gbnf(R"(root ::= "a" root | "b")"));
  EXPECT_TRUE(fits(right, std::string(100'000, 'a') + "b"));
}

TEST(Gbnf, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_EQ(refusal(read_gbnf("root ::= \"a\"\nx = 3")), "line 2: expected ::= behind 'x'");
  EXPECT_EQ(refusal(read_gbnf("root ::= x")), "rule 'x' is not defined");
  EXPECT_EQ(refusal(read_gbnf("a ::= \"x\"")), "there is no rule 'root'");
  EXPECT_EQ(refusal(read_gbnf("root ::= root \"a\" | \"b\"")), "rule 'root' is left-recursive, which is not supported");
  EXPECT_EQ(refusal(read_gbnf("root ::= a \"x\"\na ::= \"\" | b\nb ::= a a \"y\"")),
            "rule 'a' is left-recursive, which is not supported");
  EXPECT_EQ(refusal(read_gbnf("root ::= \"a\" root")), "no text matches it");
  EXPECT_EQ(refusal(read_gbnf("root ::= <think>")), "line 1: tokens (<…>) are not supported");
  for (auto text : {"root ::= \"a", "root ::= [a", "root ::= (\"a\"", "root ::= \"a\"{3,1}", "root ::= \"\\q\""})
    EXPECT_TRUE(refusal(read_gbnf(text)).starts_with("line 1: ")) << text;
}

TEST(Regex, WhatPythonAndEcmaScriptShare) {
  auto date = over(read_regex(R"(^(19|20)\d{2}-(?:0[1-9]|1[0-2])(?P<day>-[0-3]\d)?$)"));
  EXPECT_TRUE(fits(date, "2024-02-29"));
  EXPECT_TRUE(fits(date, "1999-12"));
  EXPECT_FALSE(fits(date, "1899-12"));
  auto word = over(read_regex(R"([^\W\d_]+?[\]\-a\u00e9][é-ü]\.|[A-Z\s]{2,})"));
  EXPECT_TRUE(fits(word, "xyzé\xc3\xae."));
  EXPECT_TRUE(fits(word, "A\tB "));
  EXPECT_FALSE(fits(word, "A"));
}

TEST(Regex, AnchorsAreTakenWhereTheTextEndsAnyhow) {
  for (auto text : {"^a$|^b$", "^(?:^a|b$)$", "(^(?P<x>a)$)|(?<y>b$)", "^^(a|b)$$", "^(?:(^a$|b$))$", "((^)a|b($))"}) {
    ASSERT_EQ(refusal(read_regex(text)), "") << text;
    auto it = over(read_regex(text));
    for (auto fit : {"a", "b"}) EXPECT_TRUE(fits(it, fit)) << text;
    for (auto other : {"", "ab", "ax", "xb", "^a$"}) EXPECT_FALSE(fits(it, other)) << text << ": " << other;
  }
  const std::string_view why = "^ and $ are supported at the ends of the whole only";
  for (auto text : {"a(^b)", "(a$)b", "a$b", "(a|b$)c", "a^", "(a(b|^))", "(a$|b)(c$)"})
    EXPECT_TRUE(refusal(read_regex(text)).ends_with(why)) << text << ": " << refusal(read_regex(text));
  for (auto text : {"(^a)*", "(?:b$)?", "(^){2}"})
    EXPECT_TRUE(refusal(read_regex(text)).ends_with("a quantifier behind a group with ^ or $")) << text;
}

TEST(Regex, WhatIsNotSupportedIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"x(?=a)", "at 3: look-around is not supported"},
      {"(?<!a)b", "at 2: look-around is not supported"},
      {"(a)\\1", "at 5: back-references are not supported"},
      {"(?P<n>a)(?P=n)", "at 11: back-references are not supported"},
      {"\\k<n>", "at 2: back-references are not supported"},
      {"(?i)a", "at 2: groups of this kind (flags, atomic ones) are not supported"},
      {"(?<(>a)", "at 3: expected a group's name of letters, digits and _, and >"}};
  for (const auto& [text, why] : cases) EXPECT_EQ(refusal(read_regex(text)), why) << text;
}

TEST(Regex, WhatIsNotRegularIsRefused) {
  for (auto text : {"(?=a)b", "(?<!a)b", "(a)\\1", "\\bword", "(?i)a", "a(^b)", "\\p{L}", "a**", "*a", "(a", "a)", "[a",
                    "[b-a]", "a{3,1}", "a\\"})
    EXPECT_TRUE(refusal(read_regex(text)).starts_with("at ")) << text << ": " << refusal(read_regex(text));
}

TEST(Choice, OneOfTheTexts) {
  const std::vector<std::string> texts{"yes", "yesterday", "no", "ünï"};
  auto choice = over(read_choice(texts));
  for (const auto& text : texts) EXPECT_TRUE(fits(choice, text)) << text;
  for (auto text : {"", "ye", "yesno", "yester"}) EXPECT_FALSE(fits(choice, text)) << text;
  EXPECT_EQ(refusal(read_choice({})), "the list of choices is empty");
}

}  // namespace
}  // namespace grammar
