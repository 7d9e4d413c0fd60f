#include "net/thread_place.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

namespace weir::net {
namespace {

struct Attributes {
  uint32_t size = sizeof(Attributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;
};

Attributes own() {
  Attributes out;
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, &out, sizeof out, 0), 0);
  return out;
}

TEST(ThreadPlace, ShortSlicesChangeNothingElse) {
  std::thread([] {
    setpriority(PRIO_PROCESS, 0, 3);
    const Attributes before = own();
    ask_for_short_slices();
    const Attributes after = own();
    EXPECT_EQ(after.policy, before.policy);
    EXPECT_EQ(after.nice, before.nice);
    EXPECT_EQ(after.flags, before.flags);
    if (before.runtime != 0) {
      EXPECT_EQ(after.runtime, 500'000u) << "a kernel that has slices of one's own";
    }
  }).join();
}

TEST(ThreadPlace, AThreadIsKeptOnOneOfItsCores) {
  std::thread([] {
    pin_to_core(1'000'003);  // counted round
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    EXPECT_EQ(CPU_COUNT(&set), 1);
  }).join();
}

}  // namespace
}  // namespace weir::net
