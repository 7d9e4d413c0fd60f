// The bounds of the parser: a template at the bound is parsed, one beyond it is refused, and time is linear.
#include <gtest/gtest.h>

#include <functional>

#include "cpu_time.h"
#include "jinja/template.h"

namespace jinja {
namespace {

std::string template_fault(const std::string& source) {
  auto parsed = Template::parse(source);
  return parsed ? "" : parsed.error().message;
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
  EXPECT_EQ(template_fault(std::string(kMost + 1, 'x')), "the template is larger than 1 MiB");
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
    EXPECT_LE(growth(4000, [&](size_t n) { EXPECT_EQ(template_fault(repeated(part, n)), ""); }), 2.5) << part;
  for (const char* part : {"a + ", "a ~ ", "a, "}) {
    auto work = [&](size_t n) { (void)template_fault("{{ [" + repeated(part, n) + "a] }}"); };
    EXPECT_LE(growth(4000, work), 2.5) << part;
  }
}

}  // namespace
}  // namespace jinja
