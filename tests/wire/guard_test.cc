#include "wire/guard.h"

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace weir::wire {
namespace {

constexpr base::Time kStart = base::Time(1000s);
constexpr uint8_t kEnd = 1, kAck = 1;

FrameHead head(H2Frame type, int32_t stream = 0, uint32_t length = 8, uint8_t flags = 0) {
  return {length, type, flags, stream, false};
}

struct Flood {
  const char* name;
  std::function<FrameHead(int)> nth;
  int allowed;  // frames before the verdict
  std::string_view reason;
  H2Error code = H2Error::kEnhanceYourCalm;
};

const std::vector<Flood> kFloods{
    {"resets", [](int) { return head(H2Frame::kRstStream, 1, 4); }, 200, reason::kH2RstRx},
    {"pings", [](int) { return head(H2Frame::kPing); }, 100, reason::kH2Ping},
    {"settings", [](int) { return head(H2Frame::kSettings, 0, 0); }, 10, reason::kH2Settings},
    {"priorities without streams", [](int) { return head(H2Frame::kPriority, 3, 5); }, 100, reason::kH2Prio},
    {"unknown frames", [](int) { return head(H2Frame(0xbb), 0, 5); }, 100, reason::kH2Prio},
    {"window updates without streams", [](int) { return head(H2Frame::kWindowUpdate, 0, 4); }, 5, reason::kH2Window},
    {"empty data", [](int) { return head(H2Frame::kData, 1, 0); }, 1, reason::kH2Empty},
    {"padding only",
     [](int) {
       return FrameHead{9, H2Frame::kData, 8, 1, true};
     },
     1, reason::kH2Empty},
    {"empty headers", [](int i) { return head(H2Frame::kHeaders, 2 * i + 1, 0); }, 1, reason::kH2Empty},
    {"continuations", [](int) { return head(H2Frame::kContinuation, 1, 10); }, 8, reason::kH2Continuation},
    {"id going back into a gap", [](int i) { return head(H2Frame::kHeaders, i == 0 ? 9 : 7); }, 1, reason::kH2StreamId,
     H2Error::kProtocol},
};

TEST(Guard, EachFloodEndsAtItsBound) {
  for (const Flood& f : kFloods) {
    Limits limits;
    Guard guard(limits, kStart);
    int passed = 0;
    while (passed < 100000 && guard.frame(f.nth(passed), kStart)) ++passed;
    EXPECT_EQ(passed, f.allowed) << f.name;
    EXPECT_EQ(guard.verdict().reason, f.reason) << f.name;
    EXPECT_EQ(guard.verdict().code, f.code) << f.name;
    EXPECT_FALSE(guard.frame(head(H2Frame::kData, 1), kStart)) << f.name;
  }
}

TEST(Guard, FloodsSpreadOverTimeAreOrdinaryTraffic) {
  for (const Flood& f : kFloods) {
    if (f.reason != reason::kH2RstRx && f.reason != reason::kH2Ping && f.reason != reason::kH2Settings) continue;
    Limits limits;
    Guard guard(limits, kStart);
    base::Time now = kStart;
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(guard.frame(f.nth(i), now)) << f.name << ' ' << i;
      now += 250ms;
    }
  }
}

TEST(Guard, AcksAreNotCounted) {
  Limits limits;
  Guard guard(limits, kStart);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(guard.frame(head(H2Frame::kPing, 0, 8, kAck), kStart));
  EXPECT_FALSE(guard.settings_acked());
  EXPECT_TRUE(guard.frame(head(H2Frame::kSettings, 0, 0, kAck), kStart));
  EXPECT_TRUE(guard.settings_acked());
}

TEST(Guard, EmptyFramesThatEndAStreamAreFine) {
  Limits limits;
  Guard guard(limits, kStart);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(guard.frame(head(H2Frame::kData, 1, 0, kEnd), kStart));
  // One empty frame, then payload, again and again.
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(guard.frame(head(H2Frame::kData, 1, i % 2), kStart));
}

TEST(Guard, WindowUpdatesAndPrioritiesAreEarnedByStreamsAndData) {
  Limits limits;
  Guard guard(limits, kStart);
  for (int i = 0; i < 10; ++i) guard.frame(head(H2Frame::kHeaders, 2 * i + 1), kStart);
  for (int i = 0; i < 7; ++i) guard.sent(head(H2Frame::kData, 1));
  int updates = 0, priorities = 0;
  Guard other = guard;
  while (guard.frame(head(H2Frame::kWindowUpdate, 1, 4), kStart)) ++updates;
  while (other.frame(head(H2Frame::kPriority, 1, 5), kStart)) ++priorities;
  EXPECT_EQ(updates, 5 + 2 * (10 + 10 * 7));
  EXPECT_EQ(priorities, 100 * 11);
}

TEST(Guard, SkippedIdsRememberThirtyTwoGaps) {
  SkippedIds ids;
  EXPECT_TRUE(ids.open(1));
  EXPECT_TRUE(ids.open(3));
  EXPECT_TRUE(ids.open(9));
  EXPECT_TRUE(ids.open(3));  // used before: the library's business
  EXPECT_FALSE(ids.open(5));
  EXPECT_FALSE(ids.open(7));
  for (int i = 0; i < 32; ++i) ids.open(13 + 4 * i);
  EXPECT_TRUE(ids.open(5));  // forgotten
  EXPECT_FALSE(ids.open(11));
  SkippedIds far;
  EXPECT_TRUE(far.open(0x7fffffff));
  EXPECT_FALSE(far.open(1));
}

TEST(Guard, PrematureResetsAreJudgedFrom250Streams) {
  Limits limits;
  Guard guard(limits, kStart);
  for (int i = 0; i < 249; ++i) ASSERT_TRUE(guard.stream_closed(Guard::Life::kPremature));
  EXPECT_FALSE(guard.stream_closed(Guard::Life::kPremature));
  EXPECT_EQ(guard.verdict().reason, reason::kH2RstRx);
  Guard fair(limits, kStart);
  for (int i = 0; i < 10000; ++i)
    ASSERT_TRUE(fair.stream_closed(i % 3 == 0 ? Guard::Life::kPremature : Guard::Life::kUseful));
}

TEST(Guard, HalfOfTheStreamsMayNotBePremature) {
  for (int premature : {124, 125}) {
    Limits limits;
    Guard guard(limits, kStart);
    for (int i = 0; i < 249; ++i)
      ASSERT_TRUE(guard.stream_closed(i < premature ? Guard::Life::kPremature : Guard::Life::kUseful));
    EXPECT_EQ(guard.stream_closed(Guard::Life::kUseful), premature < 125);
  }
}

TEST(Guard, GlitchesHaveABucketOfTheirOwn) {
  Limits limits;
  Guard guard(limits, kStart);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(guard.glitch(kStart));
  EXPECT_FALSE(guard.glitch(kStart));
  EXPECT_EQ(guard.verdict().reason, reason::kH2RstTx);
}

TEST(Guard, OutboundControlIsBoundedUntilTheSocketDrains) {
  Limits limits;
  Guard guard(limits, kStart);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(guard.sent(head(H2Frame::kPing, 0, 8, kAck)));
    guard.drained();
  }
  for (int i = 0; i < 200; ++i) guard.sent(head(H2Frame::kRstStream, 1, 4));
  EXPECT_FALSE(guard.sent(head(H2Frame::kSettings, 0, 0, kAck)));
  EXPECT_EQ(guard.verdict().reason, reason::kH2Outbound);
}

