#include "base/bus_error_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

namespace weir::base {

// `begin` is written last when a slot is taken and first when it is given back: 0 says that there is no mapping.
struct GuardedMapping {
  std::atomic<bool> taken{false}, lost{false};
  std::atomic<uintptr_t> begin{0}, end{0};
};

namespace {

using Table = std::array<GuardedMapping, BusErrorGuard::kMost>;

// The state of a signal handler is the process's.
Table& table() {
  static Table slots;
  return slots;
}
Table* handler_table = nullptr;
struct sigaction action_before {};
uintptr_t page_bytes = 4096;

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((action_before.sa_flags & SA_SIGINFO) != 0 && action_before.sa_sigaction)
    return action_before.sa_sigaction(signal, info, context);
  if (action_before.sa_handler != SIG_DFL && action_before.sa_handler != SIG_IGN)
    return action_before.sa_handler(signal);
  ::signal(signal, SIG_DFL);  // the instruction faults again, and the process ends
}

// All that lies behind the page is replaced, too: the object ends before it. One fault so makes one mapping at most,
// however many pages there are.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (GuardedMapping& slot : *handler_table) {
    const uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    const uintptr_t end = slot.end.load(std::memory_order_relaxed);
    if (begin == 0 || at < begin || at >= end) continue;
    const uintptr_t page = at & ~(page_bytes - 1);
    void* replaced = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (replaced == MAP_FAILED) break;
    slot.lost.store(true, std::memory_order_release);
    errno = error;
    return;
  }
  pass_on(signal, info, context);
}

void install() {
  handler_table = &table();
  page_bytes = uintptr_t(::sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &action_before);
}

}  // namespace

BusErrorGuard::BusErrorGuard(void* begin, size_t bytes) {
  static std::once_flag installed;
  std::call_once(installed, install);
  for (GuardedMapping& slot : table()) {
    if (slot.taken.load(std::memory_order_relaxed) || slot.taken.exchange(true)) continue;
    slot.lost.store(false, std::memory_order_relaxed);
    slot.end.store(reinterpret_cast<uintptr_t>(begin) + bytes, std::memory_order_relaxed);
    slot.begin.store(reinterpret_cast<uintptr_t>(begin), std::memory_order_release);
    slot_ = &slot;
    return;
  }
}

BusErrorGuard::~BusErrorGuard() {
  if (!slot_) return;
  slot_->begin.store(0, std::memory_order_release);
  slot_->taken.store(false, std::memory_order_release);
}

bool BusErrorGuard::lost() const { return slot_ && slot_->lost.load(std::memory_order_acquire); }

}  // namespace weir::base
