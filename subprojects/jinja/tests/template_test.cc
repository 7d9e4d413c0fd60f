#include "render.h"

namespace jinja {
namespace {

std::string text(std::string_view source, const Json& variables = Json::object()) {
  auto out = render(source, variables);
  return out ? *out : "error: " + out.error().message;
}

TEST(Template, RendersAConversation) {
  Json variables = {{"messages", {{{"role", "user"}, {"content", "hi"}}, {{"role", "assistant"}, {"content", "yo"}}}}};
  EXPECT_EQ(text("{% for m in messages %}<{{ m.role }}>{{ m['content'] }}{% endfor %}", variables),
            "<user>hi<assistant>yo");
}

TEST(Template, ErrorsNameTheLine) {
  EXPECT_EQ(text("a\n{% if %}"), "error: line 2: unexpected end of the tag");
  EXPECT_EQ(text("{{ 'a"), "error: line 1: a string is not closed");
  EXPECT_EQ(text("\n\n{% include 'x' %}"), "error: line 3: the statement 'include' is not supported");
  EXPECT_EQ(text("\n{{ messages[0].role }}"), "error: line 2: 'messages' is undefined");
  EXPECT_EQ(text("{{ 1 | nonsense }}"), "error: line 1: the filter 'nonsense' is not supported");
}

TEST(Template, ARaisedExceptionSpeaksInItsOwnWords) {
  auto out = render("\n{{ raise_exception('roles must alternate') }}");
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().kind, Kind::kTemplate);
  EXPECT_EQ(out.error().message, "roles must alternate");
}

TEST(Template, KeysKeepTheirOrderWhereTheJsonHasOne) {
  auto parsed = Template::parse("{{ tool | tojson }}");
  auto variables = nlohmann::ordered_json::parse(R"({"tool": {"type": "f", "name": "n", "a": 1}})");
  EXPECT_EQ(*(*parsed)->render(variables), R"({"type": "f", "name": "n", "a": 1})");
}

TEST(Template, TextThatIsNoUtf8IsRepaired) { EXPECT_EQ(text("{{ x }}", {{"x", "a\xff"}}), "a\xEF\xBF\xBD"); }

// A template comes with a model: what it may cost is bounded.
TEST(Template, ATemplateThatNeverEndsIsStopped) {
  EXPECT_EQ(kind("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"), Kind::kLimit);
  EXPECT_EQ(kind("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), Kind::kLimit);
  EXPECT_EQ(kind("{{ range(100000000) }}"), Kind::kLimit);
}

TEST(Template, ATemplateThatMakesTooMuchTextIsStopped) {
  EXPECT_EQ(kind("{{ 'a' * 1000000000000 }}"), Kind::kLimit);
  EXPECT_EQ(kind("{% set n = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}"),
            Kind::kLimit);
  EXPECT_EQ(kind("{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x | replace('a', n.x) %}"
                 "{% endfor %}"),
            Kind::kLimit);
  EXPECT_EQ(kind("{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}"),
            Kind::kLimit);
  EXPECT_EQ(kind("{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x.join([n.x, n.x]) %}"
                 "{% endfor %}"),
            Kind::kLimit);
}

TEST(Template, NestingIsBoundedEverywhere) {
  auto many = [](std::string_view part) {
    std::string out;
    for (int i = 0; i < 20000; ++i) out += part;
    return out;
  };
  EXPECT_EQ(kind("{{ " + many("(") + "1" + many(")") + " }}"), Kind::kTemplate);
  EXPECT_EQ(kind("{{ " + many("[") + many("]") + " }}"), Kind::kTemplate);
  EXPECT_EQ(kind("{{ " + many("not ") + "1 }}"), Kind::kTemplate);
  EXPECT_EQ(kind("{{ " + many("-") + "1 }}"), Kind::kTemplate);
  EXPECT_EQ(kind("{{ 1" + many("+1") + " }}"), Kind::kTemplate);
  EXPECT_EQ(kind("{{ x" + many(".a") + " }}"), Kind::kTemplate);
  EXPECT_EQ(kind("{{ x" + many("|e") + " }}"), Kind::kTemplate);
  EXPECT_EQ(kind("{{ 1" + many(" if 1") + " }}"), Kind::kTemplate);
  EXPECT_EQ(kind("{{ " + many("1 if 1 else ") + "1 }}"), Kind::kTemplate);
  EXPECT_EQ(kind(many("{% if 1 %}") + many("{% endif %}")), Kind::kTemplate);
  EXPECT_EQ(kind("{% if 0 %}" + many("{% elif 0 %}") + "{% endif %}"), kOk);
  EXPECT_EQ(text("{{ 'a'" + many(" ~ 'a'") + " }}").size(), 20001u);
  EXPECT_EQ(kind("{% set n = namespace(x=1) %}{% for i in range(999) %}{% set n.x = [n.x] %}{% endfor %}"),
            Kind::kLimit);
  Json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_EQ(kind("{{ x }}", {{"x", deep}}), Kind::kLimit);
}

TEST(Template, NamespacesHoldOthersAndThemselves) {
  EXPECT_EQ(text("{% set n = namespace(a=1) %}{% set l = [n] %}{% set n.a = 2 %}{{ l[0].a }}"), "2");
  EXPECT_EQ(text("{% set n = namespace(a=1) %}{% set n.x = {'y': [n]} %}{{ n.x.y[0].x.y[0].a }}{{ n.x }}"),
            "1{'y': [<Namespace>]}");
  EXPECT_EQ(kind("{% set n = namespace() %}{% for i in range(5000) %}{% set m = namespace() %}{% set m.x = n.x %}"
                 "{% set n.x = m %}{% endfor %}{{ n.x.x.x }}"),
            kOk)
      << "a long chain is freed one by one";
  EXPECT_EQ(kind("{% set n = namespace(x=1) %}{% for i in range(300) %}{% set n.x = namespace(x=n.x) %}{% endfor %}"),
            Kind::kLimit);
  EXPECT_EQ(kind("{% for i in [1] %}{% set loop.x = loop %}{{ loop.x.x.index }}{% endfor %}"), kOk);
  EXPECT_EQ(kind("{% set n = namespace() %}{% set n.x = [n] %}{{ n | tojson }}"), Kind::kTemplate);
}

TEST(Template, FormatsAreBounded) {
  EXPECT_EQ(kind("{{ '%999999999d' % 1 }}"), Kind::kTemplate);
  EXPECT_EQ(kind("{{ '%.999999999f' % 1 }}"), Kind::kTemplate);
  EXPECT_EQ(kind("{{ '%.301f' % 1 }}"), Kind::kTemplate);
  EXPECT_EQ(kind("{{ '%*d' % (9223372036854775807, 1) }}"), kOk);
  EXPECT_EQ(kind("{{ '%*d' % (-9223372036854775807 - 1, 1) }}"), kOk);
  EXPECT_EQ(text("{{ ('%.300f' % 1e308) | length }}{{ ('%#x' % (-9223372036854775807 - 1)) }}"),
            "610-0x8000000000000000");
  for (const char* bad :
       {"{{ '%' % 1 }}", "{{ '%s' % (1, 2) }}", "{{ '%s%s' % 1 }}", "{{ '%(a)s' % 1 }}", "{{ '%(a' % {} }}",
        "{{ '%d' % 'x' }}", "{{ '%y' % 1 }}", "{{ '%c' % -1 }}", "{{ '%*d' % 1 }}", "{{ '%d' % 1e300 }}"})
    EXPECT_EQ(kind(bad), Kind::kTemplate) << bad;
  EXPECT_EQ(kind("{% for i in range(100000) %}{{ '%1000000d' % 1 }}{% endfor %}"), Kind::kLimit);
}

TEST(Template, MacrosStayInTheirScope) {
  EXPECT_EQ(kind("{% set n = namespace() %}{% for i in [1] %}{% macro m() %}{{ i }}{% endmacro %}{% set n.x = m %}"
                 "{% endfor %}{{ n.x() }}"),
            Kind::kTemplate);
}

TEST(Template, NumbersDoNotOverflow) {
  EXPECT_EQ(kind("{{ 9223372036854775807 + 1 }}"), Kind::kTemplate);
  EXPECT_EQ(kind("{{ 99999999999999999999 }}"), Kind::kTemplate);
  EXPECT_EQ(kind("{{ 2 ** 64 }}"), Kind::kTemplate);
  EXPECT_EQ(kind("{{ (-9223372036854775807 - 1) // -1 }}"), Kind::kTemplate);
  EXPECT_EQ(kind("{{ [1][::9223372036854775807] }}{{ [1][-9223372036854775807:] }}"), kOk);
  EXPECT_EQ(kind("{{ 1e308 * 10 }}{{ (1e308 * 10) | int }}{{ -7 ** 999999999999 }}"), Kind::kTemplate);
}

TEST(Template, StrftimeNowIsTheClock) {
  std::string year = text("{{ strftime_now('%Y') }}");
  EXPECT_EQ(year.size(), 4u);
  EXPECT_EQ(year.substr(0, 2), "20");
}

}  // namespace
}  // namespace jinja
