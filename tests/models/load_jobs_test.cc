// Which jobs have a thread and a place.
#include "models/load_jobs.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace weir::models {
namespace {

using namespace std::chrono_literals;

class LoadJobsTest : public testing::Test {
 protected:
  // A load that does not end before let_go().
  void load(const std::string& model) {
    held.insert(model);
    jobs.add(model, LoadJobs::Needs::kPlace, [this, model] {
      while (held.contains(model)) lock.wait();
    });
  }
  void let_go(const std::string& model) {
    held.erase(model);
    lock.notify_all();
    while (jobs.is_busy(model)) lock.wait();
    jobs.start_ready();
  }
  std::set<std::string> busy() const {
    std::set<std::string> out;
    for (const char* model : {"a", "b", "c"})
      if (jobs.is_busy(model)) out.insert(model);
    return out;
  }
  using Models = std::set<std::string>;

  RepositoryLock lock;
  LoadJobs jobs{lock, std::make_shared<TaskQueue>(), 1, 20ms};
  std::set<std::string> held;
};

TEST_F(LoadJobsTest, ALoadThatTakesLongGivesItsPlaceToTheNext) {
  std::lock_guard all(lock);
  load("a"), load("b"), load("c");
  jobs.start_ready();
  EXPECT_EQ(busy(), Models{"a"});
  std::this_thread::sleep_until(jobs.next_look());
  jobs.start_ready();
  EXPECT_EQ(busy(), (Models{"a", "b"}));
  let_go("b");
  EXPECT_EQ(busy(), (Models{"a", "c"})) << "the place is that of the next";
  let_go("a");
  load("a");
  EXPECT_NE(jobs.next_look(), LoadJobs::Clock::time_point::max())
      << "the first has ended, and had no place to give back";
  let_go("c"), let_go("a");
  EXPECT_TRUE(jobs.idle());
}

// Loads beside each other make each other slower, and each has its model in memory.
TEST_F(LoadJobsTest, NoMorePlacesAreGivenAwayThanThereAre) {
  std::lock_guard all(lock);
  load("a"), load("b"), load("c");
  jobs.start_ready();
  std::this_thread::sleep_until(jobs.next_look());
  jobs.start_ready();
  EXPECT_EQ(jobs.next_look(), LoadJobs::Clock::time_point::max()) << "nothing can begin before one has ended";
  std::this_thread::sleep_for(20ms);
  jobs.start_ready();
  EXPECT_EQ(busy(), (Models{"a", "b"}));
  let_go("a");
  EXPECT_EQ(busy(), (Models{"b", "c"})) << "it is the other that takes long now";
  let_go("b"), let_go("c");
  EXPECT_TRUE(jobs.idle());
}

TEST_F(LoadJobsTest, NobodyLooksWhereNothingWaitsForAPlace) {
  std::lock_guard all(lock);
  EXPECT_EQ(jobs.next_look(), LoadJobs::Clock::time_point::max());
  load("a");
  jobs.start_ready();
  EXPECT_EQ(jobs.next_look(), LoadJobs::Clock::time_point::max());
  std::this_thread::sleep_for(20ms);
  load("b");
  EXPECT_LE(jobs.next_look(), LoadJobs::Clock::now());
  jobs.start_ready();
  EXPECT_EQ(busy(), (Models{"a", "b"})) << "it begins at once, as the first has had its time";
  EXPECT_EQ(jobs.next_look(), LoadJobs::Clock::time_point::max());
  let_go("a"), let_go("b");
  EXPECT_TRUE(jobs.idle());
}

}  // namespace
}  // namespace weir::models
