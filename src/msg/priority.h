// How many levels of priority the Calls of a model have, which one is that of Calls that name none, or another, and
// how Calls wait there.
#pragma once

#include <algorithm>
#include <cstdint>

#include "msg/spec.h"

namespace weir::msg {

struct Levels {
  uint32_t count, usual;  // 1 … count; 1 is the most urgent
};

// A model of tokens for which none are configured has 11, as many as sessions of Salience count, and Calls are of the
// most urgent one.
inline Levels levels(const ModelSpec& spec) {
  if (spec.text && spec.batching.priority_levels == 0) return {11, 1};
  uint32_t count = std::max(spec.batching.priority_levels, 1u), usual = spec.batching.default_priority;
  return {count, usual == 0 || usual > count ? (count + 1) / 2 : usual};
}

// 1 … levels(spec).count: where a call of this priority waits.
inline uint32_t level_of(const ModelSpec& spec, uint32_t priority) {
  auto [count, usual] = levels(spec);
  return priority == 0 || priority > count ? usual : priority;
}

inline const QueuePolicy& queue_policy(const BatchPolicy& batching, uint32_t level) {
  auto own = batching.levels.find(level);
  return own == batching.levels.end() ? batching : own->second;
}
inline const QueuePolicy& queue_policy(const ModelSpec& spec, uint32_t level) {
  return queue_policy(spec.batching, level);
}

// When a call that came at `now` and asks for a queue_timeout of `asked` (0: for none) has waited for as long as it
// may; kNever without a limit.
inline base::Time times_out_at(const QueuePolicy& policy, base::Duration asked, base::Time now) {
  const base::Duration longest = policy.timeout_of(asked);
  return longest.count() <= 0 || longest >= base::kNever - now ? base::kNever : now + longest;
}

// When such a call leaves the queue: never where it is only put behind the others.
inline base::Time leaves_at(const QueuePolicy& policy, base::Duration asked, base::Time now) {
  return policy.timeout_action == QueuePolicy::TimeoutAction::kReject ? times_out_at(policy, asked, now) : base::kNever;
}

}  // namespace weir::msg
