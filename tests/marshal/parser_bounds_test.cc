// The bounds of the parsers of requests: what is at the bound is read, one more is refused, and time is linear.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "marshal/json_cursor.h"
#include "marshal/pb_wire.h"
#include "support/cpu_time.h"
#include "support/repeated.h"

namespace weir::marshal {
namespace {

using support::repeated;

std::string refused(const std::string& json) {
  JsonCursor cursor(json);
  return cursor.skip() && cursor.finish() ? "" : cursor.error().text;
}

TEST(ParserBounds, JsonNestsSoDeepAndNoDeeper) {
  constexpr size_t kDeepest = JsonCursor::kMaxDepth;
  for (auto [open, inner, close] : {std::tuple{"[", "1", "]"}, {"{\"a\":", "1", "}"}}) {
    EXPECT_EQ(refused(repeated(open, kDeepest) + inner + repeated(close, kDeepest)), "");
    EXPECT_NE(refused(repeated(open, kDeepest + 1) + inner + repeated(close, kDeepest + 1)).find("nested deeper"),
              std::string::npos);
    EXPECT_NE(refused(repeated(open, 1'000'000)), "") << "and no crash";
  }
}

TEST(ParserBounds, JsonTakesTimeInProportion) {
  const std::pair<const char*, const char*> parts[] = {
      {"numbers", "1.25,"},       {"empty objects", "{},"},       {"objects", "{\"a\":[1,2],\"b\":null},"},
      {"strings", "\"abcdef\","}, {"escapes", "\"\\u00e9\\n\","}, {"blanks", "          1,"}};
  for (auto [name, part] : parts) {
    auto work = [part = part](size_t n) { EXPECT_EQ(refused("[" + repeated(part, n) + "1]"), ""); };
    EXPECT_LE(support::growth(30'000, work), 2.5) << name;
  }
  auto text = [](size_t n) { EXPECT_EQ(refused("\"" + repeated("\\\"x", n) + "\""), ""); };
  EXPECT_LE(support::growth(100'000, text), 2.5);
  auto keys = [](size_t n) { EXPECT_EQ(refused("{" + repeated("\"k\":1,", n) + "\"k\":1}"), ""); };
  EXPECT_LE(support::growth(30'000, keys), 2.5);
}

bool well_formed(std::string_view message) {
  PbReader reader(message);
  while (reader.next()) {
  }
  return reader.ok();
}

TEST(ParserBounds, ProtobufGroupsNestSoDeepAndNoDeeper) {
  auto groups = [](size_t n) { return repeated("\x0b", n) + repeated("\x0c", n); };
  EXPECT_TRUE(well_formed(groups(100)));
  EXPECT_FALSE(well_formed(groups(101)));
  EXPECT_FALSE(well_formed(repeated("\x0b", 1'000'000)));
}

// A group counts as one field of the message that it is in.
TEST(ParserBounds, ProtobufGroupsAreShort) {
  auto group = [](size_t fields) { return "\x0b" + repeated("\x10\x01", fields) + "\x0c"; };
  EXPECT_TRUE(well_formed(repeated(group(30'000), 3)));
  EXPECT_FALSE(well_formed(group(33'000)));
  EXPECT_FALSE(well_formed("\x0b" + repeated(group(30'000), 2) + "\x0c"));
  auto counted = [&](const std::string& message) {
    PbFields fields(60'000);
    PbCountedReader reader(message, fields);
    while (reader.next()) {
    }
    return reader.ok();
  };
  EXPECT_TRUE(counted(repeated("\x10\x01", 60'000)));
  EXPECT_FALSE(counted(repeated("\x10\x01", 60'001)));
  EXPECT_TRUE(counted(group(30'000)));
  EXPECT_FALSE(counted(repeated(group(30'000), 2))) << "as many fields as its bytes can hold";
}

TEST(ParserBounds, ProtobufTakesTimeInProportion) {
  const std::pair<const char*, std::string> parts[] = {{"varints", "\x08\x01"},
                                                       {"bytes", "\x12\x03xyz"},
                                                       {"empty messages", std::string("\x1a\x00", 2)},
                                                       {"groups", "\x0b\x13\x14\x0c"}};
  for (const auto& [name, part] : parts) {
    auto work = [&part = part](size_t n) { EXPECT_TRUE(well_formed(repeated(part, n))); };
    EXPECT_LE(support::growth(100'000, work), 2.5) << name;
  }
}

}  // namespace
}  // namespace weir::marshal
