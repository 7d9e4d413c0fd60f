// Reserve: address space that is kept back where it is limited (ulimit -v), for the small allocations without which the
// process cannot go on. Any thread.
#pragma once

#include "base/env.h"

namespace weir::app {

bool space_is_limited();
// Takes the reserve, if the address space is limited and it is not there. False: it is not, and cannot be had.
bool keep_reserve();
// Gives the reserve to the allocator; false when it has been used up.
bool use_reserve();

// Takes the reserve, and again once a second; says when it cannot be had, and when it is back. One shard's.
class ReserveWatch {
 public:
  void check(base::Env& env);

 private:
  void report(bool there);

  bool short_ = false;
};

}  // namespace weir::app
