#include "net/weighted_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::net {
namespace {

struct One : WeightedQueue<One>::Link {
  explicit One(char c) : name(c) {}
  char name;
};

struct Bench {
  Bench() {
    for (char c = 'a'; c <= 'z'; ++c) all.emplace_back(c);
  }
  void push(const std::string& names, LoadClass load_class) {
    for (char c : names) queue.push(all[size_t(c - 'a')], load_class);
  }
  std::string pop_all() {
    std::string out;
    while (One* one = queue.pop()) out += one->name;
    return out;
  }
  std::vector<One> all;
  WeightedQueue<One> queue;
};

TEST(WeightedQueue, EachLineKeepsItsOrder) {
  Bench t;
  EXPECT_TRUE(t.queue.empty());
  t.push("cab", LoadClass::kLight);
  EXPECT_EQ(t.pop_all(), "cab");
  t.push("xyz", LoadClass::kHeavy);
  EXPECT_FALSE(t.queue.empty());
  EXPECT_EQ(t.pop_all(), "xyz");
  EXPECT_TRUE(t.queue.empty());
}

TEST(WeightedQueue, OfTheHeavyOneGoesBehindFourLightOnes) {
  Bench t;
  t.push("xyz", LoadClass::kHeavy);
  t.push("abcdefghi", LoadClass::kLight);
  EXPECT_EQ(t.pop_all(), "abcdxefghyiz");
}

TEST(WeightedQueue, WhoWaitsIsPushedOnceAndMayLeave) {
  Bench t;
  t.push("abcabc", LoadClass::kLight);
  t.push("ab", LoadClass::kHeavy);
  t.push("xyz", LoadClass::kHeavy);
  for (char c : {'b', 'x', 'z', 'q'}) t.queue.remove(t.all[size_t(c - 'a')]);
  EXPECT_FALSE(t.all[1].waits());
  t.push("z", LoadClass::kHeavy);
  EXPECT_EQ(t.pop_all(), "acyz");
  for (const auto& one : t.all) EXPECT_FALSE(one.waits());
}

}  // namespace
}  // namespace weir::net
