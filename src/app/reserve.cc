#include "app/reserve.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cstddef>
#include <mutex>
#include <new>
#include <utility>

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

}  // namespace weir::app
