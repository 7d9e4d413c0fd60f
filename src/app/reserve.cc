#include "app/reserve.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <chrono>
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>

#include "base/log.h"

namespace weir::app {
namespace {

// mimalloc asks for 32 MiB at a time, at an address that is a multiple of it.
constexpr size_t kReserveBytes = size_t(64) << 20;
// No allocation happens under it. Who finds the reserve used can rely on its memory being the allocator's already.
std::mutex reserve_mutex;
void* reserve = nullptr;  // under reserve_mutex

}  // namespace

bool space_is_limited() {
  rlimit space{};
  return getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY;
}

bool keep_reserve() {
  std::lock_guard lock(reserve_mutex);
  if (reserve || !space_is_limited()) return true;
  void* taken = mmap(nullptr, kReserveBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (taken == MAP_FAILED) return false;
  reserve = taken;
  return true;
}

bool use_reserve() {
  std::lock_guard lock(reserve_mutex);
  void* taken = std::exchange(reserve, nullptr);
  return taken && munmap(taken, kReserveBytes) == 0;
}

// Set for the next look before anything else is allocated: a timer that throws is not fired again.
void ReserveWatch::check(base::Env& env) {
  bool there = keep_reserve();
  env.at(env.now() + std::chrono::seconds(1), [this, &env] { check(env); });
  try {
    report(there);
  } catch (const std::bad_alloc&) {  // the next look says it
  }
}

void ReserveWatch::report(bool there) {
  if (!there && !short_)
    base::log::warning("memory is short: requests that need much are refused",
                       {{"limit", "address space (ulimit -v)"}});
  if (there && short_) base::log::info("there is memory again");
  short_ = !there;
}

}  // namespace weir::app
