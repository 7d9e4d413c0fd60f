#include "fits.h"

namespace grammar {
namespace {

struct Case {
  const char* schema;
  std::vector<const char*> valid, invalid;
};

const std::vector<Case> kCases{
    {R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"],
       "additionalProperties":false})",
     {R"({"name":"A \"b\" é","age":-12})", R"({"name": "", "age": 0})"},
     {"{}", R"({"name":"a"})", R"({"age":1,"name":"a"})", R"({"name":"a","age":1.5})", R"({"name":"a","age":01})",
      R"({"name":"a","age":1,"x":2})"}},
    {R"({"properties":{"a":{"type":"null"},"b":{"type":"boolean"},"c":{"const":3}}})",
     {"{}", R"({"a":null})", R"({"b":true,"c":3})", R"({"c":3})", R"({"a":null,"c":3})"},
     {R"({"c":3,"a":null})", R"({,"a":null})", R"({"a":null,})", R"({"b":1})"}},
    {R"({"type":"object","properties":{"ab":{"type":"integer"},"ac":{"type":"integer"}},"required":["ab"],
       "additionalProperties":{"type":"string"}})",
     {R"({"ab":1})", R"({"ab":1,"ac":2,"a":"","abc":"x","z":"y"})"},
     {R"({"ab":1,"ac":"x"})", R"({"ab":1,"z":1})", R"({"z":"","ab":1})"}},
    {R"({"type":["string","null"],"maxLength":3,"minLength":1})",
     {"null", R"("abc")", R"("\u00e9é\"")"},
     {R"("")", R"("abcd")", "3"}},
    {R"({"type":"array","items":{"type":"integer","minimum":-5,"maximum":120},"minItems":1,"maxItems":3})",
     {"[-5]", "[0, 120,99]", "[100,7,-1]"},
     {"[]", "[-6]", "[121]", "[1,2,3,4]", "[1,]", "[007]"}},
    {R"({"prefixItems":[{"type":"string"},{"type":"number"}],"items":false,"minItems":1})",
     {R"(["a"])", R"(["a",1.5e3])"},
     {"[]", R"(["a",1,2])", "[1]"}},
    {R"({"prefixItems":[{"type":"string"},{"type":"number"}],"items":{"type":"null"},"minItems":1,"maxItems":4})",
     {R"(["a"])", R"(["a",1])", R"(["a",1,null])", R"(["a",1,null,null])"},
     {"[]", "[null]", R"(["a",null])", R"(["a",1,2])", R"(["a",1,null,null,null])"}},
    {R"({"prefixItems":[{"type":"string"},{"type":"number"}],"minItems":3})",
     {R"(["a",1,true])", R"(["a",1,[],{}])"},
     {R"(["a",1])", "[1,1,1]"}},
    {R"({"items":[{"type":"string"},{"type":"number"}],"additionalItems":false})",
     {"[]", R"(["a"])", R"(["a",1])"},
     {R"(["a",1,1])", "[1]"}},
    {R"({"items":[{"type":"string"}],"additionalItems":{"type":"null"},"maxItems":2})",
     {"[]", R"(["a"])", R"(["a",null])"},
     {R"(["a",1])", R"(["a",null,null])"}},
    {R"({"items":{"type":"null"},"additionalItems":false})", {"[]", "[null,null]"}, {"[1]"}},
    {R"({"allOf":[{"prefixItems":[{"type":"string"},{"type":"number"}]},{"items":{"type":["string","integer"],"minLength":1}}]})",
     {"[]", R"(["a"])", R"(["a",1])", R"(["a",1,"b",2])"},
     {R"([""])", R"(["a",1.5])", R"(["a","b"])", R"(["a",1,null])"}},
    {R"({"allOf":[{"prefixItems":[{"type":"string"},{"maximum":9}],"items":false},{"prefixItems":[true,{"type":"integer"},{}]}]})",
     {"[]", R"(["a"])", R"(["a",9])"},
     {R"(["a",10])", R"(["a",1.5])", R"(["a",1,1])"}},
    {R"({"$ref":"#/$defs/t","additionalItems":true,"minItems":1,"$defs":{"t":{"items":[{"type":"null"}],"additionalItems":false}}})",
     {"[null]"},
     {"[]", "[null,1]", "[1]"}},
    {R"({"allOf":[{"items":[{"type":"null"}]},{"items":{"type":"integer"}}]})", {"[]"}, {"[1]", "[null]"}},
    {R"({"enum":["a",1,null,{"x":[1,2]},"\"q\""]})", {R"("a")", "1", "null", R"({"x":[1,2]})", R"("\"q\"")"}, {"2"}},
    {R"({"type":"string","pattern":"^[a-z]{2}\"\\d+$"})", {R"("ab\"12")"}, {R"("ab"12")", R"("xab\"12")"}},
    {R"({"type":"string","pattern":"b+"})", {R"("abba")", R"("b")"}, {R"("aa")", R"("")"}},
    {R"({"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":4})",
     {R"("ab")", R"("abcd")"},
     {R"("a")", R"("abcde")"}},
    {R"({"type":"string","format":"date-time"})",
     {R"("2024-02-28T23:59:59Z")", R"("2024-12-31T00:00:00.123+02:00")"},
     {R"("2024-02-30T00:00:00Z")", R"("2024-12-31")"}},
    {R"({"type":"string","format":"date"})",
     {R"("0001-01-01")", R"("0079-08-24")", R"("9999-12-31")"},
     {R"("0000-01-01")", R"("2023-02-29")"}},
    {R"({"type":"string","format":"uuid"})", {R"("01234567-89ab-cdef-0123-456789abcdef")"}, {R"("01234567")"}},
    {R"({"type":"string","format":"ipv4"})", {R"("255.0.19.100")"}, {R"("256.0.0.1")", R"("01.0.0.1")"}},
    {R"({"type":"string","format":"password"})", {R"("a b")"}, {"1"}},
    {R"({"type":"string","format":"path","maxLength":2})", {R"("/a")"}, {R"("/ab")"}},
    {R"({"type":"string","format":"binary","pattern":"^a+$"})", {R"("aa")"}, {R"("b")"}},
    {R"({"format":"int32"})", {"1", R"("a")"}, {"x"}},
    {R"({"type":"string","enum":["a","bcd","ééé","abcd"],"minLength":2,"maxLength":3})",
     {R"("bcd")", R"("ééé")"},
     {R"("a")", R"("abcd")"}},
    {R"({"enum":[1,2,3,4,"x"],"minimum":2,"exclusiveMaximum":4})", {"2", "3", R"("x")"}, {"1", "4"}},
    {R"({"allOf":[{"enum":[0,5,10]},{"type":"integer","minimum":1}]})", {"5", "10"}, {"0"}},
    {R"({"type":"string","format":"email"})", {R"("a.b+c@d-e.org")"}, {R"("a@b")", R"("@b.org")"}},
    {R"({"type":"number","minimum":0,"maximum":1})", {"0", "1", "0.25"}, {"1.5", "-0.5", "2"}},
    {R"({"type":"number","exclusiveMinimum":0,"maximum":1})",
     {"1", "1.0", "0.5", "0.001", "0.999999999999999"},
     {"0", "0.0", "0.000", "-0.5", "1.01", "2", "01"}},
    {R"({"type":"number","minimum":-0.5,"maximum":0.5})",
     {"0", "0.5", "0.50", "0.49", "-0.5", "-0.05", "-0.25", "0.0"},
     {"0.51", "-0.501", "1", "-1", "0.6"}},
    {R"({"type":"number","exclusiveMinimum":0})",
     {"0.1", "0.01", "7", "7.25", "999999999999999.5"},
     {"0", "0.00", "-1"}},
    {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})", {"0.5", "0.99"}, {"0", "1", "1.0", "-0.5"}},
    {R"({"type":"number","minimum":0.25,"exclusiveMaximum":0.375})",
     {"0.25", "0.250", "0.3", "0.3749", "0.26"},
     {"0.375", "0.3750", "0.2", "0.2499", "0.4", "0.", "0"}},
    {R"({"type":"number","minimum":-12.5,"exclusiveMaximum":-2})",
     {"-12.5", "-12.25", "-12", "-3", "-2.001", "-9.9", "-10"},
     {"-12.51", "-13", "-2", "-2.0", "-1.9", "0", "3"}},
    {R"({"type":"number","exclusiveMinimum":99.5})",
     {"99.51", "99.6", "100", "1000.5"},
     {"99.5", "99.50", "99", "9.6"}},
    {R"({"type":"number","maximum":1e-20,"minimum":0})", {"0", "0.0"}, {"0.000000000000001", "-0.1", "1"}},
    {R"({"type":"number","minimum":1e-20,"maximum":3})", {"0.000000000000001", "3", "2.5"}, {"0", "0.0"}},
    {R"({"type":"number","maximum":1e300,"exclusiveMinimum":-1e300})", {"0", "-5.5", "123456789012345.5"}, {"x"}},
    {R"({"type":"integer","multipleOf":5})",
     {"0", "5", "-10", "999999999999995"},
     {"7", "01", "-0", "5.0", "1000000000000000"}},
    {R"({"type":"integer","multipleOf":7,"minimum":-20,"exclusiveMaximum":21})",
     {"-14", "-7", "0", "7", "14"},
     {"-21", "21", "28", "1", "70"}},
    {R"({"type":"integer","multipleOf":2500,"minimum":2500})",
     {"2500", "5000", "12500"},
     {"0", "250", "2600", "-2500"}},
    {R"({"type":"integer","multipleOf":2.5})", {"5", "10", "0"}, {"2", "2.5", "7"}},
    {R"({"type":"integer","multipleOf":0.5})", {"5", "3", "-1"}, {"2.5"}},
    {R"({"multipleOf":0.01})", {"1.5", "0.01", "-0.25", "3", "3.10", "0"}, {"0.005", "1.", "-0", "1.505"}},
    {R"({"type":"number","multipleOf":0.05,"exclusiveMinimum":0.1,"maximum":2.07})",
     {"0.15", "1", "1.9", "1.90", "2.05", "2", "2.0"},
     {"0.1", "0.10", "0.12", "2.1", "1.91", "2.10"}},
    {R"({"type":"number","multipleOf":0.25,"maximum":-0.75})", {"-0.75", "-1", "-12.25"}, {"-0.5", "0", "-0.7", "1"}},
    {R"({"type":"number","multipleOf":64,"exclusiveMaximum":64})", {"0", "-64"}, {"64", "32"}},
    {R"({"enum":[1,2,3,4,"x"],"multipleOf":2})", {"2", "4", R"("x")"}, {"1", "3"}},
    {R"({"type":"integer","exclusiveMinimum":9,"exclusiveMaximum":1012})",
     {"10", "99", "100", "999", "1000", "1011"},
     {"9", "1012", "1019", "5", "-10"}},
    {R"({"anyOf":[{"type":"integer"},{"type":"string","enum":["x"]}]})", {"1", R"("x")"}, {R"("y")", "null"}},
    {R"({"oneOf":[{"properties":{"k":{"const":"a"},"v":{"type":"integer"}},"required":["k","v"],"type":"object"},
                {"properties":{"k":{"const":"b"}},"required":["k"],"type":"object"}]})",
     {R"({"k":"a","v":1})", R"({"k":"b"})"},
     {R"({"k":"a"})", R"({"k":"c"})"}},
    {R"({"allOf":[{"properties":{"a":{"minimum":3,"type":"integer"}},"required":["a"]},
                {"properties":{"a":{"maximum":7},"b":{"type":"null"}},"required":["b"]}],"type":"object"})",
     {R"({"a":5,"b":null})"},
     {R"({"a":8,"b":null})", R"({"a":5})"}},
    {R"({"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/n"},
       {"type":"null"}]}},"required":["v","next"]}},"$ref":"#/$defs/n"})",
     {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
     {R"({"v":1})", R"({"v":1,"next":{"v":2}})"}},
    {R"({"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#"}}},"required":["kids"]})",
     {R"({"kids":[{"kids":[]},{"kids":[{"kids":[]}]}]})"},
     {R"({"kids":[{}]})"}},
    {R"({"type":"object","patternProperties":{"^x_[a-z]+$":{"type":"integer"}},"additionalProperties":false})",
     {"{}", R"({"x_a":1,"x_bc":2})"},
     {R"({"y":1})", R"({"x_a":"b"})"}},
    {R"({"type":"object","propertyNames":{"pattern":"^[A-Z]+$"},"additionalProperties":{"type":"boolean"},"minProperties":1})",
     {R"({"AB":true})"},
     {"{}", R"({"ab":true})"}},
    {R"x({"type":"string","format":"date-time","pattern":"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}Z$"})x",
     {R"("2026-01-02T03:04Z")"},
     {R"("2026-01-02T03:04+01:00")", R"("2026-01-02T03:04:05Z")"}},
    {R"x({"type":"string","format":"email","pattern":"^(?!\\.)(?!.*\\.\\.)[a-z.]*[a-z]@([a-z]+\\.)+[a-z]{2,}$"})x",
     {R"("a.b@c.de")"},
     {R"("a")", R"(".a@c.de")", R"("a..b@c.de")"}},
    {"true", {"1", "[[]]", R"({"a":{}})"}, {"", "x"}},
};

