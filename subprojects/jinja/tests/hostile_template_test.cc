// Templates that are made to hold a server up: each ends, soon, with a reason.
#include <atomic>

#include "cpu_time.h"
#include "render.h"

namespace jinja {
namespace {

// Twice the same list in a list, again and again: few objects, and more values than can be counted.
const std::string kDoubled =
    "{% set n = namespace(x=['a']) %}{% set m = namespace(x=['a']) %}"
    "{% for i in range(150) %}{% set n.x = [n.x, n.x] %}{% set m.x = [m.x, m.x] %}{% endfor %}";
const std::string kDoubledDicts =
    "{% set n = namespace(x={'a': 1}) %}{% set m = namespace(x={'a': 1}) %}"
    "{% for i in range(150) %}{% set n.x = {'k': n.x, 'l': n.x} %}{% set m.x = {'k': m.x, 'l': m.x} %}{% endfor %}";

TEST(HostileTemplate, ContainersThatShareTheirPartsAreNotWrittenOut) {
  for (const auto& begin : {kDoubled, kDoubledDicts})
    for (const char* use :
         {"{{ n.x }}", "{{ n.x | string }}", "{{ n.x ~ '' }}", "{{ n.x | tojson }}", "{{ n.x | tojson(indent=2) }}",
          "{{ n.x | upper }}", "{{ n.x | trim }}", "{{ n.x | replace('a', 'b') }}", "{{ n.x | escape }}",
          "{{ n.x | indent }}", "{{ [n.x] | join }}", "{{ [n.x] | map('string') | list }}",
          "{{ raise_exception(n.x) }}", "{% set t %}{{ n.x }}{% endset %}"})
      EXPECT_EQ(kind(begin + use), Kind::kLimit) << use;
}

TEST(HostileTemplate, ContainersThatShareTheirPartsAreNotCompared) {
  for (const auto& begin : {kDoubled, kDoubledDicts})
    for (const char* use : {"{{ n.x == m.x }}", "{{ n.x != m.x }}", "{{ n.x in [m.x] }}", "{{ n.x is eq(m.x) }}",
                            "{{ n.x is in([m.x]) }}", "{{ [m.x].index(n.x) }}", "{{ [m.x].count(n.x) }}",
                            "{{ [m.x] | select('eq', n.x) | list }}", "{{ [n.x, m.x] | unique | list }}"})
      EXPECT_EQ(kind(begin + use), Kind::kLimit) << use;
  EXPECT_EQ(kind(kDoubled + "{{ n.x < m.x }}"), Kind::kLimit);
  EXPECT_EQ(kind(kDoubled + "{{ [n.x, m.x] | sort }}"), Kind::kLimit);
  EXPECT_EQ(kind(kDoubled + "{{ [n.x, m.x] | max }}"), Kind::kLimit);
  EXPECT_EQ(kind(kDoubled + "{{ n.x == n.x and (n.x | length) == 2 }}"), Kind::kLimit);
  EXPECT_EQ(*render(kDoubled + "{{ n.x | length }}{{ n.x is defined }}{{ n.x is sequence }}"), "2TrueTrue");
}

TEST(HostileTemplate, OneStepOfALoopIsPaidForByWhatItLooksAt) {
  const std::string begin = "{% set a = 'a' * 5000000 %}{% set b = 'a' * 4999999 ~ 'b' %}{% for i in range(99999) %}";
  for (const char* step : {"{% if a == b %}{% endif %}",
                           "{% if a < b %}{% endif %}",
                           "{% if a in b %}{% endif %}",
                           "{% if b in a %}{% endif %}",
                           "{{ a.find('b') }}",
                           "{{ a.count('b') }}",
                           "{{ a | length }}",
                           "{{ a[5:6] }}",
                           "{{ a.isalpha() }}",
                           "{{ a.startswith(b) }}",
                           "{{ a is upper }}",
                           "{{ a is eq(b) }}",
                           "{{ a is in(b) }}",
                           "{{ a.strip('x') }}",
                           "{{ a | int }}",
                           "{{ [b] | select('eq', a) | list }}",
                           "{{ [a, b] | max | length }}",
                           "{{ [a, b] | unique | list | length }}",
                           "{{ [b].index(b) }}",
                           "{{ a is sameas(b) }}"})
    EXPECT_EQ(kind(begin + step + "{% endfor %}"), Kind::kLimit) << step;
}

TEST(HostileTemplate, LongNeedlesInLongTextsAreNotLookedFor) {
  const std::string begin = "{% set a = 'a' * 5000000 %}{% set b = 'a' * 2500000 ~ 'b' %}";
  for (const char* use : {"{{ b in a }}", "{{ a.find(b) }}", "{{ a.rfind(b) }}", "{{ a.split(b) }}",
                          "{{ a.rsplit(b, 1) }}", "{{ a.replace(b, '') }}", "{{ a | replace(b, '') }}",
                          "{{ a.count(b) }}", "{{ b is in(a) }}", "{{ a.strip(b) }}", "{{ a | trim(b) }}"})
    EXPECT_EQ(kind(begin + use), Kind::kLimit) << use;
}

TEST(HostileTemplate, ManyNamesCostTheirLookUps) {
  std::string source;
  for (int i = 0; i < 40000; ++i) source += "{% set a" + std::to_string(i) + " = 1 %}";
  EXPECT_EQ(kind(source + "{% for i in range(99999) %}{{ nobody }}{% endfor %}"), Kind::kLimit);
  EXPECT_EQ(kind("{% set n = namespace(x={}) %}{% for i in range(99999) %}{% set n.x = dict(n.x, a=1) %}{% endfor %}"),
            Kind::kLimit);
}

TEST(HostileTemplate, PaddingAndFillingArePaidForBeforeTheyAreMade) {
  for (const char* use :
       {"{{ 'a'.center(10**9) }}", "{{ 'a'.ljust(10**18) }}", "{{ 'a'.rjust(9223372036854775807) }}",
        "{{ 'a'.rjust(200000000, 'é') }}", "{{ '-1'.zfill(10**9) }}", "{{ 'a' | center(10**9) }}",
        "{{ [1] | batch(10**9, 'x') | list | length }}", "{{ [1] | batch(9223372036854775807, 0) | list }}",
        "{{ [1] | slice(10**9) | list | length }}", "{{ [] | slice(9223372036854775807, 'x') | list }}",
        "{% for i in range(99999) %}{{ 'a'.center(100000) }}{% endfor %}",
        "{% set l = [range(99999) | list] * 1000 %}{{ l | sum(start=[]) | length }}",
        "{% set a = 'é' * 1000000 %}{% for i in range(9999) %}{{ a.swapcase() | length }}{% endfor %}",
        "{% set a = 'é' * 1000000 %}{% for i in range(9999) %}{{ a | wordcount }}{% endfor %}",
        "{% set a = 'a' * 5000000 %}{% for i in range(9999) %}{{ a.partition('b') | length }}{% endfor %}",
        "{% set a = 'é' * 1000000 %}{% for i in range(9999) %}{{ a | urlencode | length }}{% endfor %}"})
    EXPECT_EQ(kind(use), Kind::kLimit) << use;
  EXPECT_EQ(kind("{{ 0xffffffffffffffffff }}"), Kind::kTemplate);
}

TEST(HostileTemplate, JsonIsNotBlownUpByWhatStandsBetweenItsValues) {
  EXPECT_EQ(kind("{{ range(99999) | list | tojson(indent='x' * 1000000) }}"), Kind::kLimit);
  EXPECT_EQ(kind("{{ range(99999) | list | tojson(separators=['x' * 1000000, ':']) }}"), Kind::kLimit);
}

TEST(HostileTemplate, WhatATemplateRaisesIsCutToALengthThatCanBeSent) {
  auto out = render("{{ raise_exception('é' * 1000000) }}");
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().kind, Kind::kTemplate);
  EXPECT_EQ(out.error().message.size(), 1003u);
  EXPECT_TRUE(out.error().message.ends_with("é..."));
  EXPECT_LT(render("{{ " + std::string(500000, 'x') + ".y }}").error().message.size(), 1100u);
  EXPECT_LT(render("{% " + std::string(500000, 'x') + " %}").error().message.size(), 1100u);
}

// Real templates and real conversations stay far inside of the limits.
TEST(HostileTemplate, ALongConversationIsRendered) {
  Json messages = Json::array();
  for (int i = 0; i < 1000; ++i)
    messages.push_back({{"role", i % 2 ? "assistant" : "user"}, {"content", std::string(1000, 'a') + "</think>b "}});
  auto out = render(R"({%- set ns = namespace(last=0) -%}
    {%- for m in messages -%}
      {%- if messages | selectattr('role', 'equalto', 'system') | list | length > 0 -%}x{%- endif -%}
      {%- if m.role == 'user' and not (m.content.startswith('<tool>') and m.content.endswith('</tool>')) -%}
        {%- set ns.last = loop.index0 -%}
      {%- endif -%}
      {%- if '</think>' in m.content -%}{{ m.content.split('</think>')[-1].strip('\n') | trim }}{%- endif -%}
      {%- if m['content'] is string and m.content | length > 5 -%}.{%- endif -%}
    {%- endfor -%})",
                    {{"messages", messages}});
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->size(), 2000u);
}

