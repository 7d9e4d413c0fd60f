// HTTP/2: the table of open streams, also under a client that chooses ids to make it slow.
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "support/heap_in_use.h"
#include "wire/h2_stream_ids.h"

namespace weir::test {
namespace {

using Ids = wire::H2StreamIds<const int*>;
constexpr size_t kFew = 2 * Ids::kMostSteps;
const int kSome[2] = {};

TEST(H2StreamIds, IdsOneAfterTheOtherHavePlacesOfTheirOwn) {
  Ids ids;
  for (int32_t id = 1; id < 20'000; id += 2) ids.put(id, kSome);
  EXPECT_EQ(ids.most_steps(), 1u);
  for (int32_t id = 1; id < 20'000; id += 2) EXPECT_EQ(ids.take_out(id), kSome);
  EXPECT_TRUE(ids.empty());
}

TEST(H2StreamIds, IdsThatShareAPlaceAreFoundInAFewSteps) {
  for (int32_t stride : {1 << 14, 1 << 16, (1 << 16) + 2}) {
    Ids ids;
    std::vector<int32_t> open;
    for (int32_t id = 1; open.size() < 20'000 && id < INT32_MAX - 2 * stride; id += stride) open.push_back(id);
    for (int32_t id : open) {
      ids.put(id, kSome);
      ASSERT_LE(ids.most_steps(), kFew) << stride << ": " << ids.size() << " are open";
    }
    for (int32_t id : open) ASSERT_EQ(*ids.find(id), kSome);
  }
}

// One that is astray made every search, and every end of a stream, look at all that are open in a row.
TEST(H2StreamIds, ALongRowIsNotLookedAtForOneThatIsAstray) {
  Ids ids;
  for (int32_t id = 1; id < 20'000; id += 2) ids.put(id, kSome);
  ids.put((1 << 20) + 19'997, kSome);
  EXPECT_LE(ids.most_steps(), kFew);
  EXPECT_EQ(ids.find((1 << 20) + 1), nullptr);
  ids.take_out((1 << 20) + 19'997);
  EXPECT_EQ(ids.most_steps(), 1u);
}

TEST(H2StreamIds, AnEmptyTableGivesItsMemoryBack) {
  Ids ids;
  for (int32_t id = 1; id < 20'000; id += 2) ids.put(id, kSome);
  for (int32_t id = 1; id < 20'000; id += 2) ids.take_out(id);
  const size_t before = support::heap_in_use();
  if (before == 0) GTEST_SKIP() << "a sanitizer's malloc";
  ids.shrink();
  EXPECT_LT(support::heap_in_use() + 100'000, before);
  ids.put(1, kSome);
  EXPECT_EQ(*ids.find(1), kSome);
}

TEST(H2StreamIds, AnyOrderOfBeginningsAndEndsIsThatOfAMap) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    Ids ids;
    std::map<int32_t, const int*> model;
    const int32_t stride = seed % 3 == 0 ? 256 : 2;
    int32_t next = 1;
    for (int step = 0; step < 4000; ++step) {
      const bool more = random() % (model.size() + 1) < 150;
      if (more) {
        next += random() % 8 ? 2 : stride * int32_t(1 + random() % 40);
        const int* stream = kSome + random() % 2;
        ids.put(next, stream), model[next] = stream;
      } else {
        auto gone = std::next(model.begin(), std::ptrdiff_t(random() % model.size()));
        ASSERT_EQ(ids.take_out(gone->first), gone->second) << seed;
        model.erase(gone);
      }
      ASSERT_EQ(ids.size(), model.size());
      const int32_t any = next - int32_t(random() % 600);
      const auto known = model.find(any);
      const int* const* found = ids.find(any);
      ASSERT_EQ(found ? *found : nullptr, known == model.end() ? nullptr : known->second) << seed;
    }
    size_t all = 0;
    ids.each([&](int32_t id, const int* stream) { all += model.at(id) == stream; });
    ASSERT_EQ(all, model.size());
  }
}

}  // namespace
}  // namespace weir::test
