#include "net/turn_watch.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "net/watchdog.h"

namespace weir::net {
namespace {

uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

base::Duration thread_cpu() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

}  // namespace

const char* TurnWatch::name(Cause cause) {
  constexpr std::array<const char*, kCauses> kNames{"read", "posted", "timer", "hook", "write", "off_cpu"};
  return kNames[size_t(cause)];
}

void TurnWatch::begin(base::Time now) {
  began_ = now;
  began_ns_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  if (unmarked_ || busy_ns_ - marked_ns_ >= base::Duration(kMark).count()) mark(thread_cpu());
  spent_ = {};
  phase_ = Phase::kRead;
  entered_ = ticks();
  if (wanted_.load(std::memory_order_relaxed)) call();
}

void TurnWatch::mark(base::Duration cpu) {
  cpu_mark_ = cpu;
  marked_ns_ = busy_ns_;
  unmarked_ = false;
}

void TurnWatch::call() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;  // the watchdog reads it, or is being set: a later turn will do
  wanted_.store(false, std::memory_order_relaxed);
  if (dog_) dog_->wake();
}

TurnWatch::Phase TurnWatch::enter(Phase phase) {
  uint64_t now = ticks();
  spent_[size_t(phase_)] += now - entered_;
  entered_ = now;
  return std::exchange(phase_, phase);
}

TurnWatch::Turn TurnWatch::end(base::Time now) {
  enter(Phase::kRead);
  began_ns_.store(0, std::memory_order_relaxed);
  Turn turn;
  turn.lasted = now - began_;
  busy_ns_ += turn.lasted.count();
  totals_->busy_ns.store(busy_ns_, std::memory_order_relaxed);
  if (turn.lasted.count() <= longest_ns_ && turn.lasted <= kSlow) return turn;
  auto cpu = thread_cpu();
  turn.cpu = std::min(turn.lasted, cpu - cpu_mark_);
  mark(cpu);
  if (turn.cpu.count() > longest_ns_) {
    longest_ns_ = turn.cpu.count();
    totals_->longest_ns.store(longest_ns_, std::memory_order_relaxed);
  }
  if (turn.lasted <= kSlow) return turn;
  turn.slow = true;
  turn.cause = turn.cpu > kSlow ? cause() : Cause::kOffCpu;
  totals_->slow[size_t(turn.cause)].add();
  return turn;
}

// end() subtracts the mark of the turn's begin, which stays.
base::Duration TurnWatch::cpu_of(base::Duration lasted) {
  if (lasted < kMark) return lasted;
  const auto cpu = thread_cpu(), since = std::max(asked_cpu_, cpu_mark_);
  asked_cpu_ = cpu;
  return std::clamp(cpu - since, base::Duration(0), lasted);
}

TurnWatch::Cause TurnWatch::cause() const {
  return Cause(std::max_element(spent_.begin(), spent_.end()) - spent_.begin());
}

void TurnWatch::arrive() {
  std::lock_guard lock(mutex_);
  tid_ = int(::syscall(SYS_gettid));
  unmarked_ = true, asked_cpu_ = {};  // another thread's CPU clock
}

void TurnWatch::leave() {
  std::lock_guard lock(mutex_);
  tid_ = 0;
  unmarked_ = true, asked_cpu_ = {};
}

void TurnWatch::set_watchdog(Watchdog* dog) {
  std::lock_guard lock(mutex_);
  dog_ = dog;
}

bool TurnWatch::signal(int number) {
  std::lock_guard lock(mutex_);
  return tid_ != 0 && turn_began() != 0 && ::syscall(SYS_tgkill, ::getpid(), tid_, number) == 0;
}

// Written by hand: a base::Gauge holds whole numbers, and these are seconds.
void TurnWatch::append(std::string& out, const AllTotals& turns) {
  constexpr const char* kLongest = "weir_shard_longest_turn_seconds";
  constexpr const char* kSlow = "weir_shard_slow_turns_total";
  constexpr const char* kBusy = "weir_shard_busy_seconds_total";
  out += std::string("# HELP ") + kLongest + " CPU time of the longest turn of a shard's loop so far.\n# TYPE " +
         kLongest + " gauge\n";
  for (size_t i = 0; i < turns.size(); ++i)
    out += std::string(kLongest) + "{shard=\"" + std::to_string(i) + "\"} " +
           std::to_string(double(turns[i]->longest_ns.load(std::memory_order_relaxed)) / 1e9) + '\n';
  out += std::string("# HELP ") + kBusy + " Time that a shard's loop was in a turn.\n# TYPE " + kBusy + " counter\n";
  for (size_t i = 0; i < turns.size(); ++i)
    out += std::string(kBusy) + "{shard=\"" + std::to_string(i) + "\"} " +
           std::to_string(double(turns[i]->busy_ns.load(std::memory_order_relaxed)) / 1e9) + '\n';
  out += std::string("# HELP ") + kSlow +
         " Turns of more than 25 ms of CPU time, by what took most of it; off_cpu: that lasted as long without "
         "running.\n# TYPE " +
         kSlow + " counter\n";
  for (size_t cause = 0; cause < kCauses; ++cause) {
    uint64_t count = 0;
    for (const auto& shard : turns) count += shard->slow[cause].value();
    out += std::string(kSlow) + "{cause=\"" + name(Cause(cause)) + "\"} " + std::to_string(count) + '\n';
  }
}

}  // namespace weir::net
