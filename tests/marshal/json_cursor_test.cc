#include "marshal/json_cursor.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <cmath>
#include <cstdio>
#include <random>

namespace weir::marshal {
namespace {

bool accepts(std::string_view text) {
  JsonCursor c(text);
  return c.skip() && c.finish();
}

template <class T>
std::optional<T> number(std::string_view text) {
  JsonCursor c(text);
  JsonNumber n;
  T out;
  if (!c.number(n) || !c.finish() || !n.to(out)) return std::nullopt;
  return out;
}

TEST(JsonCursor, ReadsMembersOfEveryKind) {
  JsonCursor c(R"( {"a": "x\n\u00e9\ud83d\ude00", "b":[1,-2.5e1], "c":true, "d":null, "e":{}, "f":[]} )");
  std::string seen, text;
  bool flag = false;
  bool ok = c.object([&](std::string_view key) {
    seen += key;
    if (key == "a") return c.string(text);
    if (key == "c") return c.boolean(flag);
    if (key == "d") return c.null();
    return c.skip();
  });
  EXPECT_TRUE(ok && c.finish()) << c.error().text;
  EXPECT_EQ(seen, "abcdef");
  EXPECT_EQ(text, "x\n\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_TRUE(flag);
}

TEST(JsonCursor, EachReaderRefusesWhatIsOfAnotherKindAndTheEnd) {
  for (std::string_view text : {"", "{}", "[]", "\"s\"", "1", "true", "null", "x", "t", "f", "n"}) {
    auto refused = [&](auto read) {
      JsonCursor c(text);
      return read(c) ? std::string() : c.error().text;
    };
    std::string s;
    bool flag;
    JsonNumber n;
    EXPECT_EQ(refused([&](JsonCursor& c) { return c.boolean(flag); }).empty(), text == "true") << text;
    EXPECT_EQ(refused([&](JsonCursor& c) { return c.null(); }).empty(), text == "null") << text;
    EXPECT_EQ(refused([&](JsonCursor& c) { return c.string(s); }).empty(), text == "\"s\"") << text;
    EXPECT_EQ(refused([&](JsonCursor& c) { return c.number(n); }).empty(), text == "1") << text;
    EXPECT_EQ(refused([&](JsonCursor& c) { return c.array([&] { return c.skip(); }); }).empty(), text == "[]") << text;
    EXPECT_EQ(refused([&](JsonCursor& c) { return c.object([&](auto) { return c.skip(); }); }).empty(), text == "{}")
        << text;
    EXPECT_EQ(refused([&](JsonCursor& c) { return c.skip(); }).empty(), text.size() > 1 || text == "1") << text;
    if (text != "true" && text != "t" && text != "f") {
      EXPECT_NE(refused([&](JsonCursor& c) { return c.boolean(flag); }).find("expected true or false"),
                std::string::npos);
    }
  }
}

TEST(JsonCursor, BlanksAreThoseOfJsonWhereverTheyStand) {
  using Kind = JsonCursor::Kind;
  for (char blank : {' ', '\t', '\n', '\r'}) {
    const std::string b(2, blank);
    const std::string text =
        b + "[" + b + "{" + b + "\"k\"" + b + ":" + b + "1" + b + "}" + b + "," + b + "2" + b + "]" + b;
    JsonCursor c(text);
    EXPECT_EQ(c.peek_inside(), Kind::kObject);
    EXPECT_TRUE(c.skip() && c.finish()) << int(blank);
  }
  for (char other : {'\v', '\f', '\0', '\xa0'}) {
    const std::string text = std::string("[") + other + "1]";
    JsonCursor c(text);
    EXPECT_EQ(c.peek_inside(), Kind::kNone);
    EXPECT_FALSE(c.skip()) << int(other);
  }
}

TEST(JsonCursor, AcceptsExactlyWhatASecondParserAccepts) {
  const char* table[] = {"{}",
                         "[]",
                         "{\"a\":tru}",
                         "{\"a\":01}",
                         "[1,]",
                         "[,1]",
                         "{\"a\":1,}",
                         "{\"a\" 1}",
                         "{a:1}",
                         "[01.e]",
                         "[1.]",
                         "[.5]",
                         "[-]",
                         "[+1]",
                         "[1e]",
                         "[1e+]",
                         "[0x1]",
                         "[NaN]",
                         "[Infinity]",
                         "[\"\\x\"]",
                         "[\"\\ud800\"]",
                         "[\"\\udc00\"]",
                         "[\"\\ud800\\u0041\"]",
                         "[\"\\u12\"]",
                         "[\"\\u0000\"]",
                         "[\"a\tb\"]",
                         "[\"\x01\"]",
                         "[\"\xff\"]",
                         "[\"\xc0\x80\"]",
                         "[\"\xed\xa0\x80\"]",
                         "{} {}",
                         "{}x",
                         "[1 2]",
                         "[[[[]]]]",
                         "[nul]",
                         "[null]",
                         "[truefalse]",
                         "{\"a\":1}}",
                         "[",
                         "{",
                         "{\"a\"",
                         "{\"a\":",
                         "[\"",
                         "[1",
                         "{\"a\":1",
                         "[-0]",
                         "[0]",
                         "[1E5]",
                         "[1e-5]",
                         "[1.5E+3]",
                         "[\"\\/\"]",
                         "[-01]",
                         "[\r\n\t 1 ]",
                         "[\v1]",
                         "[\"\\",
                         "[1,,2]",
                         "{\"a\":1 \"b\":2}",
                         "[\"a\" \"b\"]",
                         "[- 1]",
                         "[1 .5]"};
  simdjson::dom::parser second;
  for (std::string text : table) {
    simdjson::dom::element e;
    bool expected = second.parse(text).get(e) == simdjson::SUCCESS;
    EXPECT_EQ(accepts(text), expected) << text;
  }
}

TEST(JsonCursor, RefusesWhatIsNestedTooDeep) {
  auto nest = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_TRUE(accepts(nest(100)));
  EXPECT_FALSE(accepts(nest(101)));
  EXPECT_FALSE(accepts(std::string(1 << 20, '[')));
}

TEST(JsonCursor, SaysWhereAndWhy) {
  JsonCursor c(R"({"a": 1, "b": tru})");
  EXPECT_FALSE(c.skip());
  EXPECT_EQ(c.error().code, base::Code::kInvalidArgument);
  EXPECT_EQ(c.error().text, "JSON: expected a value at byte 14");
}

TEST(JsonNumber, IsRoundedCorrectlyToBothFloats) {
  EXPECT_EQ(number<double>("0.1"), 0.1);
  EXPECT_EQ(number<double>("123456789012345678901234567890"), 123456789012345678901234567890.0);
  EXPECT_EQ(number<double>("0.000000000000000000000000000000123"), 1.23e-31);
  EXPECT_EQ(number<double>("9007199254740993"), 9007199254740992.0);
  EXPECT_EQ(number<double>("1e400"), std::nullopt);
  EXPECT_EQ(number<double>("1e-400"), 0.0);
  EXPECT_EQ(number<double>("1e-999999999999"), 0.0);
  EXPECT_EQ(number<double>("1e999999999999"), std::nullopt);
  EXPECT_EQ(number<float>("3.4028236e38"), std::nullopt);
  EXPECT_EQ(number<float>("3.4028235e38"), 3.4028235e38f);
  EXPECT_EQ(number<float>("1e-45"), 1e-45f);
  EXPECT_TRUE(std::signbit(*number<float>("-0")));
  // Just above the middle of 1 and the next float: rounding through double would fall down to 1.
  EXPECT_EQ(number<float>("1.00000005960464477540"), std::nextafter(1.0f, 2.0f));
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    char text[64];
    auto bits = uint32_t(random());
    auto f = std::bit_cast<float>(bits);
    if (!std::isfinite(f)) continue;
    std::snprintf(text, sizeof text, "%.*g", int(6 + random() % 14), double(f));
    EXPECT_EQ(number<float>(text), std::strtof(text, nullptr)) << text;
    EXPECT_EQ(number<double>(text), std::strtod(text, nullptr)) << text;
  }
}

// The value that the short way reads from `text` in the middle of an array, if it takes it.
template <class T>
std::optional<T> plain(const std::string& text) {
  std::string document = text + ", 0.123456789012345]";
  JsonCursor c(document);
  T out;
  if (!c.plain(out)) {
    EXPECT_EQ(c.at(), 0u) << text;
    return std::nullopt;
  }
  EXPECT_EQ(c.at(), text.size()) << text;
  return out;
}

TEST(JsonNumber, IsTheSameTheShortWay) {
  for (const char* text :
       {"0", "-0", "7", "0.5", "-0.0625", "1234567.12345678", "0.00000001", "10", "100.0", "9999999"}) {
    ASSERT_TRUE(plain<double>(text)) << text;
    EXPECT_EQ(std::bit_cast<uint64_t>(*plain<double>(text)), std::bit_cast<uint64_t>(*number<double>(text))) << text;
  }
  for (const char* text : {"", "-", ".5", "1.", "01", "-01.5", "00", "1e5", "1.5E3", "0.123456789", "12345678", "x",
                           "--1", "+1", "\"1\"", "1.e5"})
    EXPECT_EQ(plain<double>(text), std::nullopt) << text;
  // Right at the middle of two floats.
  EXPECT_EQ(plain<float>("16777.21700000"), number<float>("16777.21700000"));
  EXPECT_EQ(plain<float>("8388608.5"), std::nullopt);
  std::mt19937_64 random(2);
  for (int i = 0; i < 50000; ++i) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", int(random() % 9),
                  (double(random()) - 9e18) / double(1ull << (40 + random() % 24)));
    EXPECT_EQ(plain<double>(text).value_or(std::strtod(text, nullptr)), std::strtod(text, nullptr)) << text;
    EXPECT_EQ(plain<float>(text).value_or(std::strtof(text, nullptr)), std::strtof(text, nullptr)) << text;
  }
}

