// Turns of loads are given back where there was no memory for them.
#include <gtest/gtest.h>

#include <string>

#include "models/load_jobs.h"
#include "sched/failing_new.h"

namespace weir::models {
namespace {

TEST(LoadJobsThrow, ATurnThatCouldNotBeTakenIsNobodys) {
  const std::string of = "a device with a name that is long";
  RepositoryLock lock;
  LoadJobs jobs(lock, std::make_shared<TaskQueue>(), 1, std::chrono::seconds(1));
  int failed = 0;
  bool whole = false;
  for (int64_t allocation = 0; !whole; ++allocation) {
    ASSERT_LT(allocation, 100);
    std::shared_ptr<void> turn;
    left = allocation, counted = true;
    try {
      turn = jobs.take_turn(of);
    } catch (const std::bad_alloc&) {
      ++failed;
    }
    counted = false, left = -1;
    whole = turn != nullptr;
    turn.reset();
    EXPECT_TRUE(jobs.take_turn(of)) << "and not waited for, without end";
  }
  EXPECT_GT(failed, 1);
}

}  // namespace
}  // namespace weir::models
