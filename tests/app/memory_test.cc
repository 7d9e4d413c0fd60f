#include "app/memory.h"
#include "support/sizes.h"

#include <gtest/gtest.h>

namespace weir::app {
namespace {

TEST(Memory, TheBudgetIsAtMostAThirdOfWhatThereIs) {
  EXPECT_EQ(within_memory("limits.slab_budget", 2048 * kMiB, 128 * kMiB, 6144 * kMiB), 2048 * kMiB);
  EXPECT_EQ(within_memory("limits.slab_budget", 2048 * kMiB, 128 * kMiB, 6143 * kMiB), 6143 * kMiB / 3);
  EXPECT_EQ(within_memory("limits.slab_budget", 2048 * kMiB, 128 * kMiB, 768 * kMiB), 256 * kMiB);
  EXPECT_EQ(within_memory("limits.slab_budget", 2048 * kMiB, 128 * kMiB, UINT64_MAX), 2048 * kMiB)
      << "the system does not say";
}

TEST(Memory, TheBudgetIsNeverLessThanTwoRequestsNeed) {
  EXPECT_EQ(within_memory("limits.slab_budget", 2048 * kMiB, 128 * kMiB, 0), 128 * kMiB);
  EXPECT_EQ(within_memory("limits.slab_budget", 2048 * kMiB, 128 * kMiB, 300 * kMiB), 128 * kMiB);
  EXPECT_EQ(within_memory("limits.slab_budget", 64 * kMiB, 128 * kMiB, 300 * kMiB), 64 * kMiB)
      << "nobody is given more than he wants";
}

TEST(Memory, APinnedPoolIsToo) {
  Config config;
  config.limits.body = config.limits.message = 64 * kMiB;
  config.pinned_pool = 1024 * kMiB;
  EXPECT_EQ(pinned_within_memory(config, UINT64_MAX), 1024 * kMiB);
  EXPECT_EQ(pinned_within_memory(config, 3072 * kMiB), 1024 * kMiB);
  EXPECT_EQ(pinned_within_memory(config, 2048 * kMiB), 2048 * kMiB / 3);
  EXPECT_EQ(pinned_within_memory(config, 0), 128 * kMiB) << "two requests";
}

}  // namespace
}  // namespace weir::app
