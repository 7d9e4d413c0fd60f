#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

namespace weir::text {
namespace {

struct Stopped {
  std::string text;
  bool stopped;
  bool operator==(const Stopped&) const = default;
};

Stopped run(std::vector<std::string> stops, StopStrings::Keep keep, std::string_view text, auto&& cut) {
  StopStrings matcher(std::move(stops), keep);
  Stopped out{};
  while (!text.empty()) {
    size_t n = std::min<size_t>(text.size(), cut());
    if (matcher.push(text.substr(0, n), out.text)) return out.stopped = true, out;
    text.remove_prefix(n);
  }
  matcher.finish(out.text);
  return out;
}

TEST(StopStrings, AStopAcrossPiecesEndsTheTextBeforeIt) {
  StopStrings stops({"\n\nUser:"}, StopStrings::Keep::kNo);
  std::string out;
  EXPECT_FALSE(stops.push("hello\n", out));
  EXPECT_EQ(out, "hello");
  EXPECT_FALSE(stops.push("\nUs", out));
  EXPECT_EQ(out, "hello");
  EXPECT_TRUE(stops.push("er: hi", out));
  EXPECT_EQ(out, "hello");
  EXPECT_EQ(stops.which(), "\n\nUser:");
}

TEST(StopStrings, WhatWasHeldBackForNothingIsText) {
  StopStrings stops({"abcd"}, StopStrings::Keep::kNo);
  std::string out;
  EXPECT_FALSE(stops.push("xabc", out));
  EXPECT_EQ(out, "x");
  EXPECT_FALSE(stops.push("abc", out));
  EXPECT_EQ(out, "xabc");
  stops.finish(out);
  EXPECT_EQ(out, "xabcabc");
}

TEST(StopStrings, OfTwoThatEndTogetherTheLongerOneStops) {
  StopStrings stops({"b", "ab"}, StopStrings::Keep::kNo);
  std::string out;
  EXPECT_TRUE(stops.push("xab", out));
  EXPECT_EQ(out, "x");
  EXPECT_EQ(stops.which(), "ab");
}

TEST(StopStrings, CutsMakeNoDifference) {
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    auto letters = [&](size_t n) {
      std::string s;
      while (n--) s += "ab"[random() % 2];
      return s;
    };
    std::vector<std::string> stops;
    for (size_t n = random() % 4; n--;) stops.push_back(letters(random() % 6));
    auto keep = random() % 2 ? StopStrings::Keep::kYes : StopStrings::Keep::kNo;
    std::string text = letters(random() % 24);
    // The definition: the least end, then the least beginning.
    Stopped want{text, false};
    for (size_t end = 1; end <= text.size() && !want.stopped; ++end)
      for (size_t from = 0; from < end && !want.stopped; ++from)
        for (const auto& stop : stops)
          if (!stop.empty() && text.substr(from, end - from) == stop)
            want = {text.substr(0, keep == StopStrings::Keep::kYes ? end : from), true};
    ASSERT_EQ(run(stops, keep, text, [&] { return 1 + random() % 5; }), want) << text;
  }
}

}  // namespace
}  // namespace weir::text
