#include "bus/batch_ring.h"

#include <gtest/gtest.h>

#include <thread>

namespace weir::bus {
namespace {

base::Time at(uint64_t n) { return base::Time(base::Duration(int64_t(n))); }

// All of its fields follow from `n`.
BatchRecord record(uint64_t n) {
  return {0,         uint32_t(n % 7), uint32_t(n), uint32_t(n + 1), at(n),     at(n + 1), at(n + 2),
          at(n + 3), at(n + 4),       at(n + 5),   at(n + 6),       at(n + 7), at(n + 8)};
}

TEST(BatchRing, KeepsTheLastOnesInOrder) {
  BatchRing ring;
  EXPECT_TRUE(ring.latest().empty());
  for (uint64_t n = 0; n < 3; ++n) ring.add(record(n));
  auto few = ring.latest();
  ASSERT_EQ(few.size(), 3u);
  EXPECT_EQ(few[2].number, 2u);
  EXPECT_EQ(few[2].rows, 3u);
  EXPECT_EQ(few[2].instance, 2u);
  EXPECT_EQ((std::vector{few[2].queued, few[2].median, few[2].last, few[2].started, few[2].gathered, few[2].arrived,
                         few[2].computed, few[2].landed, few[2].finished}),
            (std::vector{at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9), at(10)}));
  for (uint64_t n = 3; n < 1000; ++n) ring.add(record(n));
  auto many = ring.latest();
  ASSERT_EQ(many.size(), BatchRing::kRecords);
  for (size_t i = 0; i < many.size(); ++i) EXPECT_EQ(many[i].calls, 1000 - BatchRing::kRecords + i);
}

TEST(BatchRing, ARecordIsWholeHoweverManyWriteWhileItIsRead) {
  BatchRing ring;
  std::atomic<bool> stop{false};
  auto write = [&](uint64_t from) {
    for (uint64_t n = from; !stop.load(); n += 2) ring.add(record(n));
  };
  std::thread a(write, 0), b(write, 1);
  for (int i = 0; i < 200; ++i)
    for (const auto& r : ring.latest()) {
      ASSERT_EQ(r.rows, r.calls + 1);
      ASSERT_EQ(r.instance, r.calls % 7);
      ASSERT_EQ(r.finished - r.queued, base::Duration(8));
    }
  stop = true;
  a.join(), b.join();
}

}  // namespace
}  // namespace weir::bus