TEST(Guard, PingStrikesCountOnlyWhenConfiguredAndNotAroundOurData) {
  Limits limits;
  limits.min_ping_interval = 10s;
  base::Time now = kStart;
  auto pings = [&](bool data_between) {
    Guard guard(limits, kStart);
    int n = 0;
    while (n < 50 && guard.frame(head(H2Frame::kPing), now += 1s)) {
      ++n;
      if (data_between) guard.sent(head(H2Frame::kHeaders, 1));
    }
    EXPECT_TRUE(n == 50 || guard.verdict().text == "too_many_pings");
    return n;
  };
  EXPECT_EQ(pings(false), 3);
  EXPECT_EQ(pings(true), 50);
  limits.min_ping_interval = 0s;
  EXPECT_EQ(pings(false), 50);
}

// grpc-go: one PING per round trip in which data came, behind a WINDOW_UPDATE.
TEST(Guard, APingPerRoundTripWithDataIsNoFlood) {
  for (auto type : {H2Frame::kData, H2Frame::kHeaders}) {
    Limits limits;
    Guard guard(limits, kStart);
    for (int i = 0; i < 100'000; ++i) {
      guard.sent(head(type, 1, 5));
      ASSERT_TRUE(type == H2Frame::kHeaders || guard.frame(head(H2Frame::kWindowUpdate, 0, 4), kStart)) << i;
      ASSERT_TRUE(guard.frame(head(H2Frame::kPing), kStart)) << i;
      guard.sent(head(H2Frame::kPing, 0, 8, kAck));
      guard.drained();
    }
  }
}

