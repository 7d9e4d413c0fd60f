#include "app/memory_watch.h"

#include <new>

#include "app/reserve.h"
#include "base/log.h"

namespace weir::app {

void MemoryWatch::start(base::Env& env, device::SlabPool& slabs) {
  if (space_is_limited()) check_reserve(env);
  give_back_slabs(env, slabs);
}

// Set for the next look before anything else is allocated: a timer that throws is not fired again.
void MemoryWatch::check_reserve(base::Env& env) {
  bool there = keep_reserve();
  env.at(env.now() + std::chrono::seconds(1), [this, &env] { check_reserve(env); });
  try {
    report(there);
  } catch (const std::bad_alloc&) {  // the next look says it
  }
}

void MemoryWatch::give_back_slabs(base::Env& env, device::SlabPool& slabs) {
  env.at(env.now() + kSlabRest, [this, &env, &slabs] { give_back_slabs(env, slabs); });
  slabs.give_back_rested();
}

void MemoryWatch::report(bool there) {
  if (!there && !short_)
    base::log::warning("memory is short: requests that need much are refused",
                       {{"limit", "address space (ulimit -v)"}});
  if (there && short_) base::log::info("there is memory again");
  short_ = !there;
}

}  // namespace weir::app
