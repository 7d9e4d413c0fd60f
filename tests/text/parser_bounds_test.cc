// The bounds of the parsers of a model's text files: what is at the bound is read, one more is refused, and time is
// linear.
#include <algorithm>
#include <functional>

#include "support/cpu_time.h"
#include "support/repeated.h"
#include "text/chat_template.h"
#include "tiny_tokenizers.h"

namespace weir::text {
namespace {

using support::repeated;

std::string template_fault(const std::string& source) {
  auto parsed = ChatTemplate::parse(source);
  return parsed ? "" : parsed.error().text;
}

// The largest n below `most` that is taken; all below it must be.
size_t largest(size_t most, const std::function<bool(size_t)>& taken) {
  size_t n = 0;
  while (n < most && taken(n + 1)) ++n;
  return n;
}

TEST(ParserBounds, TemplatesHaveSoManyBytes) {
  constexpr size_t kMost = 1 << 20;
  EXPECT_EQ(template_fault(std::string(kMost, 'x')), "");
  EXPECT_EQ(template_fault(std::string(kMost + 1, 'x')), "the chat template is larger than 1 MiB");
}

TEST(ParserBounds, TemplatesNestSoDeepAndNoDeeper) {
  auto blocks = [](size_t n) { return repeated("{% if a %}", n) + repeated("{% endif %}", n); };
  EXPECT_EQ(template_fault(blocks(99)), "") << "and the template around them";
  EXPECT_NE(template_fault(blocks(100)).find("nested too deeply"), std::string::npos);
  EXPECT_NE(template_fault(blocks(40'000)), "");
  const std::pair<std::string, std::string> nests[] = {{"(", ")"}, {"[", "]"},           {"{'a': ", "}"}, {"not ", ""},
                                                       {"-", ""},  {"a if b else ", ""}, {"f(", ")"}};
  for (const auto& [open, close] : nests) {
    auto expression = [&open = open, &close = close](size_t n) {
      return "{{ " + repeated(open, n) + "a" + repeated(close, n) + " }}";
    };
    size_t deepest = largest(1000, [&](size_t n) { return template_fault(expression(n)).empty(); });
    EXPECT_GE(deepest, 50u) << open;
    EXPECT_LE(deepest, 200u) << open;
    EXPECT_NE(template_fault(expression(100'000)), "") << open;
  }
}

TEST(ParserBounds, TemplatesAreParsedInTimeThatIsLinear) {
  for (const char* part : {"text ", "{{ a }}", "{% if a %}b{% endif %}", "{% set x = [1, 2] %}", "{# comment #}",
                           "{{ 'abc' | upper }}", "{{ a.b[0] }}\n", "{{- '' -}}"})
    EXPECT_LE(support::growth(4000, [&](size_t n) { EXPECT_EQ(template_fault(repeated(part, n)), ""); }), 2.5) << part;
  for (const char* part : {"a + ", "a ~ ", "a, "}) {
    auto work = [&](size_t n) { (void)template_fault("{{ [" + repeated(part, n) + "a] }}"); };
    EXPECT_LE(support::growth(4000, work), 2.5) << part;
  }
}

std::string tokenizer_fault(const Json& file) {
  auto parsed = Tokenizer::parse(file.dump());
  return parsed ? "" : parsed.error().text;
}

TEST(ParserBounds, TokenizersHaveSoManyStepsAndNoMore) {
  const Json lower = {{"type", "Lowercase"}};
  auto normalizers = [&](size_t n) {
    Json file = byte_level_file({});
    file["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::vector<Json>(n, lower)}};
    return tokenizer_fault(file);
  };
  EXPECT_EQ(normalizers(64), "");
  EXPECT_NE(normalizers(65).find("one step too many"), std::string::npos);
}

TEST(ParserBounds, TokenizersNestSoDeepAndNoDeeper) {
  auto nested = [&](size_t n) {
    Json step = {{"type", "Lowercase"}};
    for (size_t i = 0; i < n; ++i) step = {{"type", "Sequence"}, {"normalizers", Json::array({step})}};
    Json file = byte_level_file({});
    file["normalizer"] = step;
    return tokenizer_fault(file);
  };
  EXPECT_EQ(nested(16), "");
  EXPECT_NE(nested(17), "");
  EXPECT_FALSE(Tokenizer::parse(std::string(1'000'000, '[')));
  EXPECT_FALSE(Tokenizer::parse(repeated("{\"a\":", 1'000'000)));
}

TEST(ParserBounds, TokenizersAreReadInTimeThatIsLinear) {
  auto vocabulary = [](size_t n) {
    Json file = byte_level_file({});
    for (size_t i = 0; i < n; ++i) file["model"]["vocab"]["piece" + std::to_string(i)] = 1000 + i;
    return file.dump();
  };
  auto added = [](size_t n) {
    Json file = byte_level_file({});
    for (size_t i = 0; i < n; ++i)
      file["added_tokens"].push_back({{"id", 1000 + i}, {"content", "<" + std::to_string(i) + ">"}, {"special", true}});
    return file.dump();
  };
  for (const auto& make : {std::function<std::string(size_t)>(vocabulary), std::function<std::string(size_t)>(added)}) {
    const std::string once = make(10'000), twice = make(20'000);
    auto read = [](const std::string& file) { return support::cpu_of([&] { EXPECT_TRUE(Tokenizer::parse(file)); }); };
    double grew = 1e9;
    for (int i = 0; i < 8 && grew > 2.5; ++i) grew = std::min(grew, read(twice) / read(once));
    EXPECT_LE(grew, 2.5);
  }
}

}  // namespace
}  // namespace weir::text
