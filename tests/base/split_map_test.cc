#include "base/split_map.h"

#include <gtest/gtest.h>

#include <memory>

namespace weir::base {
namespace {

// The worst that a hash can do: all in one part.
struct SameHash {
  size_t operator()(uint64_t) const { return 7; }
};

template <class Map>
void fill_and_take(Map& map, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) EXPECT_TRUE(map.emplace(i, std::make_unique<uint64_t>(i)));
  EXPECT_EQ(map.size(), count);
  const auto* at = map.find(3);
  EXPECT_FALSE(map.emplace(3, std::make_unique<uint64_t>(99)));
  EXPECT_EQ(map.find(3), at) << "the one that is there stays";
  EXPECT_EQ(**at, 3u);
  EXPECT_EQ(map.find(count), nullptr);
  uint64_t sum = 0;
  map.for_each([&](const auto& value) { sum += *value; });
  EXPECT_EQ(sum, count * (count - 1) / 2);
  for (uint64_t i = 0; i < count; i += 2) EXPECT_EQ(*map.take(i), i);
  EXPECT_EQ(map.size(), count / 2);
  EXPECT_EQ(map.find(2), nullptr);
  EXPECT_EQ(**map.find(count - 1), count - 1);
}

TEST(SplitMap, HasWhatWasPutInAndNotTakenOut) {
  SplitMap<uint64_t, std::unique_ptr<uint64_t>, std::hash<uint64_t>> map{{}};
  fill_and_take(map, 10'000);
  SplitMap<uint64_t, std::unique_ptr<uint64_t>, SameHash> one_part{{}};
  fill_and_take(one_part, 200);
}

// Whoever draws a key for its hash draws one for all parts.
TEST(SplitMap, EveryPartHashesAsItWasTold) {
  struct Salted {
    uint64_t salt = 0;
    size_t operator()(uint64_t key) const { return std::hash<uint64_t>()(key ^ salt); }
  };
  SplitMap<uint64_t, int, Salted> map(Salted{0x5bd1e995});
  for (uint64_t i = 0; i < 1000; ++i) map.emplace(i, int(i));
  for (uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(map.take(i), int(i));
  EXPECT_EQ(map.size(), 0u);
}

}  // namespace
}  // namespace weir::base