TEST(JsonSchema, TextsOfTheSchemaAndNoOthers) {
  for (const auto& c : kCases) {
    auto schema = over(read_json_schema(c.schema));
    if (!schema) ADD_FAILURE() << c.schema;
    if (!schema) continue;
    for (auto text : c.valid) EXPECT_TRUE(fits(schema, text)) << c.schema << "\n" << text;
    for (auto text : c.invalid) EXPECT_FALSE(fits(schema, text)) << c.schema << "\n" << text;
  }
}

TEST(JsonSchema, WhatCannotBeExpressedIsNamedWithItsPointer) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"properties":{"a":{"not":{}}}})", "/properties/a: 'not' is not supported"},
      {R"({"properties":{"a/b":{"type":"number","multipleOf":0.125}}})",
       "/properties/a~1b/multipleOf: takes a number > 0 whose digits make at most 100, such as 0.05 or 2500"},
      {R"({"type":"array","uniqueItems":true})", "/uniqueItems: 'uniqueItems' is not supported"},
      {R"({"if":{},"then":{}})", "the schema: 'if' is not supported"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})",
       "/oneOf/1: it may overlap with branch 0 of oneOf; use anyOf"},
      {R"({"items":{"$ref":"https://example.com/x"}})",
       "/items/$ref: only references into the schema itself are supported, like #/$defs/name; not "
       "'https://example.com/x'"},
      {R"({"$ref":"#/$defs/none"})", "/$ref: there is no '#/$defs/none'"},
      {R"({"type":"text"})", "/type: no such type: \"text\""},
      {R"({"allOf":[{"prefixItems":{}},{"items":false}]})", "/allOf/1/prefixItems: expected a list of schemas"},
      {R"({"type":"number","exclusiveMinimum":1,"maximum":1})", "no text matches it"},
      {R"({"type":"number","minimum":0.5,"maximum":0.25})", "no text matches it"},
      {R"x({"pattern":"(?=x)"})x", "/pattern: at 2: look-around is not supported"},
      {R"({"enum":["a"],"minLength":3})", "no text matches it"},
      {R"({"enum":["a"],"pattern":"a"})", "the schema: 'pattern' beside enum or const is not supported"},
      {R"({"enum":["a"],"maxLength":"3"})", "/maxLength: expected a whole number from 0"},
      {R"({"enum":[1],"minimum":"3"})", "/minimum: expected a number"},
      {R"({"properties":{"a":false},"required":["a"]})", "no text matches it"},
      {R"({"$ref":"#"})", "rule '#' is left-recursive, which is not supported"},
      {"[1]", "the schema: a schema is an object or a boolean"},
      {"{", "it is not JSON"},
  };
  for (auto [schema, why] : cases) EXPECT_EQ(refusal(read_json_schema(schema)), why) << schema;
}

