// The batching rules of a model, short enough for a row of a table.
#pragma once

#include <map>
#include <vector>

#include "calls.h"

namespace weir::sched {

// A queue's rules, as the cases of a table write them.
struct QueueRules {
  uint32_t max_batch = 8;
  std::vector<uint32_t> preferred{};
  int delay_ms = 0;
  uint32_t levels = 0, level = 0;
  uint32_t max_queue = 0;
  int timeout_ms = 0;
  enum class Batching : uint8_t { kOn, kOff } batching = Batching::kOn;
  enum class Late : uint8_t { kReject, kDelay } late = Late::kReject;
  enum class Override : uint8_t { kYes, kNo } allow_override = Override::kYes;
  std::map<uint32_t, msg::QueuePolicy> of_levels{};

  msg::ModelSpec spec() const {
    auto spec = spec_of(max_batch, -1);
    spec.batching.dynamic = batching == Batching::kOn;
    spec.batching.preferred = preferred;
    spec.batching.max_delay = delay_ms * 1ms;
    spec.batching.priority_levels = levels, spec.batching.default_priority = level;
    spec.batching.max_queue = max_queue;
    spec.batching.queue_timeout = timeout_ms * 1ms;
    spec.batching.timeout_action =
        late == Late::kDelay ? msg::QueuePolicy::TimeoutAction::kDelay : msg::QueuePolicy::TimeoutAction::kReject;
    spec.batching.allow_timeout_override = allow_override == Override::kYes;
    spec.batching.levels = of_levels;
    return spec;
  }
};

}  // namespace weir::sched