// --- what a caller allows --------------------------------------------------------------------------------------------

constexpr Budget kBrief{20'000, size_t(16) << 10, nullptr};  // a few milliseconds

std::optional<Kind> within(const Budget& budget, std::string_view source) {
  return kind_of(render(source, Json::object(), budget));
}

TEST(Budget, StepsAreCountedAndOneMoreIsTooMany) {
  const std::string_view loop = "{% for i in range(100) %}{% set x = i %}{% endfor %}";
  uint64_t needed = 1;
  while (within({.steps = needed}, loop) == Kind::kBudget && needed < 10'000) ++needed;
  EXPECT_GT(needed, 300u);
  EXPECT_LT(needed, 3000u);
  EXPECT_EQ(within({.steps = needed}, loop), kOk);
  EXPECT_EQ(within({.steps = needed - 1}, loop), Kind::kBudget);
}

TEST(Budget, BytesAreCountedAndOneMoreIsTooMany) {
  EXPECT_EQ(within({.bytes = 1000}, "{{ 'x' * 500 }}"), kOk) << "made, and written";
  EXPECT_EQ(within({.bytes = 999}, "{{ 'x' * 500 }}"), Kind::kBudget);
}

TEST(Budget, WhatPassesTheBoundOfAllTemplatesIsNotWorthAnotherTry) {
  EXPECT_EQ(within({}, "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"), Kind::kLimit);
  EXPECT_EQ(within({.steps = 100}, "{% for i in range(99) %}{{ i }}{% endfor %}"), Kind::kBudget);
}

struct Meter final : MemoryMeter {
  explicit Meter(uint64_t bytes) : room(bytes) {}
  bool take(uint64_t bytes) override {
    if (bytes > room - taken) return false;
    taken += bytes;
    return true;
  }
  const uint64_t room;
  uint64_t taken = 0;
};

TEST(Budget, MemoryIsAskedForBeforeItIsTaken) {
  const std::string list = "{% set n = namespace(l=[1]) %}";
  for (const std::string& source :
       {std::string("{{ 'x' * 100000000 }}"), std::string("{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}"),
        std::string("{% set t %}{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}{% endset %}"),
        std::string("{{ range(99999) | join('x' * 10000) }}"),
        std::string("{{ ('x' * 10000).join(('y,' * 9999).split(',')) }}"),
        list + "{% for i in range(22) %}{% set n.l = n.l + n.l %}{% endfor %}",
        list + "{% set k = 'k' * 1000000 %}{% for i in range(99) %}{% set n.l = n.l + [{k: i}] %}{% endfor %}",
        list + "{% set k = {'k' * 1000000: 1} %}{% for i in range(99) %}{% set n.l = n.l + [dict(k)] %}{% endfor %}",
        list + "{% set k = {'k' * 1000000: 1} %}{% for i in range(99) %}{% set n.l = n.l + [k.keys()] %}{% endfor %}",
        std::string("{{ ('a,' * 999999).split(',') | length }}"), std::string("{{ ('a ' * 999999).split() | length }}"),
        std::string("{{ ('a\n' * 999999).splitlines() | length }}"), std::string("{{ ('\"' * 2999999) | tojson }}"),
        std::string("{{ ('<' * 2999999) | e }}"),
        std::string("{% set m = 'x' * 1000000 %}{{ '%s%s%s%s%s%s%s%s%s%s' % (m, m, m, m, m, m, m, m, m, m) }}"),
        std::string("{{ ('a\n' * 99999) | indent(1000) }}"),
        std::string(
            "{% macro f(i) %}{% if i < 30 %}{{ f(i + 1) }}{{ f(i + 1) }}{% endif %}{% endmacro %}{{ f(0) }}")}) {
    Meter meter(8 << 20);
    EXPECT_EQ(within({.memory = &meter}, source), Kind::kMemory) << source;
  }
}

TEST(Budget, MemoryOfAnOrdinaryTextIsAFewTimesItsLength) {
  Meter little(1 << 20), meter(4 << 20);
  EXPECT_EQ(within({.memory = &little}, "{% for i in range(100) %}{{ i }}{% endfor %}"), kOk);
  EXPECT_EQ(little.taken, uint64_t(64) << 10) << "one piece";
  auto text = render("{{ m }}{% for i in range(1000) %}{{ i }}{% endfor %}", {{"m", std::string(1'000'000, 'x')}},
                     {.memory = &meter});
  ASSERT_EQ(kind_of(text), kOk);
  EXPECT_GE(meter.taken, text->capacity()) << "the text is a part of it";
}

TEST(Budget, NobodyWaitsMeansTheEndSoon) {
  std::atomic<bool> cancelled{true};
  const std::string_view endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}";
  EXPECT_EQ(within({.cancelled = &cancelled}, endless), Kind::kCancelled);
  double took = cpu_of([&] { within({.cancelled = &cancelled}, endless); });
  double whole = cpu_of([&] { within({}, endless); }, 1);
  EXPECT_LT(took * 20, whole);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOWED_BY_SANITIZER
#endif
#endif
#ifdef SLOWED_BY_SANITIZER
constexpr double kBriefSeconds = 0.1;
#else
constexpr double kBriefSeconds = 0.020;  // of CPU time, in a debug build
#endif

TEST(Budget, WhatIsBriefTakesMillisecondsWhateverTheTemplate) {
  for (const char* source :
       {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(9999) %}{{ 'abc' | upper | lower | title | tojson }}{% endfor %}",
        "{% set a = 'a' * 8000 %}{% for i in range(9999) %}{{ a is eq(a ~ 'b') }}{% endfor %}",
        "{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = n.x + [i] %}{% endfor %}",
        "{% for i in range(9999) %}{{ '%s' | replace('s', 'x') | indent }}{% endfor %}"}) {
    EXPECT_EQ(within(kBrief, source), Kind::kBudget) << source;
    EXPECT_LT(cpu_of([&] { within(kBrief, source); }), kBriefSeconds) << source;
  }
}

}  // namespace
}  // namespace jinja
