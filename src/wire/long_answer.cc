#include "wire/long_answer.h"

#include "base/attempt.h"
#include "wire/offload.h"

namespace weir::wire {

using base::Status;

void WriteBody::run() {
  Status thrown = base::attempt("writing an answer", [this] { body_ = make_(); });
  if (!thrown.ok()) body_ = std::move(thrown);
}

base::Result<base::Bytes> WriteBody::body() {
  if (body_ && !room_.settle(*body_)) return no_room_for_answer();
  return std::move(body_);
}

void write_elsewhere(Offload& offload, Exchange& exchange, uint64_t most, MakeBody make,
                     std::function<void(base::Result<base::Bytes>)> then) {
  auto write = std::make_unique<WriteBody>(exchange, std::move(make));
  if (!write->reserve(most)) return then(no_room_for_answer());
  auto done = [then](const Status& sent, std::unique_ptr<base::OffloadTask> task) {
    then(sent.ok() ? static_cast<WriteBody&>(*task).body() : base::Result<base::Bytes>(sent));
  };
  send_away(offload, std::move(write), most, Offload::Part::kAnswer, exchange, std::move(done));
}

}  // namespace weir::wire
