#include "base/loop_sleep.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <mutex>

namespace weir::base {
namespace {

constexpr size_t kMostLoops = 256;                        // of the process; others wait for the tick
constexpr size_t kMostHere = 16;                          // on one core
constexpr uint64_t kLongestPause = 1000 * loops::kTicks;  // 0.1 to 0.25 s

struct Loops {
  std::mutex mutex;
  std::atomic<size_t> used{0};  // of the slots, from the front
  std::array<LoopSleep::Slot, kMostLoops> slots;
  LoopSleep::Slot spare;  // which nobody looks at
};

Loops& all_loops() {
  static auto& loops = *new Loops;  // outlives every thread
  return loops;
}

}  // namespace

LoopSleep::LoopSleep(int ready, int also) {
  Loops& loops = all_loops();
  std::lock_guard lock(loops.mutex);
  auto free = std::find_if(loops.slots.begin(), loops.slots.end(), [](const Slot& slot) { return !slot.taken; });
  if (free == loops.slots.end()) {
    slot_ = &loops.spare;
    return;
  }
  slot_ = &*free;
  slot_->taken = true;
  slot_->ready.store(ready, std::memory_order_relaxed);
  slot_->also.store(also, std::memory_order_relaxed);
  const auto used = size_t(free - loops.slots.begin()) + 1;
  if (loops.used.load(std::memory_order_relaxed) < used) loops.used.store(used, std::memory_order_release);
}

LoopSleep::~LoopSleep() {
  Loops& loops = all_loops();
  std::lock_guard lock(loops.mutex);
  leave();
  slot_->taken = false;
}

// A call before the stores is not lost: its work was there before it, and the loop looks for work before it sleeps.
void LoopSleep::begin(Time until) {
  slot_->called.store(false, std::memory_order_relaxed);
  slot_->until.store(until, std::memory_order_relaxed);
  slot_->asleep.store(true, std::memory_order_relaxed);
  slot_->core.store(::sched_getcpu(), std::memory_order_relaxed);
}

void LoopSleep::end() {
  slot_->asleep.store(false, std::memory_order_relaxed);
  slot_->core.store(::sched_getcpu(), std::memory_order_relaxed);
}

bool loop_waits() {
  Loops& loops = all_loops();
  const size_t used = loops.used.load(std::memory_order_acquire);
  const int here = ::sched_getcpu();
  if (here < 0) return false;  // not told, and not kNowhere
  std::array<pollfd, 2 * kMostHere> asked;
  size_t n = 0;
  for (size_t i = 0; i < used; ++i) {
    LoopSleep::Slot& slot = loops.slots[i];
    if (slot.core.load(std::memory_order_relaxed) != here) continue;
    if (!slot.asleep.load(std::memory_order_relaxed) || slot.called.load(std::memory_order_relaxed)) return true;
    const auto until = slot.until.load(std::memory_order_relaxed);
    if (until != LoopSleep::Time::max() && until <= std::chrono::steady_clock::now()) return true;
    for (const auto* fd : {&slot.ready, &slot.also})  // poll(2) passes over -1
      if (n < asked.size()) asked[n++] = {fd->load(std::memory_order_relaxed), POLLIN, 0};
  }
  if (n == 0 || ::poll(asked.data(), n, 0) <= 0) return false;
  return std::any_of(asked.begin(), asked.begin() + n, [](const pollfd& one) { return one.revents & POLLIN; });
}

// The pause is real time, of which the kernel gives others about a half where they want the core, too: hence twice what
// the yield took. It has a limit, for the process may have been stopped meanwhile.
void loops::yield_if_one_waits() {
  const bool waits = loop_waits();
  asked_at = ticks(), pause = kTicks;
  if (!waits) return;
  ::sched_yield();
  const uint64_t back = ticks();
  pause = std::clamp(2 * (back - asked_at), kTicks, kLongestPause);
  asked_at = back;
}

}  // namespace weir::base
