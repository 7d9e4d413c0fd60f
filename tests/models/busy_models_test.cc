#include "models/busy_models.h"

#include <gtest/gtest.h>

namespace weir::models {
namespace {

TEST(BusyModels, NobodyWaitsForItself) {
  BusyModels busy;
  EXPECT_FALSE(busy.begin_wait("a", "a"));
  EXPECT_TRUE(busy.begin_wait("a", "b"));
  EXPECT_TRUE(busy.begin_wait("b", "c"));
  EXPECT_FALSE(busy.begin_wait("c", "a"));
  EXPECT_TRUE(busy.begin_wait("d", "a"));
  busy.end_wait("b", "c");
  EXPECT_TRUE(busy.begin_wait("c", "a"));
}

TEST(BusyModels, AWaitThatIsBegunTwiceEndsTwice) {
  BusyModels busy;
  EXPECT_TRUE(busy.begin_wait("a", "b"));
  EXPECT_TRUE(busy.begin_wait("a", "b"));
  busy.end_wait("a", "b");
  EXPECT_FALSE(busy.begin_wait("b", "a"));
  busy.end_wait("a", "b");
  EXPECT_TRUE(busy.begin_wait("b", "a"));
}

TEST(BusyModels, OneThreadLoadsAModel) {
  BusyModels busy;
  EXPECT_TRUE(busy.add("a"));
  EXPECT_FALSE(busy.add("a"));
  EXPECT_TRUE(busy.contains("a"));
  busy.remove("a");
  EXPECT_TRUE(busy.add("a"));
}

}  // namespace
}  // namespace weir::models
