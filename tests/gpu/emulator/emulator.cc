#include "emulator.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "async.h"
#include "cuda_runtime.h"
#include "fiber_switch.h"
#include "support/sanitizers.h"
#include "written.h"

#if defined(WEIR_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulator {
namespace {

constexpr int32_t kBadShape = 1, kBadConfiguration = 9, kLaunchFailure = 719;
constexpr size_t kStack = 256 << 10;
constexpr uint32_t kMostThreads = 1024;

struct Fiber {
  enum class State : uint8_t { kReady, kMeeting, kAtBarrier, kWaiting, kEnded } state = State::kReady;
  void* sp = nullptr;
  void* fake_stack = nullptr;  // AddressSanitizer's
  dim3 thread;
  Where where{};
  uint64_t meetings = 0;
  bool has_waited = false;
  bool given_up = false;  // a wait that nobody can end
};

struct Warp {
  uint32_t arrived = 0;
  Where where{};
  Slot slots[2][kLanes];
};

class Machine {
 public:
  int32_t launch(const Shape& shape, const std::function<void()>& thread);
  void yield();
  void release_warp(uint32_t warp);
  enum class Wake : uint8_t { kToLook, kToGiveUp };
  bool wake(Wake how);
  [[noreturn]] void give_up();
  void run_thread();

  Fiber& self() { return fibers_[current_]; }
  uint32_t current() const { return current_; }
  Warp& warp() { return warps_[current_ / kLanes]; }
  uint32_t threads() const { return threads_; }

  dim3 thread_index, block_index, block_size, grid_size;
  std::byte* shared = nullptr;
  size_t shared_bytes = 0;
  std::string failure;
  bool running = false, early = false, hides = false, paused = false;

 private:
  void run_block();
  uint32_t count(Fiber::State state) const {
    return uint32_t(std::ranges::count(std::span(fibers_).first(threads_), state, &Fiber::state));
  }
  bool is_watched_block() const;
  bool run_to_inputs();
  bool run_warp(uint32_t warp);
  bool resume(uint32_t fiber);
  void prepare(uint32_t fiber);
  void end_barrier();
  void check_ended();
  std::byte* stack(uint32_t fiber) { return stacks_ + fiber * (kStack + kPage) + kPage; }

