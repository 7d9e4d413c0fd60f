// Offload: runs long work for a request on a worker thread, off the shard, before the request has reached a model or
// after it has left it: text becomes a message, a message becomes text. One per shard, used on its thread; in
// production the tasks go to the bus's workers (app/).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/offload_task.h"
#include "base/status.h"
#include "wire/exchange.h"

namespace weir::wire {

// A task that has been sent. Destroying it cancels the task: Done is not called, and a worker that has not begun does
// not begin.
class SentTask {
 public:
  virtual ~SentTask() = default;
};

class Offload {
 public:
  // Called once, in a later turn: with OK and the task, which has run, or with the reason why it has not, and null.
  using Done = std::function<void(const base::Status&, std::unique_ptr<base::OffloadTask>)>;
  // `bytes`: how many of JSON the task reads or writes, or as much work (work_of_document()). It runs on behalf of the
  // Exchange's client, and the connection gets its ticket back when it is over. kAnswer: the request has been admitted
  // already, so no limit refuses the task. Errors: RESOURCE_EXHAUSTED, UNAVAILABLE; then `done` is not called.
  enum class Part : uint8_t { kRequest, kAnswer };
  virtual base::Result<std::unique_ptr<SentTask>> send(std::unique_ptr<base::OffloadTask> task, size_t bytes, Part part,
                                                       Exchange& exchange, Done done) = 0;

 protected:
  ~Offload() = default;
};

// Bodies of up to so many bytes, and parts of bodies, are read on the shard: that takes a millisecond or two.
inline constexpr size_t kLongBody = size_t(256) << 10;

// Bytes of JSON that becomes a document, is translated and written again, as bytes of JSON that is read once: of many
// small values, each is allocated several times.
constexpr size_t work_of_document(size_t bytes) { return 16 * bytes; }

// Has a worker run a task for a request whose body is complete. `then` gets the task in a later turn, or at once the
// reason why it was not accepted; it answers the request, or attaches the next ExchangeListener. The caller's
// ExchangeListener is destroyed: until `then` is called, another one stands in for it, which cancels the task when the
// client leaves. What `then` throws ends the Exchange.
void run_on_worker(Offload& offload, std::unique_ptr<base::OffloadTask> task, size_t bytes, Offload::Part part,
                   Exchange& exchange, Offload::Done then);

}  // namespace weir::wire
