// Whether a loop waits for the core of the thread that asks, and how much of it that thread gives away.
#include "base/loop_sleep.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace weir::base {
namespace {

// One loop, whose work comes through a pipe; the test's thread keeps to the core that it has.
class LoopSleepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::sched_getaffinity(0, sizeof before_, &before_) != 0 || !keep_to(::sched_getcpu()))
      GTEST_SKIP() << "a thread cannot keep to a core here";
    kept_ = true;
    EXPECT_EQ(::pipe(pipe_.data()), 0);
    sleep_ = std::make_unique<LoopSleep>(pipe_[0]);
  }
  void TearDown() override {
    if (!kept_) return;
    sleep_.reset();
    for (int fd : pipe_) ::close(fd);
    ::sched_setaffinity(0, sizeof before_, &before_);
  }
  static bool keep_to(int core) {
    if (core < 0) return false;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return ::sched_setaffinity(0, sizeof one, &one) == 0;
  }
  // Another core that this process may use; -1: there is none.
  int other_core() const {
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &before_) && core != ::sched_getcpu()) return core;
    return -1;
  }
  void bring_work() { EXPECT_EQ(::write(pipe_[1], "x", 1), 1); }

  std::array<int, 2> pipe_{};
  std::unique_ptr<LoopSleep> sleep_;

 private:
  cpu_set_t before_{};
  bool kept_ = false;
};

double cpu_seconds() {
  timespec spent{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return double(spent.tv_sec) + 1e-9 * double(spent.tv_nsec);
}

TEST_F(LoopSleepTest, OneThatSleepsWaitsOnceItsWorkIsThere) {
  EXPECT_FALSE(loop_waits());
  sleep_->begin();
  EXPECT_FALSE(loop_waits());
  bring_work();
  EXPECT_TRUE(loop_waits());
  sleep_.reset();
  EXPECT_FALSE(loop_waits()) << "it is gone";
}

TEST_F(LoopSleepTest, OneInTheMidstOfItsTurnWaits) {
  sleep_->begin();
  sleep_->end();
  EXPECT_TRUE(loop_waits()) << "the core is this thread's";
  sleep_->leave();
  EXPECT_FALSE(loop_waits());
}

TEST_F(LoopSleepTest, WorkOfWhichTheDescriptorDoesNotTellIsToldByACall) {
  sleep_->begin();
  sleep_->call();
  EXPECT_TRUE(loop_waits());
  sleep_->begin();
  EXPECT_FALSE(loop_waits()) << "it has slept again since";
}

TEST_F(LoopSleepTest, EitherDescriptorTellsOfWork) {
  sleep_ = std::make_unique<LoopSleep>(-1, pipe_[0]);
  sleep_->begin();
  EXPECT_FALSE(loop_waits());
  bring_work();
  EXPECT_TRUE(loop_waits());
}

TEST_F(LoopSleepTest, OneWhoseTimeHasComeWaits) {
  const auto now = std::chrono::steady_clock::now();
  sleep_->begin(now + std::chrono::hours(1));
  EXPECT_FALSE(loop_waits());
  sleep_->begin(now);
  EXPECT_TRUE(loop_waits());
  sleep_->begin();
  EXPECT_FALSE(loop_waits());
}

TEST_F(LoopSleepTest, OneOfAnotherCoreDoesNotWaitForThisOne) {
  const int other = other_core();
  if (other < 0) GTEST_SKIP() << "there is one core";
  std::thread([&] {
    EXPECT_TRUE(keep_to(other));
    sleep_->begin();
  }).join();
  bring_work();
  EXPECT_FALSE(loop_waits());
}

// Since Linux 6.18 a yield costs a slice of about 3 ms, so one each 0.2 ms would leave a twentieth.
TEST_F(LoopSleepTest, BesideALoopThatNeverSleepsAThreadStillComputes) {
  constexpr double kMeasured = 0.5;  // seconds of CPU, of both: other programs may use the core, too
  std::atomic<double> loop{0}, computing{0};
  const auto done = [&] { return loop + computing >= kMeasured; };
  std::thread busy([&] {  // on the core of the thread that makes it
    for (const double begun = cpu_seconds(); !done(); loop = cpu_seconds() - begun) sleep_->end();
  });
  for (const double begun = cpu_seconds(); !done(); computing = cpu_seconds() - begun) yield_to_loops();
  busy.join();
  EXPECT_GE(computing, (loop + computing) / 4) << "the loop had " << loop;
}

TEST_F(LoopSleepTest, MoreLoopsThanThereArePlacesDoNoHarm) {
  std::vector<std::unique_ptr<LoopSleep>> many;
  for (int i = 0; i < 300; ++i) {
    many.push_back(std::make_unique<LoopSleep>(pipe_[0]));
    many.back()->begin();
  }
  EXPECT_FALSE(loop_waits());
  many.clear();
  sleep_->begin();
  bring_work();
  EXPECT_TRUE(loop_waits());
}

}  // namespace
}  // namespace weir::base
