// One client's share of what is kept, with the sessions that it has left behind.
#include "session/kept_bytes.h"

#include <gtest/gtest.h>

namespace weir::session {
namespace {

using std::chrono::seconds;

const base::Time kStart{seconds(1000)};
constexpr base::Duration kLife = seconds(60);

TEST(KeptBytes, AClientHasItsShareUntilItsSessionsAreOver) {
  KeptBytes kept;
  kept.set_limits(100'000, 200'000);
  EXPECT_TRUE(kept.set("s1", "ann", 60'000, kStart));
  EXPECT_FALSE(kept.set("s2", "ann", 60'000, kStart));
  EXPECT_TRUE(kept.set("s2", "ann", 30'000, kStart));
  EXPECT_TRUE(kept.set("s3", "bob", 90'000, kStart)) << "another one's share is its own";
  EXPECT_FALSE(kept.set("s2", "ann", 50'000, kStart));
  EXPECT_EQ(kept.of("ann"), 90'000u) << "what was refused has changed nothing";
  EXPECT_TRUE(kept.set("s1", "ann", 10'000, kStart));
  EXPECT_TRUE(kept.set("s2", "ann", 50'000, kStart));
  kept.let_go("s2", kLife, kStart);
  EXPECT_FALSE(kept.set("s4", "ann", 50'000, kStart + seconds(59))) << "it is kept without its client";
  EXPECT_TRUE(kept.set("s4", "ann", 50'000, kStart + seconds(60)));
  kept.forget("s4");
  kept.forget("s4");
  EXPECT_EQ(kept.of("ann"), 10'000u);
}

TEST(KeptBytes, OneThatIsHeldAgainStays) {
  KeptBytes kept;
  kept.set_limits(100'000, 200'000);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(kept.set("s", "ann", 90'000, kStart + seconds(i)));
    kept.let_go("s", kLife, kStart + seconds(i));
  }
  EXPECT_TRUE(kept.set("s", "ann", 90'000, kStart + seconds(100)));
  EXPECT_FALSE(kept.set("t", "ann", 90'000, kStart + seconds(1000)));
  EXPECT_EQ(kept.sessions(), 1u);
}

TEST(KeptBytes, AllClientsTogetherHaveTheirBound) {
  KeptBytes kept;
  kept.set_limits(100'000, 200'000);
  EXPECT_TRUE(kept.set("s1", "ann", 100'000, kStart));
  EXPECT_TRUE(kept.set("s2", "bob", 90'000, kStart));
  EXPECT_FALSE(kept.set("s3", "cid", 20'000, kStart));
  EXPECT_TRUE(kept.set("s2", "bob", 100'000, kStart));
  EXPECT_EQ(kept.all(), 200'000u);
  kept.let_go("s2", kLife, kStart);
  EXPECT_TRUE(kept.set("s3", "cid", 20'000, kStart + seconds(60)));
  EXPECT_EQ(kept.all(), 120'000u);
}

TEST(KeptBytes, OneCallForgetsFewOfThoseThatAreOver) {
  KeptBytes kept;
  kept.set_limits(UINT64_MAX, UINT64_MAX);
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(kept.set("s" + std::to_string(i), "ann", 1, kStart));
    kept.let_go("s" + std::to_string(i), kLife, kStart);
  }
  const base::Time later = kStart + seconds(60);
  EXPECT_TRUE(kept.set("more", "bob", 1, later));
  EXPECT_EQ(kept.sessions(), 201 - KeptBytes::kExpiredAtOnce);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(kept.set("more", "bob", 1, later));
  EXPECT_EQ(kept.sessions(), 1u);
}

TEST(KeptBytes, ManySmallOnesCountAsPages) {
  KeptBytes kept;
  kept.set_limits(10 * KeptBytes::kLeast, UINT64_MAX);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(kept.set(std::to_string(i), "ann", 1, kStart));
  EXPECT_FALSE(kept.set("more", "ann", 1, kStart));
}

}  // namespace
}  // namespace weir::session
