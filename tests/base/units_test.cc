#include "base/units.h"

#include <gtest/gtest.h>

namespace weir::base {
namespace {

TEST(Units, Durations) {
  EXPECT_EQ(parse_duration("2ms")->count(), 2'000'000);
  EXPECT_EQ(parse_duration("1.5s")->count(), 1'500'000'000);
  EXPECT_EQ(parse_duration("5m")->count(), 300'000'000'000);
  EXPECT_EQ(parse_duration("0")->count(), 0);
  for (const char* bad : {"", "5", "ms", "-1s", "1 s", "1x", "nan", "inf", "1e3s", "99999999999h"})
    EXPECT_FALSE(parse_duration(bad)) << bad;
}

TEST(Units, Sizes) {
  EXPECT_EQ(*parse_size("64MiB"), 64u << 20);
  EXPECT_EQ(*parse_size("4096"), 4096u);
  EXPECT_EQ(*parse_size("1KB"), 1000u);
  EXPECT_EQ(*parse_size("0.5GiB"), 512u << 20);
  for (const char* bad : {"", "64 MiB", "64mib", "-1", "MiB", "1e9", "9999999TiB"})
    EXPECT_FALSE(parse_size(bad)) << bad;
}

TEST(Units, WhatIsShownParsesBack) {
  for (const char* text : {"2ms", "1500us", "5m", "1h", "30s", "0"})
    EXPECT_EQ(show_duration(*parse_duration(text)), text);
  for (const char* text : {"64MiB", "1000", "1KiB", "2GiB", "0"}) EXPECT_EQ(show_size(*parse_size(text)), text);
}

TEST(Units, CountsAndSwitches) {
  EXPECT_EQ(*parse_count("12", 12), 12u);
  EXPECT_FALSE(parse_count("13", 12));
  EXPECT_FALSE(parse_count("-1"));
  EXPECT_FALSE(parse_count("1x"));
  EXPECT_TRUE(*parse_switch("on"));
  EXPECT_FALSE(*parse_switch("false"));
  EXPECT_FALSE(parse_switch("maybe"));
}

}  // namespace
}  // namespace weir::base
