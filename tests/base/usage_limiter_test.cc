#include "base/usage_limiter.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/model_scope.h"

namespace weir::base {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(TokenBucket, ABurstThenTheRate) {
  TokenBucket bucket(10, 3);
  Time now{seconds(100)};
  EXPECT_TRUE(bucket.take(now) && bucket.take(now) && bucket.take(now));
  EXPECT_FALSE(bucket.take(now));
  EXPECT_EQ(bucket.wait(now), milliseconds(100));
  now += milliseconds(100);
  EXPECT_TRUE(bucket.take(now));
  EXPECT_FALSE(bucket.take(now));
  now += seconds(3600);
  EXPECT_TRUE(bucket.take(now) && bucket.take(now) && bucket.take(now));
  EXPECT_FALSE(bucket.take(now)) << "a long pause fills the bucket once";
}

TEST(TokenBucket, NoRateIsNoLimit) {
  TokenBucket bucket(0, 0);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(bucket.take(Time{}));
  bucket.charge(Time{}, 1 << 30);
  EXPECT_EQ(bucket.wait(Time{}), Duration(0));
}

TEST(TokenBucket, AChargeBeyondAllMeasureIsForgottenAfterAnHourOrSo) {
  TokenBucket bucket(1.0 / 60, 1);
  Time now{seconds(100)};
  for (int i = 0; i < 10; ++i) bucket.charge(now, UINT64_MAX);
  EXPECT_GT(bucket.wait(now), seconds(3000));
  EXPECT_LE(bucket.wait(now), seconds(3600 + 120));
}

TEST(TokenBucket, ThreadsTakeNoMoreThanThereAre) {
  TokenBucket bucket(1, 1000);
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) taken += bucket.take(Time{seconds(5)});
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(taken, 1000);
}

TEST(UsageLimiter, ARefusedRequestTakesNothing) {
  UsageLimiter limiter("k", {1, 1, 0, 0});
  Time now{seconds(5)};
  EXPECT_TRUE(limiter.enter(now).ok());
  EXPECT_EQ(limiter.enter(now).code, Code::kResourceExhausted);
  limiter.leave();
  EXPECT_NE(limiter.enter(now).text.find("requests_per_second"), std::string::npos);
  EXPECT_TRUE(limiter.enter(now + seconds(1)).ok()) << "the one that was refused for its rate has no place";
}

TEST(UsageLimiter, WhatWasCountedTakesNoneOfTheRateAndIsOneAtOnce) {
  UsageLimiter limiter("k", {1, 2, 60, 0});
  Time now{seconds(5)};
  ASSERT_TRUE(limiter.enter(now).ok());
  EXPECT_TRUE(limiter.enter_counted(now).ok());
  EXPECT_NE(limiter.enter_counted(now).text.find("concurrent"), std::string::npos);
  limiter.leave();
  limiter.charge_tokens(now, 100);
  EXPECT_NE(limiter.enter_counted(now).text.find("tokens_per_minute"), std::string::npos);
  EXPECT_TRUE(limiter.enter(now + seconds(60)).ok());
}

TEST(ModelScope, PatternsStandForWholeNames) {
  struct Case {
    const char *pattern, *text;
    bool matches;
  };
  for (auto [pattern, text, matches] :
       {Case{"chat", "chat", true}, Case{"chat", "chat2", false}, Case{"chat*", "chat2", true},
        Case{"chat*", "chat", true}, Case{"*chat", "my-chat", true}, Case{"*", "", true}, Case{"", "", true},
        Case{"", "a", false}, Case{"c?at", "chat", true}, Case{"c?at", "cat", false}, Case{"a*b*c", "axxbyybc", true},
        Case{"a*b*c", "axxbyy", false}, Case{"Chat", "chat", false}, Case{"*?", "", false}})
    EXPECT_EQ(matches_glob(pattern, text), matches) << pattern << ' ' << text;
  EXPECT_FALSE(ModelScope({}).allows("any"));
  EXPECT_TRUE(ModelScope({"x", "y*"}).allows("yes"));
  EXPECT_EQ(ModelScope({"b", "a"}).text(), ModelScope({"a", "b"}).text());
}

TEST(ModelScope, ManyStarsAreNoTrap) {
  std::string pattern, text(5000, 'a');
  for (int i = 0; i < 100; ++i) pattern += "a*";
  EXPECT_FALSE(matches_glob(pattern + "b", text));
}

TEST(Status, ARetryTakesAsLongAsItSays) {
  EXPECT_EQ(retry_after(try_again(Code::kUnavailable, "x")), seconds(1));
  for (int64_t n : {1, 2, 127, 128, 300, 3600, 86400})
    EXPECT_EQ(retry_after(try_again(Code::kResourceExhausted, "x", seconds(n))), seconds(n));
  EXPECT_EQ(retry_after(invalid("x")), seconds(1));
}

}  // namespace
}  // namespace weir::base
