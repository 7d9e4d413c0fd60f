// Rules: the times and bounds of membership (membership.h), the same on all nodes.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/env.h"

namespace weir::cluster {

struct Rules {
  base::Duration beat = std::chrono::seconds(1), gone = std::chrono::seconds(5), lease = std::chrono::seconds(4);
  base::Duration fence_after = std::chrono::seconds(15);  // less than the life of an entry
  base::Duration alone = std::chrono::seconds(300);       // 0: never
  size_t most_nodes = 1024;
  size_t most_models = 65536;  // of all nodes
  // As lease to gone.
  base::Duration stranger(base::Duration its_alone) const { return std::max<base::Duration>(gone, its_alone * 5 / 4); }
};

}  // namespace weir::cluster