TEST(JsonSchema, WhatCannotBeExpressedIsIgnoredWhereThatIsAskedFor) {
  const Case cases[] = {
      {R"({"type":"array","items":{"type":"integer"},"uniqueItems":true,"minItems":1})", {"[1,1]"}, {"[]", "[true]"}},
      {R"({"type":"number","multipleOf":0.125,"maximum":2})", {"1.5", "0.005"}, {"3"}},
      {R"({"type":"number","multipleOf":1024})", {"1024", "7"}, {"0.5"}},
      {R"x({"type":"string","pattern":"^(?=.*[A-Z]).{2,}$","maxLength":3})x", {R"("ab")"}, {R"("abcd")", "1"}},
      {R"({"type":"string","pattern":"^(ab|c)+$","minLength":2})", {R"("abc")", R"("c")"}, {R"("x")"}},
      {R"({"properties":{"a":{"not":{},"type":"null"}},"required":["a"]})", {R"({"a":null})"}, {R"({"a":1})"}},
      {R"({"if":{},"then":{},"type":"integer"})", {"1"}, {"true"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", {"1", "1.5"}, {"null"}},
      {R"({"enum":["a","b"],"pattern":"a"})", {R"("b")"}, {R"("c")"}},
      {R"({"type":"object","minProperties":3})", {R"({"a":1})"}, {"{}"}},
      {R"({"properties":{"a":{"type":"null"}},"minProperties":3,"maxProperties":0})", {R"({"a":null})"}, {"{}"}},
      {R"({"type":"object","patternProperties":{"^a":{"type":"null"},"b":true}})", {R"({"c":1})"}, {"1"}},
      {R"x({"type":"object","patternProperties":{"(?=a)":{"type":"null"}}})x", {R"({"c":null})"}, {R"({"c":1})"}},
      {R"({"$ref":"https://example.com/x","minimum":1})", {"1"}, {"0", "true"}},
      {R"({"items":{"$ref":"#anchor"},"maxItems":1})", {"[true]"}, {"[1,1]", "1"}},
  };
  for (const Case& c : cases) {
    EXPECT_FALSE(read_json_schema(c.schema)) << c.schema;
    auto schema = over(read_json_schema(c.schema, Unsupported::kIgnored));
    if (!schema) ADD_FAILURE() << c.schema;
    if (!schema) continue;
    for (auto text : c.valid) EXPECT_TRUE(fits(schema, text)) << c.schema << "\n" << text;
    for (auto text : c.invalid) EXPECT_FALSE(fits(schema, text)) << c.schema << "\n" << text;
  }
  EXPECT_EQ(refusal(read_json_schema(R"({"type":"text"})", Unsupported::kIgnored)), "/type: no such type: \"text\"");
}

TEST(JsonSchema, OfPartsThatCannotBeMergedTheFirstHoldsWhereThatIsAskedFor) {
  const Case cases[] = {
      {R"({"properties":{"a":{"type":"null"}},"required":["a"],"allOf":[{"if":{},"then":{}},{"if":true,"then":{"a":1}}]})",
       {R"({"a":null})"},
       {R"({"a":1})", "{}"}},
      {R"({"type":"string","allOf":[{"pattern":"^a+$"},{"pattern":"^.b?$"}]})", {R"("aa")"}, {R"("b")", "1"}},
      {R"({"pattern":"^a+$","anyOf":[{"pattern":"b"},{"maxLength":2}]})", {R"("aa")"}, {R"("b")"}},
      {R"({"$ref":"#/$defs/a","multipleOf":2,"$defs":{"a":{"multipleOf":0.1,"maximum":4}}})", {"4", "2"}, {"6", "1.5"}},
      {R"({"allOf":[{"not":{}},{"not":true},{"format":"date"},{"format":"uuid"}],"type":"string"})",
       {R"("2020-02-20")"},
       {R"("x")", "1"}},
      {R"({"allOf":[{"anyOf":[{"type":"null"},{"type":"integer"}]},{"anyOf":[{"type":"integer"},{"type":"string"}]}]})",
       {"1", "null"},
       {"true"}},
      {R"({"patternProperties":{"^a$":{"type":"null"}},"allOf":[{"patternProperties":{"b":{"type":"null"}}}]})",
       {R"({"a":null})"},
       {R"({"b":null})"}},
  };
  for (const Case& c : cases) {
    EXPECT_FALSE(read_json_schema(c.schema)) << c.schema;
    auto schema = over(read_json_schema(c.schema, Unsupported::kIgnored));
    if (!schema) ADD_FAILURE() << c.schema;
    if (!schema) continue;
    for (auto text : c.valid) EXPECT_TRUE(fits(schema, text)) << c.schema << "\n" << text;
    for (auto text : c.invalid) EXPECT_FALSE(fits(schema, text)) << c.schema << "\n" << text;
  }
}

// A scalar of one schema is no part of another that is read otherwise.
TEST(JsonSchema, OneTextMayHoldBothKindsOfSchemas) {
  const std::string fives = R"({"type":"integer","multipleOf":1024})";
  Segments segments;
  segments.alternatives = {{{Segment::Kind::kSchema, fives, Unsupported::kIgnored}},
                           {{Segment::Kind::kLiteral, "a"}, {Segment::Kind::kSchema, fives}}};
  EXPECT_EQ(refusal(read_segments(segments)),
            "/multipleOf: takes a number > 0 whose digits make at most 100, such as 0.05 or 2500");
}

TEST(JsonSchema, PiecesAreLiteralsAroundValues) {
  Segments segments;
  segments.head = "<tool_call>\n", segments.tail = "\n</tool_call>",
  segments.separator = "\n</tool_call>\n<tool_call>\n";
  segments.most = 2;
  for (auto name : {"a", "b"})
    segments.alternatives.push_back(
        {{Segment::Kind::kLiteral, std::string(R"({"name": ")") + name + R"(", "arguments": )"},
         {Segment::Kind::kSchema, R"({"$ref":"#/$defs/o","$defs":{"o":{"type":"object"}}})"},
         {Segment::Kind::kLiteral, "}"}});
  auto calls = over(read_segments(segments));
  const std::string one = "<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\":1}}\n</tool_call>";
  EXPECT_TRUE(fits(calls, one));
  EXPECT_TRUE(fits(calls, one + "\n" + one));
  EXPECT_FALSE(fits(calls, one + "\n" + one + "\n" + one));
}

TEST(JsonSchema, OtherwiseStandsInPlaceOfAllAlternatives) {
  Segments segments;
  segments.preface = {{Segment::Kind::kLiteral, "so "}};
  segments.head = "[", segments.tail = "]", segments.separator = ",", segments.most = 2;
  segments.alternatives = {{{Segment::Kind::kLiteral, "a"}}};
  segments.otherwise = {{Segment::Kind::kLiteral, "say "}, {Segment::Kind::kSchema, R"({"type":"integer"})"}};
  auto either = over(read_segments(segments));
  for (auto text : {"[a]", "so [a,a]", "say 17", "so say 17"}) EXPECT_TRUE(fits(either, text)) << text;
  for (auto text : {"[say 17]", "say 17]", "[a]say 17", "[", "so "}) EXPECT_FALSE(fits(either, text)) << text;
}

TEST(JsonSchema, APrefaceGoesOnUntilItsMarker) {
  Segments segments;
  segments.preface = {
      {Segment::Kind::kLiteral, "<think>"}, {Segment::Kind::kUntil, "</think>"}, {Segment::Kind::kSpace, ""}};
  segments.alternatives = {{{Segment::Kind::kSchema, R"({"type":"integer"})"}}};
  auto optional = over(read_segments(segments));
  for (auto thought : {"", "a < b", "<", "<<", "</", "</<", "</t</th<", "<</thin>k", "</thinkin>", "中</"}) {
    const std::string text = "<think>" + std::string(thought) + "</think>";
    EXPECT_TRUE(fits(optional, text + "\n\n17")) << text;
    EXPECT_TRUE(fits(optional, text + "17")) << text;
    EXPECT_FALSE(fits(optional, text)) << text;
    EXPECT_FALSE(fits(optional, text + "</think>17")) << text;
  }
  EXPECT_TRUE(fits(optional, "17"));
  segments.needs = Segments::Preface::kRequired;
  auto required = over(read_segments(segments));
  EXPECT_FALSE(fits(required, "17"));
  EXPECT_TRUE(fits(required, "<think></think>17"));
  segments.preface = {{Segment::Kind::kUntil, "\xff<end>"}};
  auto special = over(read_segments(segments));
  EXPECT_TRUE(fits(special, "a<end>中\xff<end>17"));
  EXPECT_FALSE(fits(special, "a<end>17"));
}

TEST(JsonSchema, StringsOfTheSameFormAreOneRule) {
  std::string schema = R"({"type":"object","properties":{)";
  for (int i = 0; i < 50; ++i)
    schema += (i > 0 ? ",\"" : "\"") + std::to_string(i) + R"(":{"type":"string","maxLength":200,"description":"x"})";
  auto read = read_json_schema(schema + "}}");
  ASSERT_TRUE(read);
  auto counted = 0;
  auto automaton = Automaton::compile(*read);
  ASSERT_TRUE(automaton);
  for (const auto& call : (*automaton)->calls) counted += call.counts();
  EXPECT_EQ(counted, 1);
}

TEST(JsonSchema, NumbersOfTheSameFormAreOneRule) {
  std::string schema = R"({"type":"object","properties":{)";
  for (int i = 0; i < 500; ++i)
    schema += (i > 0 ? ",\"" : "\"") + std::to_string(i) + R"(":{"type":"number","exclusiveMinimum":0,"maximum":0.95})";
  EXPECT_EQ(refusal(read_json_schema(schema + "}}")), "");
}

TEST(JsonSchema, ListsInsideEachOtherDoNotDoubleWithEachLevel) {
  std::string schema = R"({"type":"string"})", text = R"("a")";
  for (int i = 0; i < 30; ++i) {
    schema = R"({"type":"array","minItems":2,"items":{"type":"object","properties":{"a":)" + schema +
             R"(},"required":["a"]}})";
    text = i < 5 ? "[{\"a\":" + text + "},{\"a\":" + text + "}]" : text;
  }
  EXPECT_EQ(refusal(read_json_schema(schema)), "");
  std::string few = R"({"type":"string"})";
  for (int i = 0; i < 5; ++i)
    few =
        R"({"type":"array","minItems":2,"items":{"type":"object","properties":{"a":)" + few + R"(},"required":["a"]}})";
  EXPECT_TRUE(fits(read_json_schema(few), text));
  EXPECT_FALSE(fits(read_json_schema(few), R"([{"a":[]}])"));
}

}  // namespace
}  // namespace grammar
