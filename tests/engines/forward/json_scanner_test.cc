#include "engines/forward/openai/json_scanner.h"

#include <gtest/gtest.h>

namespace weir::forward {
namespace {

using Value = JsonScanner::Value;

// However it is cut.
bool is_json(std::string_view text, Value value = Value::kAny) {
  JsonScanner whole(value), pieces(value);
  const bool good = whole.take(text);
  bool same = true;
  for (char c : text) same = same && pieces.take({&c, 1});
  EXPECT_EQ(same, good) << text;
  return good;
}

TEST(JsonScanner, TakesJsonWithAnyWhiteSpace) {
  for (const char* text : {R"({"a":1,"b":[1,-2.5e+3,true,false,null,"x"],"c":{}})", "{\n  \"a\": 1\n}",
                           " {\"a\" : [ ] , \"b\":\t{ } }\r\n", R"({"b":"x","a":"\"\\\/\b\f\n\r\t\u00E9"})",
                           R"("text")", "[[],[[]],{\"a\":[{}]}]", "-1", "null", "{\"\u00e9\":\"\u00e9\"}"})
    EXPECT_TRUE(is_json(text)) << text;
}

TEST(JsonScanner, TakesNothingElse) {
  for (const char* text :
       {"no",         "So: {}",      "```json\n{}", "{a:1}", "{\"a\":1,}", "[1,]",  "{\"a\"}", "{\"a\":}",
        "{\"a\":1}}", "{\"a\":1} x", "[}",          "{]",    "{\"a\":1]",  "{} {}", "tru e",   "\"a\nb\"",
        R"("\x")",    R"("\u12g4")", "{\"a\" 1}",   "[1 2]", "]",          ",",     ":"})
    EXPECT_FALSE(is_json(text)) << text;
}

TEST(JsonScanner, AnObjectIsAskedFor) {
  EXPECT_TRUE(is_json(" {\"a\":[1]}", Value::kObject));
  for (const char* text : {"[]", "1", "\"{}\"", "null"}) EXPECT_FALSE(is_json(text, Value::kObject)) << text;
}

TEST(JsonScanner, WhiteSpaceIsToldFromText) {
  JsonScanner scanner(Value::kAny);
  std::string without;
  for (char c : std::string_view(" {\n \"a b\\\\ \" : 1 , \"c\":[ ] }\n")) {
    if (!scanner.skips(c)) without += c;
    EXPECT_TRUE(scanner.take({&c, 1}));
  }
  EXPECT_EQ(without, "{\"a b\\\\ \":1,\"c\":[]}");
}

TEST(JsonScanner, DepthIsBounded) {
  EXPECT_TRUE(JsonScanner(Value::kAny).take(std::string(JsonScanner::kDeepest, '[')));
  EXPECT_FALSE(JsonScanner(Value::kAny).take(std::string(JsonScanner::kDeepest + 1, '[')));
}

}  // namespace
}  // namespace weir::forward
