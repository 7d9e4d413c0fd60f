#include "jobs/missing_models.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::jobs {
namespace {

using std::chrono::seconds;

TEST(MissingModels, AModelMayComeForAWhile) {
  MissingModels models;
  const base::Time begin{seconds(1000)};
  for (int s = 0; s < 60; s += 2) EXPECT_TRUE(models.may_come("m", "job", begin + seconds(s))) << s;
  for (int s = 60; s < 300; s += 20) EXPECT_FALSE(models.may_come("m", "job", begin + seconds(s))) << s;
  EXPECT_TRUE(models.may_come("another", "job", begin + seconds(300)));
  models.found("m");
  EXPECT_TRUE(models.may_come("m", "job", begin + seconds(301)));
}

TEST(MissingModels, OneThatNobodyHasAskedForSinceIsMissedAnew) {
  MissingModels models;
  const base::Time begin{seconds(1000)};
  EXPECT_TRUE(models.may_come("m", "job", begin));
  EXPECT_FALSE(models.may_come("m", "job", begin + seconds(59)) && models.may_come("m", "job", begin + seconds(61)));
  EXPECT_TRUE(models.may_come("m", "job", begin + seconds(300)));
}

// With 100 nodes that try it each 2 s in turn it comes to each of them every 200 s.
TEST(MissingModels, AJobThatComesSeldomerThanAMinuteEndsAllTheSame) {
  MissingModels models;
  const base::Time begin{seconds(1000)};
  EXPECT_TRUE(models.may_come("m", "job", begin));
  EXPECT_TRUE(models.may_come("m", "another", begin + seconds(190))) << "that one has not waited yet";
  EXPECT_FALSE(models.may_come("m", "job", begin + seconds(200)));
  EXPECT_TRUE(models.may_come("m", "another", begin + seconds(201)));
  models.found("m");
  EXPECT_TRUE(models.may_come("m", "another", begin + seconds(300))) << "the model was there meanwhile";
}

TEST(MissingModels, OfManyJobsTheModelsTimeIsEnough) {
  MissingModels models;
  const base::Time begin{seconds(1000)};
  for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(models.may_come("m", "job" + std::to_string(i), begin));
  EXPECT_TRUE(models.may_come("m", "job9999", begin + seconds(59)));
  EXPECT_FALSE(models.may_come("m", "job9999", begin + seconds(60)));
}

TEST(MissingModels, OfJobsThatMayHaveEndedElsewhereTheOldestGivesWay) {
  MissingModels models;
  const base::Time begin{seconds(1000)}, later = begin + seconds(300);
  for (size_t i = 0; i < MissingModels::kMostJobs; ++i) (void)models.may_come("m", "gone" + std::to_string(i), begin);
  EXPECT_TRUE(models.may_come("m", "job", later));
  EXPECT_FALSE(models.may_come("m", "job", later + seconds(200)));
}

TEST(MissingModels, NamesWithoutNumberAreBounded) {
  MissingModels models;
  const base::Time begin{seconds(1000)};
  size_t waiting = 0;
  for (int i = 0; i < 10'000; ++i) waiting += models.may_come(std::to_string(i), "job", begin);
  EXPECT_EQ(MissingModels::kMost, waiting);
  EXPECT_TRUE(models.may_come("0", "job", begin + seconds(1)));
  EXPECT_FALSE(models.may_come("new", "job", begin + seconds(1)));
  EXPECT_TRUE(models.may_come("new", "job", begin + seconds(100)));
}

}  // namespace
}  // namespace weir::jobs
