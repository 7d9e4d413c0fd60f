#include "net/thread_place.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/log.h"

namespace weir::net {
namespace {

constexpr uint64_t kSliceNs = 500'000;

// As sched_setattr(2) has it; no header of the C library does, and the kernel's cannot stand beside <sched.h>.
struct Attributes {
  uint32_t size = sizeof(Attributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;
  uint32_t util_min = 0, util_max = 0;
};

}  // namespace

void pin_to_core(unsigned n) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  n %= unsigned(std::max(1, CPU_COUNT(&allowed)));
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || n-- != 0) continue;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (int error = pthread_setaffinity_np(pthread_self(), sizeof one, &one))
      base::log::warning("cannot pin a shard to its core", {{"core", core}, {"error", error}});
    return;
  }
}

void ask_for_short_slices() {
  Attributes own;
  if (syscall(SYS_sched_getattr, 0, &own, sizeof own, 0) != 0 || own.policy != SCHED_OTHER) return;
  own.runtime = kSliceNs;
  (void)syscall(SYS_sched_setattr, 0, &own, 0);  // a container that forbids it goes without
}

}  // namespace weir::net
