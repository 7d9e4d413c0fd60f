#include "base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

namespace weir::base {
namespace {

// Returns the text of one line, without its time.
std::string logged(log::Format format, log::Level level, std::string_view event, log::LogFields fields) {
  log::set_format(format);
  testing::internal::CaptureStderr();
  log::write(level, event, fields);
  EXPECT_TRUE(log::flush(std::chrono::seconds(10)));
  std::string line = testing::internal::GetCapturedStderr();
  log::set_format(log::Format::kText);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  auto from = format == log::Format::kText ? line.find("Z ") + 2 : line.find("Z\"") + 2;
  return line.substr(from, line.size() - from - 1);
}

TEST(Log, TextIsTheEventAndItsFields) {
  EXPECT_EQ(logged(log::Format::kText, log::Level::kInfo, "model loaded",
                   {{"model", "digits"}, {"version", 3}, {"seconds", 0.25}, {"ok", true}}),
            "info    model loaded model=digits version=3 seconds=0.25 ok=true");
}

TEST(Log, JsonIsOneObject) {
  EXPECT_EQ(
      logged(log::Format::kJson, log::Level::kWarning, "slow \"peer\"", {{"bytes", uint64_t(7)}, {"peer", "a b"}}),
      R"(,"level":"warning","event":"slow \"peer\"","bytes":7,"peer":"a b"})");
}

TEST(Log, AClientsTextCannotForgeALine) {
  std::string evil = "x\n2026-01-01 info forged a=b\x1b[31m\xff";
  EXPECT_EQ(logged(log::Format::kText, log::Level::kError, "bad", {{"name", evil}}),
            "error   bad name=\"x\\u000a2026-01-01 info forged a=b\\u001b[31m\\u00ff\"");
  EXPECT_EQ(
      logged(log::Format::kJson, log::Level::kError, "bad", {{"name", evil}}),
      ",\"level\":\"error\",\"event\":\"bad\",\"name\":\"x\\u000a2026-01-01 info forged a=b\\u001b[31m\\u00ff\"}");
  EXPECT_EQ(logged(log::Format::kText, log::Level::kInfo, "e", {{"a", "b c=d"}, {"e", ""}}),
            "info    e a=\"b c=d\" e=\"\"");
}

TEST(Log, LongValuesAreCut) {
  auto line = logged(log::Format::kText, log::Level::kInfo, "e", {{"a", std::string(100'000, 'x')}});
  EXPECT_LT(line.size(), 300u);
}

TEST(Log, LevelsAreSwitchedOneByOne) {
  testing::internal::CaptureStderr();
  log::enable(log::Level::kInfo, false);
  log::info("silent");
  log::warning("heard");
  log::enable(log::Level::kInfo, true);
  log::verbose("silent");
  log::set_verbosity(2);
  EXPECT_EQ(log::verbosity(), 2u);
  log::verbose("heard too");
  log::set_verbosity(0);
  log::verbose("silent");
  EXPECT_TRUE(log::flush(std::chrono::seconds(10)));
  auto text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("silent"), std::string::npos);
  EXPECT_NE(text.find("heard\n"), std::string::npos);
  EXPECT_NE(text.find("heard too\n"), std::string::npos);
  EXPECT_FALSE(log::enabled(log::Level::kOff));
}

TEST(Log, NothingIsLostAtExit) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto log_and_leave = [] {
    for (int i = 1; i <= 3000; ++i) log::info("line", {{"n", i}});
    std::exit(0);
  };
  EXPECT_EXIT(log_and_leave(), testing::ExitedWithCode(0), "n=1\n(.*\n)*.*n=1500\n(.*\n)*.*n=3000\n$");
}

// A pipe whose reader is stopped.
TEST(Log, WhoLogsDoesNotWaitForTheReader) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto log_into_a_full_pipe = [] {
    int ends[2];
    if (pipe(ends) != 0) std::exit(1);
    dup2(ends[1], STDERR_FILENO);
    for (int i = 0; i < 100'000; ++i) log::info("line", {{"n", i}});
    std::exit(log::dropped() > 10'000 && log::dropped() < 100'000 ? 0 : 2);
  };
  EXPECT_EXIT(log_into_a_full_pipe(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weir::base
