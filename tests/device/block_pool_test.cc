// A SlabPool on one pinned block.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "device/fake_device.h"
#include "device/host_device.h"
#include "device/pool.h"
#include "device/size_class.h"
#include "support/sizes.h"

namespace weir::device {
namespace {

std::unique_ptr<SlabMemory> block(Device& device, size_t bytes) { return block_memory(*device.pin(bytes)); }

TEST(BlockPool, EverySlabLiesInThePinnedBlock) {
  FakeDevice device(FakeDevice::Drive::kStepped);
  {
    SlabPool pool(16 * kMiB, block(device, 16 * kMiB));
    for (size_t n : {size_t(1), size_t(1000), kMiB, 2 * kMiB, 6 * kMiB}) {
      auto* slab = pool.take(n);
      ASSERT_NE(slab, nullptr) << n;
      EXPECT_TRUE(device.pinned(slab->data, slab->capacity)) << n;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(slab->data) % (slab->capacity >= 2 * kMiB ? 2 * kMiB : 64), 0u);
      std::memset(slab->data, 1, slab->capacity);
      base::drop(slab);
    }
  }
  char elsewhere = 0;
  EXPECT_FALSE(device.pinned(&elsewhere, 1));
}

TEST(BlockPool, AFullBlockGivesNothingUntilASlabIsBackAndThenSaysSo) {
  HostDevice device;
  SlabPool pool(64 * kMiB, block(device, 4 * kMiB));  // the budget is larger than the block
  int woken = 0;
  pool.on_room([&] { ++woken; });
  auto* first = pool.take(2 * kMiB);
  auto* second = pool.take(2 * kMiB);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(pool.take(64), nullptr);
  EXPECT_EQ(pool.used(), 4 * kMiB);
  base::drop(first);
  EXPECT_EQ(woken, 1);
  auto* again = pool.take(2 * kMiB);
  EXPECT_NE(again, nullptr);
  base::drop(again);
  base::drop(second);
}

TEST(BlockPool, IdleSlabsOfOneSizeMakeRoomForAnother) {
  HostDevice device;
  SlabPool pool(8 * kMiB, block(device, 8 * kMiB));
  std::vector<base::Slab*> small;
  while (auto* slab = pool.take(64 * 1024)) small.push_back(slab);
  EXPECT_GT(small.size(), 100u);
  for (auto* slab : small) base::drop(slab);
  EXPECT_GT(pool.idle(), 0u);
  auto* large = pool.take(8 * kMiB);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(pool.idle(), 0u);
  base::drop(large);
}

TEST(BlockPool, ASlabMayOutliveItsPool) {
  HostDevice device;
  base::Bytes kept;
  {
    SlabPool pool(4 * kMiB, block(device, 4 * kMiB));
    base::Block writer(pool.take(100));
    writer.append("still here", 10);
    kept = writer.freeze();
  }
  EXPECT_EQ(kept.view(), "still here");
}

TEST(BlockPool, ThreadsTakeAndDropAcrossEachOther) {
  HostDevice device;
  SlabPool pool(8 * kMiB, block(device, 8 * kMiB));
  std::atomic<base::Slab*> slot{nullptr};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 3000; ++i) {
        auto* slab = pool.take(1 + random() % (i % 50 == 0 ? 3 * kMiB : 30000));
        if (slab) std::memset(slab->data, int(t), std::min<size_t>(slab->capacity, 100));
        if (auto* old = slot.exchange(slab)) base::drop(old);
      }
    });
  for (auto& t : threads) t.join();
  if (auto* old = slot.exchange(nullptr)) base::drop(old);
  EXPECT_EQ(pool.used(), 0u);
}

}  // namespace
}  // namespace weir::device
