#include "engines/process/child_log.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::process {
namespace {

using base::log::Level;
using namespace std::chrono_literals;

struct ChildLogTest : testing::Test {
  std::vector<std::string> lines;
  ChildLog log{
      [this](Level level, std::string_view line) { lines.push_back(std::to_string(int(level)) + std::string(line)); }};
  const base::Time start{};
};

TEST_F(ChildLogTest, LinesHaveTheLevelThatTheySay) {
  log.feed("<3>bad\n<4>odd\n<6>fine\n<7>much\nplain\n<9>plain too\n\n", start);
  EXPECT_EQ((std::vector<std::string>{"3bad", "2odd", "1fine", "0much", "1plain", "1<9>plain too"}), lines);
}

TEST_F(ChildLogTest, ALineComesInPiecesAndIsCutWhereItIsTooLong) {
  for (char c : std::string("in pieces\n")) log.feed({&c, 1}, start);
  log.feed(std::string(100'000, 'x'), start);
  log.feed("y\nno end", start);
  EXPECT_EQ(2u, lines.size());
  EXPECT_EQ(1 + ChildLog::kLongest, lines[1].size());
  log.finish(start);
  EXPECT_EQ("1no end", lines.back());
  EXPECT_EQ("no end", log.last());
}

TEST_F(ChildLogTest, AFloodIsCountedAndNotKept) {
  for (int i = 0; i < 10'000; ++i) log.feed("line\n", start);
  EXPECT_EQ(ChildLog::kBurst, lines.size());
  EXPECT_TRUE(log.flooded());
  log.report_dropped_when_quiet(start + 100ms);
  EXPECT_TRUE(log.flooded());
  log.feed("after\n", start + 10s);
  ASSERT_EQ(ChildLog::kBurst + 2, lines.size());
  EXPECT_EQ("29500 lines were dropped: more than 100 a second are not kept", lines[ChildLog::kBurst]);
  EXPECT_EQ("1after", lines.back());
  for (int i = 0; i < 10'000; ++i) log.feed("line\n", start + 10s);
  log.report_dropped_when_quiet(start + 11s);
  EXPECT_EQ("29501 lines were dropped: more than 100 a second are not kept", lines.back());
  EXPECT_FALSE(log.flooded());
}

}  // namespace
}  // namespace weir::process
