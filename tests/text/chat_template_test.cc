#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weir::text {
namespace {

using Json = nlohmann::json;

base::Result<std::string> render(std::string_view source, const Json& variables = Json::object()) {
  auto parsed = ChatTemplate::parse(source);
  if (!parsed) return parsed.error();
  return (*parsed)->render(variables);
}

std::string text(std::string_view source, const Json& variables = Json::object()) {
  auto out = render(source, variables);
  return out ? *out : "fault: " + out.error().text;
}

base::Code code(std::string_view source, const Json& variables = Json::object()) {
  auto out = render(source, variables);
  return out ? base::Code::kOk : out.error().code;
}

TEST(ChatTemplate, RendersAConversation) {
  Json variables = {{"messages", {{{"role", "user"}, {"content", "hi"}}, {{"role", "assistant"}, {"content", "yo"}}}}};
  EXPECT_EQ(text("{% for m in messages %}<{{ m.role }}>{{ m['content'] }}{% endfor %}", variables),
            "<user>hi<assistant>yo");
}

TEST(ChatTemplate, FaultsNameTheLine) {
  EXPECT_EQ(text("a\n{% if %}"), "fault: the chat template, line 2: unexpected end of the tag");
  EXPECT_EQ(text("{{ 'a"), "fault: the chat template, line 1: a string is not closed");
  EXPECT_EQ(text("\n\n{% include 'x' %}"),
            "fault: the chat template, line 3: the statement 'include' is not supported");
  EXPECT_EQ(text("\n{{ messages[0].role }}"), "fault: line 2: 'messages' is undefined");
  EXPECT_EQ(text("{{ 1 | nonsense }}"), "fault: line 1: the filter 'nonsense' is not supported");
}

TEST(ChatTemplate, ARaisedExceptionSpeaksInItsOwnWords) {
  auto out = render("\n{{ raise_exception('roles must alternate') }}");
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error(), base::invalid("roles must alternate"));
}

TEST(ChatTemplate, KeysKeepTheirOrderWhereTheJsonHasOne) {
  auto parsed = ChatTemplate::parse("{{ tool | tojson }}");
  auto variables = nlohmann::ordered_json::parse(R"({"tool": {"type": "f", "name": "n", "a": 1}})");
  EXPECT_EQ(*(*parsed)->render_ordered(variables), R"({"type": "f", "name": "n", "a": 1})");
}

TEST(ChatTemplate, TextThatIsNoUtf8IsRepaired) { EXPECT_EQ(text("{{ x }}", {{"x", "a\xff"}}), "a\xEF\xBF\xBD"); }

// A template comes with a model: what it may cost is bounded.
TEST(ChatTemplate, ATemplateThatNeverEndsIsStopped) {
  EXPECT_EQ(code("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
            base::Code::kResourceExhausted);
  EXPECT_EQ(code("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), base::Code::kResourceExhausted);
  EXPECT_EQ(code("{{ range(100000000) }}"), base::Code::kResourceExhausted);
}

TEST(ChatTemplate, ATemplateThatMakesTooMuchTextIsStopped) {
  EXPECT_EQ(code("{{ 'a' * 1000000000000 }}"), base::Code::kResourceExhausted);
  EXPECT_EQ(code("{% set n = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}"),
            base::Code::kResourceExhausted);
  EXPECT_EQ(code("{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x | replace('a', n.x) %}"
                 "{% endfor %}"),
            base::Code::kResourceExhausted);
  EXPECT_EQ(code("{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}"),
            base::Code::kResourceExhausted);
  EXPECT_EQ(code("{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x.join([n.x, n.x]) %}"
                 "{% endfor %}"),
            base::Code::kResourceExhausted);
}

TEST(ChatTemplate, NestingIsBoundedEverywhere) {
  auto many = [](std::string_view part) {
    std::string out;
    for (int i = 0; i < 20000; ++i) out += part;
    return out;
  };
  EXPECT_EQ(code("{{ " + many("(") + "1" + many(")") + " }}"), base::Code::kInvalidArgument);
  EXPECT_EQ(code("{{ " + many("[") + many("]") + " }}"), base::Code::kInvalidArgument);
  EXPECT_EQ(code("{{ " + many("not ") + "1 }}"), base::Code::kInvalidArgument);
  EXPECT_EQ(code("{{ " + many("-") + "1 }}"), base::Code::kInvalidArgument);
  EXPECT_EQ(code("{{ 1" + many("+1") + " }}"), base::Code::kInvalidArgument);
  EXPECT_EQ(code("{{ x" + many(".a") + " }}"), base::Code::kInvalidArgument);
  EXPECT_EQ(code("{{ x" + many("|e") + " }}"), base::Code::kInvalidArgument);
  EXPECT_EQ(code("{{ 1" + many(" if 1") + " }}"), base::Code::kInvalidArgument);
  EXPECT_EQ(code("{{ " + many("1 if 1 else ") + "1 }}"), base::Code::kInvalidArgument);
  EXPECT_EQ(code(many("{% if 1 %}") + many("{% endif %}")), base::Code::kInvalidArgument);
  EXPECT_EQ(code("{% if 0 %}" + many("{% elif 0 %}") + "{% endif %}"), base::Code::kOk);
  EXPECT_EQ(text("{{ 'a'" + many(" ~ 'a'") + " }}").size(), 20001u);
  EXPECT_EQ(code("{% set n = namespace(x=1) %}{% for i in range(999) %}{% set n.x = [n.x] %}{% endfor %}"),
            base::Code::kResourceExhausted);
  Json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_EQ(code("{{ x }}", {{"x", deep}}), base::Code::kResourceExhausted);
}

TEST(ChatTemplate, NothingHoldsItself) {
  EXPECT_EQ(code("{% set n = namespace() %}{% set n.x = n %}"), base::Code::kInvalidArgument);
  EXPECT_EQ(code("{% set n = namespace() %}{% set x = [n] %}"), base::Code::kInvalidArgument);
  EXPECT_EQ(code("{% set n = namespace() %}{% for i in [1] %}{% macro m() %}{{ i }}{% endmacro %}{% set n.x = m %}"
                 "{% endfor %}{{ n.x() }}"),
            base::Code::kInvalidArgument);
}

TEST(ChatTemplate, NumbersDoNotOverflow) {
  EXPECT_EQ(code("{{ 9223372036854775807 + 1 }}"), base::Code::kInvalidArgument);
  EXPECT_EQ(code("{{ 99999999999999999999 }}"), base::Code::kInvalidArgument);
  EXPECT_EQ(code("{{ 2 ** 64 }}"), base::Code::kInvalidArgument);
  EXPECT_EQ(code("{{ (-9223372036854775807 - 1) // -1 }}"), base::Code::kInvalidArgument);
  EXPECT_EQ(code("{{ [1][::9223372036854775807] }}{{ [1][-9223372036854775807:] }}"), base::Code::kOk);
  EXPECT_EQ(code("{{ 1e308 * 10 }}{{ (1e308 * 10) | int }}{{ -7 ** 999999999999 }}"), base::Code::kInvalidArgument);
}

TEST(ChatTemplate, StrftimeNowIsTheClock) {
  std::string year = text("{{ strftime_now('%Y') }}");
  EXPECT_EQ(year.size(), 4u);
  EXPECT_EQ(year.substr(0, 2), "20");
}

}  // namespace
}  // namespace weir::text