  const std::function<void()>* thread_ = nullptr;
  uint32_t threads_ = 0, current_ = 0;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  std::byte* stacks_ = nullptr;
  void* scheduler_ = nullptr;                          // its stack pointer
  [[maybe_unused]] const void* home_stack_ = nullptr;  // AddressSanitizer's: of the thread that launches
  [[maybe_unused]] size_t home_size_ = 0;
  std::mt19937 random_;
};

Machine machine;
std::mutex launching;

std::string at(Where where) { return std::string(where.file) + ":" + std::to_string(where.line); }

void fiber_main() { machine.run_thread(); }

void on_signal(int signal, siginfo_t* info, void*) {
  const Touch touch = on_fault(info->si_addr);
  if (touch == Touch::kGoesOn) return;
  const char* why = touch == Touch::kHidden ? "before it has waited for its inputs" : "which is beyond a buffer";
  char text[256];
  int n =
      machine.running
          ? std::snprintf(text, sizeof text, "emulator: block (%u, %u, %u) thread (%u, %u, %u) touches %p, %s\n",
                          machine.block_index.x, machine.block_index.y, machine.block_index.z, machine.thread_index.x,
                          machine.thread_index.y, machine.thread_index.z, info->si_addr, why)
          : 0;
  if (n > 0) (void)!::write(2, text, size_t(n));
  ::signal(signal, SIG_DFL);
}

// Where AddressSanitizer is, it has a better report.
void watch_faults() {
#if !defined(WEIR_ASAN)
  static std::byte* stack = map_pages(64 << 10);
  stack_t other{stack, 0, 64 << 10};
  ::sigaltstack(&other, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGSEGV, &action, nullptr);
#else
  (void)on_signal;
#endif
}

int32_t Machine::launch(const Shape& shape, const std::function<void()>& thread) {
  failure.clear();
  thread_ = &thread;
  threads_ = shape.block.x * shape.block.y * shape.block.z;
  block_size = shape.block, grid_size = shape.grid, early = shape.early;
  if (!stacks_) {
    watch_faults();
    stacks_ = map_pages(kMostThreads * (kStack + kPage));
    for (uint32_t i = 0; i < kMostThreads; ++i) ::mprotect(stacks_ + i * (kStack + kPage), kPage, PROT_NONE);
    random_.seed(std::random_device{}());
  }
  fibers_.resize(kMostThreads);
  warps_.resize(kMostThreads / kLanes);
  running = true;
  begin_watch();
  shared_bytes = shape.shared, shared = shape.shared ? guarded(shape.shared) : nullptr;
  for (uint32_t z = 0; z < shape.grid.z && failure.empty(); ++z)
    for (uint32_t y = 0; y < shape.grid.y && failure.empty(); ++y)
      for (uint32_t x = 0; x < shape.grid.x && failure.empty(); ++x) {
        block_index = dim3(x, y, z);
        if (shared) std::memset(shared, 0xff, shape.shared);
        run_block();
      }
  if (shared) drop_guarded(shared);
  end_watch();
  running = false;
  if (shape.shared > kSharedAtMost && failure.empty() && !is_for_hopper())
    failure = "more shared memory than every device has";
  return failure.empty() ? 0 : kLaunchFailure;
}

void Machine::prepare(uint32_t i) {
  Fiber& fiber = fibers_[i];
  fiber.state = Fiber::State::kReady;
  fiber.fake_stack = nullptr;
  fiber.meetings = 0, fiber.has_waited = fiber.given_up = false;
  fiber.thread = dim3(i % block_size.x, i / block_size.x % block_size.y, i / (block_size.x * block_size.y));
#if defined(WEIR_ASAN)
  __asan_unpoison_memory_region(stack(i), kStack);
#endif
  // As if fiber_main had been called with nobody to return to: six registers, the address, and a return address.
  auto* top = reinterpret_cast<void**>(stack(i) + kStack);
  std::fill(top - 8, top, nullptr);
  top[-2] = reinterpret_cast<void*>(&fiber_main);
  fiber.sp = top - 8;
}

void Machine::run_block() {
  for (uint32_t i = 0; i < threads_; ++i) prepare(i);
  begin_async(threads_, shared, shared_bytes);
  uint32_t warps = (threads_ + kLanes - 1) / kLanes;
  for (auto& warp : warps_) warp.arrived = 0;
  if (early && is_watched_block() && !run_to_inputs()) return;
  std::vector<uint32_t> order(warps);
  std::iota(order.begin(), order.end(), 0u);
  for (;;) {
    std::shuffle(order.begin(), order.end(), random_);
    for (uint32_t warp : order)
      while (run_warp(warp))
        if (!failure.empty()) return;
    if (count(Fiber::State::kEnded) == threads_) return check_ended();
    if (count(Fiber::State::kReady) > 0) continue;
    if (wake(std::exchange(paused, false) ? Wake::kToLook : Wake::kToGiveUp)) continue;
    end_barrier();
    if (!failure.empty()) return;
  }
}

// Those at either end of a grid are enough: each costs system calls.
bool Machine::is_watched_block() const {
  auto same = [](const dim3& a, const dim3& b) { return a.x == b.x && a.y == b.y && a.z == b.z; };
  return same(block_index, dim3(0, 0, 0)) || same(block_index, dim3(grid_size.x - 1, grid_size.y - 1, grid_size.z - 1));
}

// All threads, until they wait for their inputs: the kernel before may still write these. False: the launch has failed.
bool Machine::run_to_inputs() {
  hide_written();
  hides = true;
  for (uint32_t i = 0; i < threads_ && failure.empty(); ++i) {
    resume(i);
    if (fibers_[i].state == Fiber::State::kMeeting || fibers_[i].state == Fiber::State::kAtBarrier)
      failure = "thread " + std::to_string(i) + " waits for others before its inputs: not known here";
  }
  hides = false;
  show_written();
  if (!failure.empty()) std::fprintf(stderr, "emulator: %s\n", failure.c_str());
  return failure.empty();
}

// Every ready lane goes on until it waits; false when there was none.
bool Machine::run_warp(uint32_t warp) {
  uint32_t from = warp * kLanes, to = std::min(from + kLanes, threads_), begin = uint32_t(random_()) % kLanes;
  bool any = false;
  for (uint32_t i = 0; i < kLanes && failure.empty(); ++i) {
    uint32_t fiber = from + (begin + i) % kLanes;
    if (fiber < to && fibers_[fiber].state == Fiber::State::kReady) any |= resume(fiber);
  }
  return any;
}

bool Machine::resume(uint32_t i) {
  Fiber& fiber = fibers_[i];
  current_ = i;
  thread_index = fiber.thread;
#if defined(WEIR_ASAN)
  void* mine = nullptr;
  __sanitizer_start_switch_fiber(&mine, stack(i), kStack);
  emulator_switch(&scheduler_, fiber.sp);
  __sanitizer_finish_switch_fiber(mine, nullptr, nullptr);
#else
  emulator_switch(&scheduler_, fiber.sp);
#endif
  return true;
}

void Machine::yield() {
  Fiber& fiber = self();
#if defined(WEIR_ASAN)
  bool ended = fiber.state == Fiber::State::kEnded;
  __sanitizer_start_switch_fiber(ended ? nullptr : &fiber.fake_stack, home_stack_, home_size_);
  emulator_switch(&fiber.sp, scheduler_);
  __sanitizer_finish_switch_fiber(fiber.fake_stack, &home_stack_, &home_size_);
#else
  emulator_switch(&fiber.sp, scheduler_);
#endif
}

void Machine::run_thread() {
#if defined(WEIR_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &home_stack_, &home_size_);
#endif
  (*thread_)();
  self().state = Fiber::State::kEnded;
  yield();
  std::abort();  // an ended fiber is never resumed
}

// The fiber never goes on, so nothing that must be freed may be on its stack.
void Machine::give_up() {
  std::fprintf(stderr, "emulator: block (%u, %u, %u) thread %u: %s\n", block_index.x, block_index.y, block_index.z,
               current_, failure.c_str());
  self().state = Fiber::State::kEnded;
  yield();
  std::abort();
}

// Nobody can go on: that must be because all wait at the same barrier.
void Machine::end_barrier() {
  const Fiber *first = nullptr, *ended = nullptr;
  for (uint32_t i = 0; i < threads_; ++i) {
    const Fiber& fiber = fibers_[i];
    if (fiber.state == Fiber::State::kEnded) {
      ended = &fiber;
    } else if (fiber.state == Fiber::State::kMeeting) {
      failure = "lanes of warp " + std::to_string(i / kLanes) + " wait at " + at(fiber.where) +
                " for lanes that have ended or wait elsewhere";
    } else if (!first) {
      first = &fiber;
    } else if (first->where.line != fiber.where.line || std::strcmp(first->where.file, fiber.where.file) != 0) {
      failure = "threads wait at the barriers of " + at(first->where) + " and " + at(fiber.where);
    }
  }
  if (first && ended && failure.empty()) failure = "threads wait at " + at(first->where) + " for some that have ended";
  if (!failure.empty()) {
    std::fprintf(stderr, "emulator: block (%u, %u, %u): %s\n", block_index.x, block_index.y, block_index.z,
                 failure.c_str());
    return;
  }
  for (uint32_t i = 0; i < threads_; ++i) fibers_[i].state = Fiber::State::kReady;
}

void Machine::check_ended() {
  for (uint32_t i = 0; i < threads_ && failure.empty(); ++i)
    if (early && !fibers_[i].has_waited)
      failure = "thread " + std::to_string(i) + " ends without having waited for its inputs";
    else if (const std::string left = left_by(i); !left.empty())
      failure = "thread " + std::to_string(i) + " ends with " + left;
  if (!failure.empty()) std::fprintf(stderr, "emulator: %s\n", failure.c_str());
}

// Those that wait; false: nobody does.
bool Machine::wake(Wake how) {
  bool any = false;
  for (uint32_t i = 0; i < threads_; ++i) {
    if (fibers_[i].state != Fiber::State::kWaiting) continue;
    fibers_[i].state = Fiber::State::kReady, fibers_[i].given_up = how == Wake::kToGiveUp;
    any = true;
  }
  return any;
}

void Machine::release_warp(uint32_t warp) {
  warps_[warp].arrived = 0;
  for (uint32_t i = 0; i < kLanes; ++i) fibers_[warp * kLanes + i].state = Fiber::State::kReady;
}

}  // namespace

