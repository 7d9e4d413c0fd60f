// OffloadTask: long work that a dialect has to do for a request before a model can be asked, or instead of asking one:
// a long prompt becomes tokens. Done on the shard it would hold up all of the shard's connections; so a dialect does
// what is short at once, and hands what is long to its Bus (Bus::send), whose workers run it and post it back.
#pragma once

#include <cstddef>
#include <memory>

#include "base/offload_task.h"
#include "msg/call.h"

namespace weir::bus {

// Text of so many bytes is worked on where it came in: a hop to another thread and back is not worth it. About a
// millisecond at worst.
inline constexpr size_t kShortText = size_t(8) << 10;

// Numbers and messages of so many bytes, as the workers' bound on waiting text counts them: that is made for
// tokenizing, which is some sixteen times as slow.
constexpr size_t weight_of_parsing(size_t bytes) { return bytes / 16; }

using base::OffloadTask;

// How a task reaches the workers, and comes back: as a Call of its own. They answer with Done when it has run, and
// with Failed when it was cancelled before or cannot be taken.
struct OffloadCall : msg::Call {
  std::unique_ptr<OffloadTask> task;
  size_t bytes = 0;      // that wait with it
  bool granted = false;  // it is for a request that has been admitted: taken however much waits
};

}  // namespace weir::bus
