// Offload: how a request that has not reached a model yet, or has left it, has long work done off its shard: text
// becomes a message, a message becomes text. One per shard, used on its thread; app/ puts the bus's workers behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/offload_task.h"
#include "base/status.h"
#include "wire/exchange.h"

namespace weir::wire {

// A task that has been sent. Destroyed early, it is cancelled: nobody is told, and a worker that has not begun does
// not begin.
class SentTask {
 public:
  virtual ~SentTask() = default;
};

class Offload {
 public:
  // Told once, in a later turn: OK and the task, which has run; or why it has not, and null.
  using Done = std::function<void(const base::Status&, std::unique_ptr<base::OffloadTask>)>;
  // `bytes`: of what it works on. It is done on behalf of the Exchange's client, and the connection has its ticket back
  // when the work is over. kAnswer: the request has been admitted, so that no limit refuses this. Errors:
  // RESOURCE_EXHAUSTED, UNAVAILABLE; then `done` is not called.
  enum class Part : uint8_t { kRequest, kAnswer };
  virtual base::Result<std::unique_ptr<SentTask>> send(std::unique_ptr<base::OffloadTask> task, size_t bytes, Part part,
                                                       Exchange& exchange, Done done) = 0;

 protected:
  ~Offload() = default;
};

// A body of so many bytes, or a part of one, is read where it came in: that takes a millisecond or two.
inline constexpr size_t kLongBody = size_t(256) << 10;

// Sends a task for a request whose body is complete. `then` gets the outcome in a later turn, or at once why it
// was not taken; it answers the request, or attaches the ExchangeListener to come. Until then the ExchangeListener is
// one that takes the task back when the client leaves: the caller's is destroyed. What `then` throws ends the Exchange.
void send_away(Offload& offload, std::unique_ptr<base::OffloadTask> task, size_t bytes, Offload::Part part,
               Exchange& exchange, Offload::Done then);

}  // namespace weir::wire
