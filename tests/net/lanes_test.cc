#include "net/lanes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::net {
namespace {

struct One : Lanes<One>::Link {
  explicit One(char c) : name(c) {}
  char name;
};

struct Bench {
  Bench() {
    for (char c = 'a'; c <= 'z'; ++c) all.emplace_back(c);
  }
  void push(const std::string& names, Lane lane) {
    for (char c : names) lanes.push(all[size_t(c - 'a')], lane);
  }
  std::string pop_all() {
    std::string out;
    while (One* one = lanes.pop()) out += one->name;
    return out;
  }
  std::vector<One> all;
  Lanes<One> lanes;
};

TEST(Lanes, EachLineKeepsItsOrder) {
  Bench t;
  EXPECT_TRUE(t.lanes.empty());
  t.push("cab", Lane::kLight);
  EXPECT_EQ(t.pop_all(), "cab");
  t.push("xyz", Lane::kHeavy);
  EXPECT_FALSE(t.lanes.empty());
  EXPECT_EQ(t.pop_all(), "xyz");
  EXPECT_TRUE(t.lanes.empty());
}

TEST(Lanes, OfTheHeavyOneGoesBehindFourLightOnes) {
  Bench t;
  t.push("xyz", Lane::kHeavy);
  t.push("abcdefghi", Lane::kLight);
  EXPECT_EQ(t.pop_all(), "abcdxefghyiz");
}

TEST(Lanes, WhoWaitsIsPushedOnceAndMayLeave) {
  Bench t;
  t.push("abcabc", Lane::kLight);
  t.push("ab", Lane::kHeavy);
  t.push("xyz", Lane::kHeavy);
  for (char c : {'b', 'x', 'z', 'q'}) t.lanes.remove(t.all[size_t(c - 'a')]);
  EXPECT_FALSE(t.all[1].waits());
  t.push("z", Lane::kHeavy);
  EXPECT_EQ(t.pop_all(), "acyz");
  for (const auto& one : t.all) EXPECT_FALSE(one.waits());
}

}  // namespace
}  // namespace weir::net
