#include "marshal/json_cursor.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <cstdio>
#include <cstdlib>

#include "support/guarded_text.h"

namespace weir::marshal {
namespace {

bool accepts(std::string_view text) {
  JsonCursor c(text);
  return c.skip() && c.finish();
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
                         "[1 .5]",
                         "[1:2]",
                         "[1.:]",
                         "[1.5:]",
                         "[1e:]",
                         "[:]",
                         "[9]",
                         "[9.9e9]",
                         "[\"\\u00g0\"]",
                         "[\"\\u00 0\"]",
                         "[\"\\udc00\\udc00\"]",
                         "[\"\\ud800\\ud800\"]",
                         "[\"\\ud800\\udbff\"]",
                         "[\"\\ud800\\ue000\"]",
                         "[\"\\ud800\\uffff\"]",
                         "[\"\\ud800\\n\"]",
                         "[\"\\ud800\\udc00\"]",
                         "[\"\\udbff\\udfff\"]"};
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

TEST(JsonCursor, NamesThePathOfWhatItRefuses) {
  auto why = [](const std::string& text) {
    JsonCursor c(text);
    EXPECT_FALSE(c.skip());
    return c.placed_error().text;
  };
  EXPECT_EQ(why("tru"), "JSON: expected a value at byte 0");
  EXPECT_EQ(why(R"({"a": 1, "b": tru})"), "JSON: expected a value at byte 14, in b");
  EXPECT_EQ(why(R"([1, {"a": [[], {"x\"}\\": [2, ]}]}])"),
            "JSON: expected a value at byte 30, in [1].a[1].x\\\"}\\\\[1]");
  EXPECT_EQ(why(R"({"a": {"b": ":,{["}, "c" 1})"), "JSON: expected ':' at byte 25, in c");
  EXPECT_EQ(why(R"({"a": [1, 2], 3})"), "JSON: expected a string at byte 14");
  EXPECT_EQ(why(std::string(50, '[') + "x"), "JSON: expected a value at byte 50, in [0][0][0][0][0][0][0][0]…");
  std::string far = "{\"a\": [" + std::string(1 << 20, ' ') + "x]}";
  EXPECT_EQ(why(far), "JSON: expected a value at byte 1048583");
}

// Text that is not UTF-8 is refused before anything is read: what is before it may be nested without end.
TEST(JsonCursor, WhatIsNestedTooDeepHasNoPath) {
  auto why = [](size_t depth, std::string_view end) {
    const std::string text = std::string(depth, '[') + std::string(end);
    JsonCursor c(text);
    EXPECT_FALSE(c.skip());
    return c.placed_error().text;
  };
  const std::string path = ", in [0][0][0][0][0][0][0][0]…";
  EXPECT_EQ(why(100, "\xff"), "JSON: text that is not UTF-8 at byte 100" + path);
  EXPECT_EQ(why(101, "\xff"), "JSON: text that is not UTF-8 at byte 101");
  EXPECT_EQ(why(1 << 20, "\xff"), "JSON: text that is not UTF-8 at byte 1048576");
  EXPECT_EQ(why(101, "]"), "JSON: nested deeper than 100 levels at byte 100" + path);
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

TEST(JsonCursor, AValueBeginsWithOneOfSixCharactersOrADigit) {
  using Kind = JsonCursor::Kind;
  for (int c = 0; c < 0x80; ++c) {
    const std::string text(1, char(c));
    JsonCursor cursor(text);
    const bool number = c == '-' || (c >= '0' && c <= '9');
    EXPECT_EQ(cursor.at_number(), number) << c;
    EXPECT_EQ(cursor.peek() == Kind::kNumber, number) << c;
    EXPECT_EQ(cursor.peek() != Kind::kNone, number || (c && std::string_view("{[\"tfn").find(char(c)) < 6)) << c;
    EXPECT_EQ(JsonCursor("[" + text).peek_inside() == Kind::kNumber, number) << c;
  }
  JsonCursor colon(":");
  EXPECT_FALSE(colon.skip());
  EXPECT_EQ(colon.error().text, "JSON: expected a value at byte 0");
}

TEST(JsonCursor, EveryEscapeOfACodePointIsWhatASecondParserReads) {
  simdjson::dom::parser second;
  auto compare = [&](const std::string& escapes) {
    const std::string document = "[\"" + escapes + " x\"]";
    std::string ours;
    JsonCursor c(document);
    simdjson::dom::array array;
    std::string_view theirs;
    ASSERT_EQ(second.parse(document).get(array), simdjson::SUCCESS) << document;
    ASSERT_EQ(array.at(0).get(theirs), simdjson::SUCCESS);
    ASSERT_TRUE(c.array([&] { return c.string(ours); }) && c.finish()) << document;
    ASSERT_EQ(ours, theirs) << document;
  };
  char text[16];
  for (unsigned code = 0; code < 0x10000; ++code) {
    if (code >= 0xd800 && code < 0xe000) continue;
    std::snprintf(text, sizeof text, code % 2 ? "\\u%04x" : "\\u%04X", code);
    compare(text);
  }
  for (unsigned high = 0xd800; high < 0xdc00; ++high)
    for (unsigned low : {0xdc00u, 0xdc01u + high % 1023, 0xdfffu}) {
      std::snprintf(text, sizeof text, "\\u%04x\\u%04x", high, low);
      compare(text);
    }
}

TEST(JsonCursor, SaysWhyAnEscapeIsNone) {
  auto why = [](std::string_view text) {
    JsonCursor c(text);
    std::string_view out;
    return c.string(out) ? "" : c.error().text.substr(0, c.error().text.find(" at byte"));
  };
  EXPECT_EQ(why("\"\\u0041"), "JSON: a string without end");
  EXPECT_EQ(why("\"\\u004"), "JSON: a cut escape");
  EXPECT_EQ(why("\"\\"), "JSON: a cut escape");
  EXPECT_EQ(why("\"\\ud800\\u"), "JSON: a cut escape");
  EXPECT_EQ(why("\"\\ud800\\"), "JSON: half a surrogate pair");
  EXPECT_EQ(why("\"\\ud800\\n\""), "JSON: half a surrogate pair");
  EXPECT_EQ(why("\"\\u00x0\""), "JSON: a bad \\u escape");
  EXPECT_EQ(why("\"\\x\""), "JSON: an unknown escape");
  EXPECT_EQ(why("\"a\\n\x1f\""), "JSON: a control character in a string");
}

TEST(JsonCursor, NothingIsReadBehindAnError) {
  JsonCursor c("[x, 1, \"s\", {}]");
  EXPECT_FALSE(c.array([&] { return c.skip(); }));
  const std::string first = c.error().text;
  std::string text;
  JsonNumber n;
  EXPECT_EQ(c.left(), 0u);
  EXPECT_EQ(c.peek(), JsonCursor::Kind::kNone);
  EXPECT_FALSE(c.skip() || c.null() || c.string(text) || c.number(n) || c.finish());
  EXPECT_FALSE(c.refuse());
  EXPECT_EQ(c.error().text, first);
}

TEST(JsonCursor, OneByteThatIsNoCharacterIsNotUtf8) {
  for (std::string_view text : {"\x80", "\xbf", "\xc3", "\xff", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\x80"})
    EXPECT_FALSE(valid_utf8(text)) << text;
  EXPECT_TRUE(valid_utf8("\xc3\xa9"));
  EXPECT_TRUE(valid_utf8("\x7f"));
  EXPECT_TRUE(valid_utf8(""));
}

TEST(JsonCursor, TextThatIsNotUtf8IsFound) {
  for (size_t at : {0u, 1u, 31u, 4095u, 4096u, 4097u, 9000u}) {
    std::string text(at, 'a');
    for (size_t i = 0; i + 1 < at; i += 3) text.replace(i, 2, "\xc3\xa9");
    for (std::string_view bad : {"\xff", "\xc3", "\xed\xa0\x80", "\x80"})
      EXPECT_EQ(JsonCursor(text + std::string(bad) + " behind").error().text,
                "JSON: text that is not UTF-8 at byte " + std::to_string(at));
  }
}

// PowerShell's files begin with a mark, and so does what curl sends of them.
TEST(JsonCursor, AByteOrderMarkIsPassedOver) {
  EXPECT_TRUE(accepts("\xEF\xBB\xBF{\"a\": 1}"));
  EXPECT_FALSE(accepts("\xEF\xBB\xBF"));
  EXPECT_FALSE(accepts("{\"a\": \xEF\xBB\xBF 1}"));
}

// Whatever is cut off lies on a page that nobody may read.
TEST(JsonCursor, NothingBehindTheTextIsLookedAt) {
  const std::string_view document =
      R"({"a": "x\n\u00e9\ud83d\ude00", "b":[1,-2.5e1,12345678.12345678, 0.1234567890123], "c":true, "d":null, "e":-1e-5})";
  for (size_t cut = 0; cut < document.size(); ++cut) {
    const support::GuardedText text(document.substr(0, cut));
    EXPECT_FALSE(accepts(text.view())) << text.view();
  }
  EXPECT_TRUE(accepts(support::GuardedText(document).view()));
  for (std::string_view number : {"-1234567.12345678", "-12345678.123456789e-12", "1e+22", "12345678901234567890"})
    for (size_t cut = 0; cut <= number.size(); ++cut) {
      const support::GuardedText text(number.substr(0, cut));
      JsonCursor c(text.view());
      double value;
      JsonNumber n;
      if (c.plain(value)) {
        EXPECT_EQ(value, std::strtod(std::string(text.view()).c_str(), nullptr));
      } else if (JsonCursor other(text.view()); other.number(n) && other.finish() && n.to(value)) {
        EXPECT_EQ(value, std::strtod(std::string(text.view()).c_str(), nullptr)) << text.view();
      }
    }
}

}  // namespace
}  // namespace weir::marshal
