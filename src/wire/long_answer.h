// Bodies of answers that exist as a whole: written on the shard where they are short, and by a worker where they are
// long.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/offload_task.h"
#include "wire/answer_flow.h"
#include "wire/exchange.h"

namespace weir::wire {

class Offload;

using MakeBody = std::function<base::Result<base::Bytes>()>;

// True for a body of `most` bytes at most that takes more than 5 ms, where there are workers.
inline bool is_long(const Offload* offload, uint64_t most) { return most > (512 << 10) && offload; }

// A body that a worker writes, and the room for it meanwhile.
class WriteBody final : public base::OffloadTask {
 public:
  WriteBody(Exchange& exchange, MakeBody make) : room_(exchange), make_(std::move(make)) {}
  // Before run(). False: there is no room for so many bytes.
  bool reserve(uint64_t most) { return room_.take(most); }
  void run() override;
  // After run(), on the shard, as long as the Exchange is there. Errors: what `make` says, no_room_for_answer().
  base::Result<base::Bytes> body();

 private:
  AnswerRoom room_;
  const MakeBody make_;
  base::Result<base::Bytes> body_ = base::Bytes();
};

// Why there is no room for a body of `most` bytes at most: no_room_for_answer(), or OUT_OF_RANGE where there never will
// be, so that nobody tries again.
base::Status no_room_for_body(Exchange& exchange, uint64_t most);

// Writes a body of `most` bytes at most on the shard.
template <class Make>
base::Result<base::Bytes> write_body(Exchange& exchange, uint64_t most, Make&& make) {
  AnswerRoom room(exchange);
  if (!room.take(most)) return no_room_for_body(exchange, most);
  base::Result<base::Bytes> body = make();
  if (body && !room.settle(*body)) return no_room_for_answer();
  return body;
}

// The same by a worker; `then` is called with it, on the shard. The Exchange's ExchangeListener is destroyed.
void write_elsewhere(Offload& offload, Exchange& exchange, uint64_t most, MakeBody make,
                     std::function<void(base::Result<base::Bytes>)> then);

}  // namespace weir::wire