int32_t launch(const Shape& s, size_t shared_limit, const std::function<void()>& thread) {
  std::lock_guard lock(launching);
  uint64_t threads = uint64_t(s.block.x) * s.block.y * s.block.z;
  bool empty = s.grid.x == 0 || s.grid.y == 0 || s.grid.z == 0 || threads == 0;
  if (empty || threads > kMostThreads || s.grid.x > 0x7fffffffu || s.grid.y > 65535 || s.grid.z > 65535)
    return kBadConfiguration;
  if (s.shared > shared_limit) return kBadShape;
  return machine.launch(s, thread);
}

const std::string& failure() { return machine.failure; }

void barrier(Where where) {
  Fiber& self = machine.self();
  self.state = Fiber::State::kAtBarrier, self.where = where;
  machine.yield();
}

const Slot* meet(uint32_t mask, const void* mine, size_t bytes, Where where) {
  if (mask != 0xffffffffu) fail(where, "a warp meets with a part of its lanes: not known here");
  if (machine.current() / kLanes * kLanes + kLanes > machine.threads()) fail(where, "a warp that is not whole");
  if (bytes > sizeof(Slot)) fail(where, "more than a slot holds");
  Fiber& self = machine.self();
  Warp& warp = machine.warp();
  Slot* slots = warp.slots[self.meetings++ % 2];
  if (bytes > 0) std::memcpy(slots[machine.current() % kLanes].bytes, mine, bytes);
  if (warp.arrived == 0) warp.where = where;
  if (warp.where.line != where.line || std::strcmp(warp.where.file, where.file) != 0)
    fail(where, "the warp's other lanes wait at", &warp.where);
  self.state = Fiber::State::kMeeting, self.where = where;
  if (++warp.arrived == kLanes) {
    machine.release_warp(machine.current() / kLanes);
  } else {
    machine.yield();
  }
  return slots;
}

std::byte* dynamic_shared() { return machine.shared; }

void await_inputs() {
  if (!std::exchange(machine.self().has_waited, true) && machine.hides) machine.yield();
}

bool wait(Until until, Where where) {
  Fiber& self = machine.self();
  self.state = Fiber::State::kWaiting, self.where = where;
  machine.paused |= until == Until::kIdle;
  machine.yield();
  return !std::exchange(self.given_up, false);
}

void wake_waiting() { machine.wake(Machine::Wake::kToLook); }

uint32_t current_thread() { return machine.current(); }

void fail(Where where, const char* what, const Where* other) {
  machine.failure = at(where) + ": " + what + (other ? " " + at(*other) : "");
  machine.give_up();
}

}  // namespace emulator

const dim3& threadIdx = emulator::machine.thread_index;
const dim3& blockIdx = emulator::machine.block_index;
const dim3& blockDim = emulator::machine.block_size;
const dim3& gridDim = emulator::machine.grid_size;