TEST(Guard, SettingsForWindowsThatGrowWithTheTrafficAreNoFlood) {
  for (bool ours : {true, false}) {
    Limits limits;
    Guard guard(limits, kStart);
    for (int i = 0; i < 1000; ++i) {
      for (int k = 0; k < 3; ++k)
        ours ? guard.sent(head(H2Frame::kData, 1, 16 << 10)) : guard.frame(head(H2Frame::kData, 1, 16 << 10), kStart);
      ASSERT_TRUE(guard.frame(head(H2Frame::kPing), kStart)) << i;
      ASSERT_TRUE(guard.frame(head(H2Frame::kSettings, 0, 6), kStart)) << i;
    }
  }
}

TEST(Guard, LittleTrafficEarnsNoFlood) {
  struct Beside {
    const char* name;
    H2Frame flood;
    std::function<void(Guard&)> traffic;
    int allowed;
  };
  auto in = [](uint32_t length) { return [length](Guard& g) { g.frame(head(H2Frame::kData, 1, length), kStart); }; };
  auto out = [](uint32_t length) { return [length](Guard& g) { g.sent(head(H2Frame::kData, 1, length)); }; };
  const std::vector<Beside> cases{
      {"pings beside dripped data", H2Frame::kPing, in(1), 100},
      {"settings beside dripped data", H2Frame::kSettings, in(1), 10},
      {"settings beside small answers", H2Frame::kSettings, out(1000), 10},
      {"settings beside our heads", H2Frame::kSettings, [](Guard& g) { g.sent(head(H2Frame::kHeaders, 1)); }, 10},
  };
  for (const Beside& c : cases) {
    Limits limits;
    Guard guard(limits, kStart);
    int passed = -1;
    do {
      c.traffic(guard);
      ++passed;
    } while (passed < 10'000 && guard.frame(head(c.flood, 0, 0), kStart));
    EXPECT_EQ(passed, c.allowed) << c.name;
  }
}

TEST(Guard, TrafficOfThePastIsNoLicenceForAFlood) {
  for (auto [type, bucket] : {std::pair(H2Frame::kPing, 100), std::pair(H2Frame::kSettings, 10)}) {
    Limits limits;
    Guard guard(limits, kStart);
    for (int i = 0; i < 100'000; ++i) guard.sent(head(H2Frame::kData, 1, 64 << 10));
    int passed = 0;
    while (guard.frame(head(type), kStart)) ++passed;
    EXPECT_EQ(passed, 100 + bucket);
  }
}

TEST(Guard, ResetsOfStreamsThatWereAnsweredAreNotCounted) {
  Limits limits;
  Guard guard(limits, kStart);
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(guard.frame(head(H2Frame::kRstStream, 1, 4), kStart));
    guard.reset_was_fair();
  }
  int passed = 0;
  while (guard.frame(head(H2Frame::kRstStream, 1, 4), kStart)) ++passed;
  EXPECT_EQ(passed, 200);
}

TEST(Guard, OutboundControlIsForgottenWhenTheSocketHasPassedIt) {
  Limits limits;
  Guard guard(limits, kStart);
  auto acks = [&](int n) {
    for (int i = 0; i < n; ++i)
      if (!guard.sent(head(H2Frame::kPing, 0, 8, kAck))) return false;
    return true;
  };
  for (int round = 0; round < 10; ++round, guard.passed()) ASSERT_TRUE(acks(100));
  EXPECT_TRUE(acks(100));
  EXPECT_FALSE(acks(1));
}

TEST(Guard, SettingsMustBeAcknowledgedInTime) {
  Limits limits;
  Guard guard(limits, kStart);
  EXPECT_TRUE(guard.check(kStart + 9s));
  Guard late = guard;
  EXPECT_FALSE(late.check(kStart + 10s));
  EXPECT_EQ(late.verdict().code, H2Error::kSettingsTimeout);
  guard.frame(head(H2Frame::kSettings, 0, 0, kAck), kStart);
  EXPECT_TRUE(guard.check(kStart + 3600s));
}

TEST(Guard, OverheadWithoutPayloadIsAFlood) {
  Limits limits;
  limits.pings = {1u << 30, 1u << 30};
  Guard guard(limits, kStart);
  int n = 0;
  while (n < 10'000'000 && guard.frame(head(H2Frame::kPing), kStart)) ++n;
  EXPECT_NEAR(n, 8 * (1 << 20) / 17, 2);
}

TEST(Guard, OneMoreRequestThanAReadMayBeginCountsForTheNext) {
  Limits limits;
  limits.requests_per_read = 3;
  Guard guard(limits, kStart);
  int32_t id = 1;
  auto begin = [&](int n) {
    for (; n > 0; --n, id += 2) ASSERT_TRUE(guard.frame(head(H2Frame::kHeaders, id), kStart));
  };
  begin(3);
  EXPECT_FALSE(guard.enough());
  ASSERT_TRUE(guard.frame(head(H2Frame::kHeaders, 5), kStart));
  EXPECT_FALSE(guard.enough()) << "trailers begin no request";
  begin(1);
  EXPECT_TRUE(guard.enough());
  guard.new_read();
  EXPECT_FALSE(guard.enough());
  begin(2);
  EXPECT_FALSE(guard.enough());
  begin(1);
  EXPECT_TRUE(guard.enough());
  guard.new_read(), guard.new_read();
  begin(3);
  EXPECT_FALSE(guard.enough());
}

TEST(Guard, ABucketFillsToItsBurstAndNoFurther) {
  TokenBucket bucket({2, 4}, kStart);
  auto take_all = [&](base::Time now) {
    int n = 0;
    while (bucket.take(now)) ++n;
    return n;
  };
  const int burst = take_all(kStart);
  EXPECT_EQ(take_all(kStart), 0);
  EXPECT_EQ(take_all(kStart + 100s), burst);
  EXPECT_EQ(take_all(kStart + 50s), 0) << "time does not go back";
  bucket.put_back();
  EXPECT_EQ(take_all(kStart + 100s), 1);
  for (int i = 0; i < 9; ++i) bucket.put_back();
  EXPECT_EQ(take_all(kStart + 100s), burst);
}

TEST(Guard, HeaderBudgetIsSoftThenHard) {
  Limits limits;
  using Fit = HeaderBudget::Fit;
  HeaderBudget few;
  EXPECT_EQ(few.add(limits, 10, limits.header_bytes - 42), Fit::kYes);
  EXPECT_EQ(few.add(limits, 1, 0), Fit::kSoft);
  EXPECT_TRUE(few.over());
  EXPECT_EQ(few.add(limits, 1, limits.header_bytes_hard), Fit::kHard);
  HeaderBudget many;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(many.add(limits, 1, 1), Fit::kYes);
  for (int i = 0; i < 900; ++i) EXPECT_EQ(many.add(limits, 1, 1), Fit::kSoft);
  EXPECT_EQ(many.add(limits, 1, 1), Fit::kHard);
}

TEST(Guard, TrafficEarnsControlFramesByTheByte) {
  const Limits limits;
  for (auto [type, bucket, kib] : {std::tuple(H2Frame::kSettings, 10u, 32u), std::tuple(H2Frame::kPing, 100u, 16u)})
    for (uint32_t lacking : {0u, 1u}) {
      Guard guard(limits, kStart);
      guard.frame(head(H2Frame::kData, 1, 3 * (kib << 10) - lacking), kStart);
      for (uint32_t left = bucket + 4 - lacking; left-- > 0;)
        EXPECT_EQ(guard.frame(head(type, 0, 8), kStart), left > 0);
    }
}

}  // namespace
}  // namespace weir::wire
