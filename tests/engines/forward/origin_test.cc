// Which origin a call goes to.
#include "engines/forward/origin.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace weir::forward {
namespace {

const base::Time kNow = base::Time() + std::chrono::hours(1);

struct Origins {
  explicit Origins(size_t count, uint32_t max_outstanding = 1000) {
    target.options.max_outstanding = max_outstanding;
    for (size_t i = 0; i < count; ++i)
      target.origins.emplace_back(*net::parse_url("http://10.0.0." + std::to_string(i + 1) + ":8001"),
                                  std::vector<net::Endpoint>());
  }
  // How often each was chosen; `held`: the call stays there.
  std::map<Origin*, int> choose(int times, bool held = false, base::Time now = kNow) {
    std::map<Origin*, int> out;
    for (int i = 0; i < times; ++i) {
      Origin* origin = target.choose(now, random(), 0, nullptr);
      ++out[origin];
      if (held && origin) ++origin->outstanding;
    }
    return out;
  }
  Target target;
  std::mt19937_64 random{1};
};

TEST(ForwardOrigins, TheOneWithLessToDoIsChosenOfTwo) {
  Origins origins(4);
  origins.choose(400, true);
  for (auto& origin : origins.target.origins) {
    EXPECT_GT(origin.outstanding, 90u);
    EXPECT_LT(origin.outstanding, 110u);
  }
  origins.target.origins[0].outstanding = 500;
  EXPECT_LT(origins.choose(1000)[&origins.target.origins[0]], 100) << "chosen where both choices are it";
}

TEST(ForwardOrigins, OneThatIsNotHealthyIsAskedOnlyWhereNoneIs) {
  Origins origins(2);
  origins.target.origins[0].eject();
  EXPECT_EQ(origins.choose(100)[&origins.target.origins[0]], 0);
  origins.target.origins[1].eject();
  EXPECT_GT(origins.choose(100)[&origins.target.origins[0]], 20);
}

TEST(ForwardOrigins, OneThatComesBackGetsItsShareBitByBit) {
  Origins origins(2);
  Origin& back = origins.target.origins[0];
  back.eject();
  back.admit(kNow);
  for (auto& origin : origins.target.origins) origin.outstanding = 10;
  EXPECT_LT(origins.choose(1000)[&back], 300) << "only where both choices are it";
  EXPECT_GT(origins.choose(1000, false, kNow + Origin::kSlowReturn)[&back], 300);
}

TEST(ForwardOrigins, ASequenceKeepsToOne) {
  Origins origins(3);
  Origin* first = origins.target.choose(kNow, 1, 7, nullptr);
  for (uint64_t random : {2u, 3u, 4u}) EXPECT_EQ(origins.target.choose(kNow, random, 7, nullptr), first);
}

TEST(ForwardOrigins, OneThatHasAllTheCallsItMayGetsNoMore) {
  Origins origins(2, 5);
  auto chosen = origins.choose(12, true);
  EXPECT_EQ(chosen[nullptr], 2);
  EXPECT_EQ(chosen[&origins.target.origins[0]], 5);
}

TEST(ForwardOrigins, ASecondTryGoesElsewhereWhereThereIsOne) {
  Origins two(2), one(1);
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(two.target.choose(kNow, two.random(), 0, &two.target.origins[0]), &two.target.origins[1]);
  EXPECT_EQ(one.target.choose(kNow, 1, 0, &one.target.origins[0]), &one.target.origins[0]);
}

TEST(ForwardOrigins, APrefixPrefersOneUntilThatHasMoreThanItsShare) {
  Origins origins(4);
  auto& target = origins.target;
  Origin* first = target.choose_by_prefix(kNow, 1, 77, nullptr);
  for (uint64_t random : {2u, 3u, 4u}) EXPECT_EQ(target.choose_by_prefix(kNow, random, 77, nullptr), first);
  std::map<Origin*, int> spread;
  for (uint64_t prefix = 1; prefix <= 400; ++prefix) ++spread[target.choose_by_prefix(kNow, 1, prefix, nullptr)];
  for (auto& origin : target.origins) EXPECT_GT(spread[&origin], 60);
  for (int i = 0; i < 400; ++i) ++target.choose_by_prefix(kNow, 1, 77, nullptr)->outstanding;
  for (auto& origin : target.origins) EXPECT_LE(origin.outstanding, 127u) << "a quarter more than its share";
  EXPECT_GT(first->outstanding, 120u);
  first->eject();
  EXPECT_NE(target.choose_by_prefix(kNow, 1, 77, nullptr), first);
  EXPECT_NE(target.choose_by_prefix(kNow, 1, 77, nullptr), nullptr);
}

}  // namespace
}  // namespace weir::forward
