#include "dialects/ops/json_line.h"

#include <gtest/gtest.h>

#include <climits>
#include <string>

namespace weir::ops {
namespace {

// The access log has eleven texts, of which a client can make five long, the audit log nine.
TEST(JsonLine, IsNoLongerThanAPipeTakesWhole) {
  std::string out, bad;
  for (int i = 0; i < 1000; ++i) bad += "\xff\n";
  JsonLine line(out, {});
  for (int i = 0; i < 10; ++i) line.text("certificate_" + std::to_string(i), bad);
  line.number("status", UINT64_MAX).seconds("seconds", std::chrono::hours(1000)).end();
  EXPECT_LE(out.size(), size_t(PIPE_BUF));
  EXPECT_TRUE(out.ends_with("}\n"));
}

TEST(JsonLine, TextsAreCutBetweenEscapes) {
  std::string out;
  JsonLine(out, {}).text("plain", std::string(300, 'x')).text("bad", std::string(300, '\n')).end();
  EXPECT_NE(out.find(",\"plain\":\"" + std::string(256, 'x') + "\","), out.npos) << out;
  std::string escapes;
  for (int i = 0; i < 60; ++i) escapes += "\\u000a";
  EXPECT_NE(out.find(",\"bad\":\"" + escapes + "\"}"), out.npos) << out;
}

}  // namespace
}  // namespace weir::ops
