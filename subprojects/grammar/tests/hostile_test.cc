// Grammars that would take too long or too much memory: refused, or they give up within their bounds.
#include <ctime>

#include "fits.h"

namespace grammar {
namespace {

// Seconds of this thread; generous, since sanitizers slow it down.
template <class Run>
double seconds(Run&& run) {
  timespec from{}, to{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
  run();
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
  return double(to.tv_sec - from.tv_sec) + 1e-9 * double(to.tv_nsec - from.tv_nsec);
}
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SLOWED_BY_THREAD_SANITIZER
#endif
#endif
#ifdef SLOWED_BY_THREAD_SANITIZER
constexpr double kMostSeconds = 150;
#else
constexpr double kMostSeconds = 20;
#endif

std::string times(const std::string& text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

TEST(HostileGrammar, RegexesThatExplodeAreRefusedOrStayLinear) {
  const std::string texts[] = {"((((a{1000}){1000}){1000}){1000}){1000}",
                               times("(", 5000) + times(")", 5000),
                               "(a|a)*b" + times("(a|a)*", 3000),
                               times("(a?){0,1000}", 2000),
                               "(.*a){500}",
                               times("(.*a.*b|", 90) + "c" + times(")*", 90),
                               "[ab]*a[ab]{200}",
                               times("(a|b|ab)*", 3000),
                               "(a{0,1000000000}){0,1000000000}x",
                               times("[^a]{9}|", 20'000)};
  std::vector<std::string> bytes{"a", "b", "ab", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
  const std::vector<std::string_view> views(bytes.begin(), bytes.end());
  for (const auto& text : texts) {
    const double took = seconds([&] {
      auto grammar = read_regex(text);
      if (!refusal(grammar).empty()) return;
      auto shared = over(grammar, views);
      Matcher matcher(shared);
      std::vector<uint32_t> words(1);
      for (int i = 0; i < 200 && matcher.accept("ab") && matcher.mask(words); ++i) {
      }
    });
    EXPECT_LT(took, kMostSeconds) << text.substr(0, 60);
  }
}

TEST(HostileGrammar, SchemasThatExplodeAreRefused) {
  std::string doubling = R"({"$defs":{"x0":{"type":"integer"})";
  for (int i = 1; i < 60; ++i) {
    const std::string last = "{\"$ref\":\"#/$defs/x" + std::to_string(i - 1) + "\"}";
    doubling += ",\"x" + std::to_string(i) + R"(":{"allOf":[)" + last + "," + last + R"(],"minimum":)" +
                std::to_string(i) + "}";
  }
  doubling += R"(},"$ref":"#/$defs/x59"})";
  std::string wide = R"({"type":"object","properties":{)";
  for (int i = 0; i < 1999; ++i)
    wide += (i ? ",\"k" : "\"k") + std::to_string(i) + R"(":{"type":"string","maxLength":100000})";
  wide += "}}";
  std::string overlapping = R"({"oneOf":[)";
  for (int i = 0; i < 1500; ++i) overlapping += (i ? "," : "") + (R"({"const":)" + std::to_string(i) + "}");
  overlapping += "]}";
  const std::string schemas[] = {
      doubling,
      wide,
      overlapping,
      times("{\"items\":", 5000) + "{}" + times("}", 5000),
      R"({"$defs":{"a":{"$ref":"#/$defs/b","minimum":1},"b":{"$ref":"#/$defs/a","maximum":3}},"$ref":"#/$defs/a"})",
      R"({"allOf":[{"$ref":"#"},{"type":"object"}]})",
      R"({"type":"array","minItems":1000000000,"items":{"type":"array","minItems":1000000000}})",
      R"({"properties":{")" + times("k", 3000) + R"(":{}},"additionalProperties":true})"};
  for (const auto& schema : schemas) {
    std::string why;
    const double took = seconds([&] { why = refusal(read_json_schema(schema)); });
    EXPECT_LT(took, kMostSeconds) << schema.substr(0, 60);
    EXPECT_LT(why.size(), 500u);
  }
  EXPECT_NE(refusal(read_json_schema(overlapping)), "");
  EXPECT_NE(refusal(read_json_schema(schemas[3])), "");
  EXPECT_NE(refusal(read_json_schema(schemas[4])), "");
}

TEST(HostileGrammar, ASchemaThatIsMergedIntoManyPlacesCountsInEach) {
  const std::string large = R"({"enum":[0)" + times(",12345", 15000) + "]}";
  std::string names = R"("k":{})";
  for (int i = 0; i < 1990; ++i) names += ",\"k" + std::to_string(i) + "\":{}";
  const std::string schemas[] = {
      R"({"allOf":[{"properties":{)" + names + R"(}},{"additionalProperties":)" + large + "}]}",
      R"({"allOf":[{"prefixItems":[{})" + times(",{}", 20000) + R"(]},{"items":)" + large + "}]}"};
  for (const auto& schema : schemas) {
    std::string why;
    const double took = seconds([&] { why = refusal(read_json_schema(schema)); });
    EXPECT_EQ(why, "/allOf/1: the schema is too large");
    EXPECT_LT(took, kMostSeconds);
  }
}

TEST(HostileGrammar, ManyRulesAreBounded) {
  std::string chain = "root ::= r0\n", tangled = "root ::= r0\n";
  for (int i = 0; i < 4500; ++i) {
    chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
    tangled += "r" + std::to_string(i) + " ::= \"a\" r" + std::to_string(i * 7919 % 4500) + " | \"b\" r" +
               std::to_string(i * 104729 % 4500) + " | \"\"\n";
  }
  chain += "r4500 ::= \"x\"\n";
  for (const auto& text : {chain, tangled}) {
    const double took = seconds([&, &text = text] { (void)refusal(read_gbnf(text)); });
    EXPECT_LT(took, kMostSeconds);
  }
  EXPECT_NE(refusal(read_gbnf(times("a ::= b\n", 100) + times("root ::= a\n", 20'000))), "");
  EXPECT_NE(refusal(read_gbnf(std::string(300'000, ' '))), "");
}

TEST(HostileGrammar, AnAmbiguousOneGivesUp) {
  auto shared = over(read_gbnf("root ::= s\ns ::= \"a\" s s \"b\" | \"a\" s \"c\" s | \"a\" | \"\""));
  ASSERT_TRUE(shared);
  Matcher matcher(shared);
  const double took = seconds([&] {
    for (int i = 0; i < 3000 && matcher.accept("a"); ++i) {
    }
  });
  EXPECT_LT(took, kMostSeconds);
}

std::shared_ptr<const TokenAutomaton> with_costly_masks(const std::vector<std::string>& tokens) {
  std::string text = "root ::= ";
  for (int i = 0; i < 20; ++i)
    text += (i ? " | " : "") + ("[ -~]* \"" + std::string{char('a' + i % 26), char('a' + i * (i / 26) % 26)}) +
            "\" [ -~]{20}";
  return over(read_gbnf(text), std::vector<std::string_view>(tokens.begin(), tokens.end()));
}

std::vector<std::string> long_tokens() {
  std::vector<std::string> out;
  for (char a = 'a'; a <= 'z'; ++a)
    for (char b = 'a'; b <= 'z'; ++b)
      for (char c = 'a'; c <= 'z'; ++c)
        for (char d = 'a'; d <= 'f'; ++d) out.push_back(std::string{a, b, c, d} + "abacadaeaf");
  return out;
}

uint64_t steps_of_many_texts(const std::shared_ptr<const TokenAutomaton>& shared, uint32_t vocabulary) {
  std::string begun;
  for (int i = 0; i < 80; ++i) begun += std::string{char('a' + i % 26), char('a' + i * (i / 26) % 26)};
  std::vector<uint32_t> words((vocabulary + 31) / 32);
  for (int i = 0; i < 128; ++i) {
    Matcher matcher(shared);
    EXPECT_TRUE(matcher.accept(begun));
    (void)matcher.mask(words);
  }
  return shared->steps();
}

TEST(HostileGrammar, TextsOfACostlyOneShareTheStepsForItsMasks) {
  const auto tokens = long_tokens();
  auto shared = with_costly_masks(tokens);
  ASSERT_TRUE(shared);
  EXPECT_LT(steps_of_many_texts(shared, uint32_t(tokens.size())), 10'000'000u);
}

TEST(HostileGrammar, CompilingStopsWhenItIsCancelled) {
  auto grammar = read_regex("(a|b)*c");
  std::atomic<bool> cancelled = true;
  auto automaton = Automaton::compile(*grammar, &cancelled);
  ASSERT_FALSE(automaton);
  EXPECT_EQ(automaton.error().message, "cancelled");
}

}  // namespace
}  // namespace grammar
