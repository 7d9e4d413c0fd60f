// RemoteModel: a model that another process runs. Its Inbox hands Calls on to that process; no lane waits for them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "bus/stats.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::sched {

struct RemoteModel {
  msg::ModelSpec spec;  // as that process describes it; `parameters` are those that clients may see
  // Makes the Inbox, once. Its `put()` is called on any thread, and answers each Call on a shard. `spec` is what is
  // published, and outlives the Inbox, as `stats` does.
  std::function<std::unique_ptr<msg::Inbox>(const msg::ModelSpec& spec, bus::ModelStats& stats)> make_inbox;

  // The rest is for a model that has instances here, too (sched/local_first.h).
  // load(): the outstanding work, at least 1, of whoever may get the next Call, of two that `random` chooses; nothing
  // while nobody takes any. Any thread.
  std::function<std::optional<double>(uint64_t random)> load;
  // Calls that the instances here have before others get any; nothing: as many as their batches have rows.
  std::optional<uint32_t> local_first;
};

}  // namespace weir::sched
