// count_sequence(): the counters of a forwarded sequence, as a token lane keeps them.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "bus/stats.h"
#include "msg/call.h"

namespace weir::forward {

// It has ended: well with `last`, which is Done or Outputs, or as `status` says.
void count_sequence(bus::ModelStats& stats, const msg::Call& call, size_t generated, const base::Status& status,
                    const msg::Event& last);

}  // namespace weir::forward
