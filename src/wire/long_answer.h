// Writes the body of a response in one piece: on the shard where it is short, on a worker where it is long.
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

// True if a body of up to `most` bytes takes more than 5 ms to write, and there are workers.
inline bool is_long(const Offload* offload, uint64_t most) { return most > (512 << 10) && offload; }

// The task that writes a body on a worker. It reserves the memory of the body meanwhile.
class WriteBody final : public base::OffloadTask {
 public:
  WriteBody(Exchange& exchange, MakeBody make) : reservation_(exchange), make_(std::move(make)) {}
  // Reserves memory for up to `most` bytes, before run(). False: there is none.
  bool reserve(uint64_t most) { return reservation_.take(most); }
  void run() override;
  // The body, after run(), on the shard, while the Exchange lives. Errors: those of `make`, no_room_for_answer().
  base::Result<base::Bytes> body();

 private:
  AnswerReservation reservation_;
  const MakeBody make_;
  base::Result<base::Bytes> body_ = base::Bytes();
};

// The error for a body of up to `most` bytes for which there is no memory: no_room_for_answer(), or OUT_OF_RANGE where
// there never will be enough, so that clients do not try again.
base::Status no_room_for_body(Exchange& exchange, uint64_t most);

// Writes a body of up to `most` bytes on the shard. Errors: those of `make`, no_room_for_body().
template <class Make>
base::Result<base::Bytes> write_body(Exchange& exchange, uint64_t most, Make&& make) {
  AnswerReservation reservation(exchange);
  if (!reservation.take(most)) return no_room_for_body(exchange, most);
  base::Result<base::Bytes> body = make();
  if (body && !reservation.settle(*body)) return no_room_for_answer();
  return body;
}

// The same on a worker; `then` is called with the body, on the shard. The Exchange's ExchangeListener is destroyed, as
// in run_on_worker().
void write_on_worker(Offload& offload, Exchange& exchange, uint64_t most, MakeBody make,
                     std::function<void(base::Result<base::Bytes>)> then);

}  // namespace weir::wire