// A quote, a backslash and a control character at every place of the words in which strings are read.
TEST(JsonCursor, FindsTheEndOfAStringWhereverItLies) {
  for (size_t length = 0; length < 40; ++length)
    for (size_t after = 0; after < 18; after += 3) {
      std::string inside(length, 'a'), behind(after, ' ');
      std::string_view text;
      std::string document = '"' + inside + '"' + behind;
      JsonCursor whole(document);
      EXPECT_TRUE(whole.string(text) && whole.finish());
      EXPECT_EQ(text, inside);
      document = '"' + inside + "\\n\xc3\xa9!\"" + behind;
      JsonCursor escaped(document);
      EXPECT_TRUE(escaped.string(text) && escaped.finish());
      EXPECT_EQ(text, inside + "\n\xc3\xa9!");
      document = '"' + inside + "\x1f" + behind + '"';
      EXPECT_FALSE(JsonCursor(document).string(text));
      document = '"' + inside + behind;
      EXPECT_FALSE(JsonCursor(document).string(text));
    }
}

TEST(JsonNumber, IsWholeOrNotAnInteger) {
  EXPECT_EQ(number<int64_t>("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(number<int64_t>("9223372036854775808"), std::nullopt);
  EXPECT_EQ(number<int64_t>("-9223372036854775809"), std::nullopt);
  EXPECT_EQ(number<uint64_t>("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(number<uint64_t>("18446744073709551616"), std::nullopt);
  EXPECT_EQ(number<uint64_t>("-1"), std::nullopt);
  EXPECT_EQ(number<uint64_t>("-0"), 0u);
  EXPECT_EQ(number<int64_t>("2.0"), 2);
  EXPECT_EQ(number<int64_t>("2e3"), 2000);
  EXPECT_EQ(number<int64_t>("25e-1"), std::nullopt);
  EXPECT_EQ(number<int64_t>("1.5"), std::nullopt);
  EXPECT_EQ(number<int64_t>("0e99"), 0);
  EXPECT_EQ(number<int64_t>("1e99"), std::nullopt);
}

}  // namespace
}  // namespace weir::marshal
