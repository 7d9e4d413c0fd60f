// RemoteModel: a model that another process runs. Its Inbox hands Calls on to that process; no lane waits for them.
#pragma once

#include <functional>
#include <memory>

#include "bus/stats.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::sched {

struct RemoteModel {
  msg::ModelSpec spec;  // as that process describes it; `parameters` are those that clients may see
  // Makes the Inbox, once. Its `put()` is called on any thread, and answers each Call on a shard. `spec` is what is
  // published, and outlives the Inbox, as `stats` does.
  std::function<std::unique_ptr<msg::Inbox>(const msg::ModelSpec& spec, bus::ModelStats& stats)> make_inbox;
};

}  // namespace weir::sched
