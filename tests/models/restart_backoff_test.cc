#include "models/restart_backoff.h"

#include <gtest/gtest.h>

namespace weir::models {
namespace {

using namespace std::chrono_literals;
using Names = std::vector<std::string>;

constexpr RestartBackoff::Clock::time_point kStart{1h};

TEST(RestartBackoff, TheFirstIsAtOnceAndEachIsNamedOnce) {
  RestartBackoff r;
  EXPECT_EQ(r.next(), RestartBackoff::Clock::time_point::max());
  r.broke("b", kStart), r.broke("a", kStart);
  EXPECT_EQ(r.next(), kStart);
  EXPECT_EQ(r.due(kStart), (Names{"a", "b"}));
  EXPECT_EQ(r.due(kStart + 1h), Names());
  EXPECT_EQ(r.next(), RestartBackoff::Clock::time_point::max());
}

TEST(RestartBackoff, ThoseThatFailWaitEverLongerUpToAMinute) {
  RestartBackoff r;
  auto now = kStart;
  r.broke("m", now);
  for (auto wait : {1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s}) {
    EXPECT_EQ(r.due(now), Names{"m"});
    r.failed("m", now);
    EXPECT_EQ(r.next(), now + wait);
    EXPECT_EQ(r.due(now + wait - 1ns), Names());
    now += wait;
  }
}

TEST(RestartBackoff, WhatBreaksAgainSoonWaitsAndIsForgivenAfterAWhile) {
  RestartBackoff r;
  r.broke("m", kStart);
  EXPECT_EQ(r.due(kStart), Names{"m"});
  r.broke("m", kStart + 10s);
  EXPECT_EQ(r.next(), kStart + 11s);
  EXPECT_EQ(r.due(kStart + 11s), Names{"m"});
  r.broke("m", kStart + 10s + RestartBackoff::kForgiven + 1s);
  EXPECT_EQ(r.next(), kStart + 10s + RestartBackoff::kForgiven + 1s) << "at once";
}

}  // namespace
}  // namespace weir::models
