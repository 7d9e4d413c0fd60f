#include "net/watchdog.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace weir::net {
namespace {

using std::chrono_literals::operator""ms;

constexpr int kSignal = SIGURG;  // ignored where nobody handles it, and nobody here uses out-of-band data
constexpr base::Duration kAnswer = 100ms;

// State that the signal handler and the watchdog share. One capture at a time.
struct Capture {
  enum Stage : int { kIdle, kAsked, kWriting, kDone };
  std::atomic<int> stage{kIdle};
  std::array<void*, 64> frames;
  int depth = 0;
};
Capture capture;
std::atomic<bool> taken{false};  // a Watchdog has the signal

// Nothing here may allocate or lock: the thread is interrupted anywhere.
void on_signal(int) {
  int error = errno;
  int asked = Capture::kAsked;
  if (capture.stage.compare_exchange_strong(asked, Capture::kWriting)) {
    capture.depth = ::backtrace(capture.frames.data(), int(capture.frames.size()));
    capture.stage.store(Capture::kDone, std::memory_order_release);
  }
  errno = error;
}

// Its first call loads a library and allocates.
void warm_backtrace() {
  std::array<void*, 1> frame;
  (void)::backtrace(frame.data(), int(frame.size()));
}

void handle(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(kSignal, &action, nullptr);
}

// An address is the process's own business; the place in a file is what a person looks up.
std::string place(void* address) {
  Dl_info info{};
  std::array<char, 32> text;
  if (::dladdr(address, &info) == 0 || !info.dli_fname) return "?";
  std::string_view file = info.dli_fname;
  file.remove_prefix(std::min(file.rfind('/') + 1, file.size()));
  auto offset = static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase);
  std::snprintf(text.data(), text.size(), "+0x%tx", offset);
  return std::string(file) + text.data();
}

base::Time clock_now() { return std::chrono::steady_clock::now(); }

}  // namespace

Watchdog::Watchdog(std::vector<TurnWatch*> shards, base::Duration every, Report report)
    : shards_(std::move(shards)),
      every_(every),
      report_(std::move(report)),
      has_signal_(!taken.exchange(true)),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!wake_) throw std::system_error(errno, std::generic_category(), "eventfd");
  if (has_signal_) warm_backtrace(), handle(on_signal);
  for (auto* shard : shards_) shard->set_watchdog(this);
  thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  for (auto* shard : shards_) shard->set_watchdog(nullptr);
  stopping_ = true;
  wake();
  thread_.join();
  if (!has_signal_) return;
  handle(SIG_IGN);
  taken = false;
}

void Watchdog::wake() {
  uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

bool Watchdog::woken_within(base::Duration time) {
  pollfd poll{wake_.get(), POLLIN, 0};
  int ms =
      time == base::Duration::max() ? -1 : int(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
  uint64_t count = 0;
  return ::poll(&poll, 1, ms) > 0 && ::read(wake_.get(), &count, sizeof count) > 0;
}

void Watchdog::run() {
  pthread_setname_np(pthread_self(), "watchdog");
  busy_at_ = clock_now();
  while (!stopping_) {
    auto now = clock_now();
    if (check_turns(now)) busy_at_ = now;
    rest(now);
  }
}

// A shard stores that its turn has begun, and then reads whether it is to wake the watchdog, without a fence between
// the two. If it misses call_me(), the check before the unlimited sleep comes late enough to see the store.
void Watchdog::rest(base::Time now) {
  auto idle = now - busy_at_;
  bool woken = false;
  if (idle < kIdleTime) {
    woken = woken_within(look_in_);
  } else if (idle < 2 * kIdleTime) {
    for (auto* shard : shards_) shard->call_me();
    woken = woken_within(kIdleTime);
  } else {
    woken = woken_within(base::Duration::max());
  }
  if (woken) busy_at_ = clock_now();
}

// Whether any shard turns.
bool Watchdog::check_turns(base::Time now) {
  bool busy = false;
  look_in_ = kLook;
  for (size_t i = 0; i < shards_.size(); ++i) {
    int64_t began = shards_[i]->turn_began();
    if (began == 0) continue;
    busy = true;
    auto so_far = now - base::Time(base::Duration(began));
    if (so_far <= TurnWatch::kSlow)
      look_in_ = std::min<base::Duration>(look_in_, TurnWatch::kSlow - so_far + 1ms);
    else if (has_signal_ && now >= next_)
      take(i, now, so_far);
  }
  return busy;
}

// A thread that does not answer in time blocks the signal, or waits for the disk; it may answer later, to nobody.
void Watchdog::take(size_t shard, base::Time now, base::Duration so_far) {
  int idle = Capture::kIdle;
  if (!capture.stage.compare_exchange_strong(idle, Capture::kAsked)) return;
  if (shards_[shard]->signal(kSignal)) {
    for (auto end = clock_now() + kAnswer; capture.stage.load(std::memory_order_acquire) != Capture::kDone;) {
      if (clock_now() >= end) break;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  int asked = Capture::kAsked;
  if (capture.stage.compare_exchange_strong(asked, Capture::kIdle)) return;
  while (capture.stage.load(std::memory_order_acquire) != Capture::kDone) std::this_thread::yield();
  Stack stack{shard, so_far, {}};
  for (int i = 0; i < capture.depth; ++i) stack.frames.push_back(place(capture.frames[size_t(i)]));
  capture.stage = Capture::kIdle;
  next_ = now + every_;
  report_(stack);
}

// A value of the log has 256 bytes.
void Watchdog::log(const Stack& stack) {
  std::array<std::string, 4> parts;
  size_t part = 0;
  for (const auto& frame : stack.frames) {
    if (parts[part].size() + 1 + frame.size() > 250 && ++part == parts.size()) break;
    if (!parts[part].empty()) parts[part] += ' ';
    parts[part] += frame;
  }
  base::log::warning("a turn of the loop is slow",
                     {{"shard", stack.shard},
                      {"ms_so_far", std::chrono::duration<double, std::milli>(stack.so_far).count()},
                      {"stack", parts[0]},
                      {"stack_2", parts[1]},
                      {"stack_3", parts[2]},
                      {"stack_4", parts[3]}});
}

}  // namespace weir::net
