// A thread that computes gives its core to the thread of a loop that was woken there and waits.
//
// Where both have one core, the kernel lets the woken one run at once only if it has had less of the core than the one
// that computes. If it has worked a moment before, it waits for the scheduler's next tick, as a rule: 4 ms at 250 Hz.
// To yield each time costs the thread that computes its share, where programs beside this one want the core, too; so
// it does that only for a loop that waits. A loop that always has work waits each time: since Linux 6.18 a yield costs
// a slice of some 3 ms, and a thread that yields each 0.2 ms is left a twentieth of the core. So what a yield has taken
// is what it computes at least before it asks again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace weir::base {

// The sleep of one loop's thread, as other threads see it. Made and destroyed on any thread.
class LoopSleep {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `ready`, `also`: poll(2) says that one is readable as soon as there is work of most kinds for the loop. They
  // outlive this; -1: there is none. For work of which neither they nor call() tell, nor the time, nobody yields.
  explicit LoopSleep(int ready, int also = -1);
  ~LoopSleep();
  LoopSleep(const LoopSleep&) = delete;

  // By the loop's thread: it is going to sleep, `until` then at most; it runs; it does not run any more.
  void begin(Time until = Time::max());
  void end();
  void leave() { slot_->core.store(kNowhere, std::memory_order_relaxed); }
  // Any thread: there is work that the descriptors do not tell of.
  void call() { slot_->called.store(true, std::memory_order_relaxed); }

  static constexpr int kNowhere = -1;
  struct alignas(64) Slot {
    std::atomic<int> core{kNowhere};  // that it had last
    std::atomic<int> ready{-1}, also{-1};
    std::atomic<Time> until{Time::max()};
    std::atomic<bool> asleep{false}, called{false};
    bool taken = false;
  };

 private:
  Slot* slot_;
};

// Whether a loop waits for the core that the calling thread has: it has begun its turn there, or it sleeps there, as
// far as it knows, and there is work for it. A system call, if one sleeps there. False where the core is not known.
bool loop_waits();

namespace loops {
#ifdef __x86_64__
constexpr uint64_t kTicks = 500'000;  // 0.1 to 0.25 ms, at clocks of 2 to 5 GHz
inline uint64_t ticks() { return __builtin_ia32_rdtsc(); }
#else
constexpr uint64_t kTicks = 200'000;
inline uint64_t ticks() {
  return uint64_t(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}
#endif
inline thread_local uint64_t asked_at = 0, pause = 0;
void yield_if_one_waits();  // sets both
}  // namespace loops

// To be called between pieces of work, as often as one likes: it asks for a loop that waits every 0.1 to 0.25 ms, and
// after a yield not before the thread has had the core about as long as the yield took.
inline void yield_to_loops() {
  if (loops::ticks() - loops::asked_at >= loops::pause) loops::yield_if_one_waits();
}

}  // namespace weir::base
