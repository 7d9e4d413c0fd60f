#include "jobs/missing_models.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::jobs {
namespace {

using std::chrono::seconds;

TEST(MissingModels, AModelMayComeForAWhile) {
  MissingModels models;
  const base::Time begin{seconds(1000)};
  for (int s = 0; s < 60; s += 2) EXPECT_TRUE(models.may_come("m", begin + seconds(s))) << s;
  for (int s = 60; s < 300; s += 20) EXPECT_FALSE(models.may_come("m", begin + seconds(s))) << s;
  EXPECT_TRUE(models.may_come("another", begin + seconds(300)));
  models.found("m");
  EXPECT_TRUE(models.may_come("m", begin + seconds(301)));
}

TEST(MissingModels, OneThatNobodyHasAskedForSinceIsMissedAnew) {
  MissingModels models;
  const base::Time begin{seconds(1000)};
  EXPECT_TRUE(models.may_come("m", begin));
  EXPECT_FALSE(models.may_come("m", begin + seconds(59)) && models.may_come("m", begin + seconds(61)));
  EXPECT_TRUE(models.may_come("m", begin + seconds(300)));
}

TEST(MissingModels, NamesWithoutNumberAreBounded) {
  MissingModels models;
  const base::Time begin{seconds(1000)};
  size_t waiting = 0;
  for (int i = 0; i < 10'000; ++i) waiting += models.may_come(std::to_string(i), begin);
  EXPECT_EQ(MissingModels::kMost, waiting);
  EXPECT_TRUE(models.may_come("0", begin + seconds(1)));
  EXPECT_FALSE(models.may_come("new", begin + seconds(1)));
  EXPECT_TRUE(models.may_come("new", begin + seconds(100)));
}

}  // namespace
}  // namespace weir::jobs
