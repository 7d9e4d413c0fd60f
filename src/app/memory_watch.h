// MemoryWatch: what is looked after in the process's memory while nobody asks for any: the reserve of address space
// (app/reserve.h) once a second where it is limited, and large slabs that nobody has taken for a while, which go back
// to the system. One shard's.
#pragma once

#include <chrono>

#include "base/env.h"
#include "device/pool.h"

namespace weir::app {

class MemoryWatch {
 public:
  // How long a large slab may be idle: it goes after that and before twice that, later where there are many.
  static constexpr base::Duration kSlabRest = std::chrono::seconds(5);

  // On the shard's thread, once. `slabs` outlives the shard.
  void start(base::Env& env, device::SlabPool& slabs);

  // Takes the reserve, and again once a second; says when it cannot be had, and when it is back.
  void check_reserve(base::Env& env);

 private:
  void give_back_slabs(base::Env& env, device::SlabPool& slabs);
  void report(bool there);

  bool short_ = false;
};

}  // namespace weir::app
