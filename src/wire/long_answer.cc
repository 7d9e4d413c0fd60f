#include "wire/long_answer.h"

#include <string>

#include "base/attempt.h"
#include "base/memory_ledger.h"
#include "wire/offload.h"

namespace weir::wire {

using base::Status;

void WriteBody::run() {
  Status thrown = base::attempt("writing an answer", [this] { body_ = make_(); });
  if (!thrown.ok()) body_ = std::move(thrown);
}

base::Result<base::Bytes> WriteBody::body() {
  if (body_ && !reservation_.settle(*body_)) return no_room_for_answer();
  return std::move(body_);
}

Status no_room_for_body(Exchange& exchange, uint64_t most) {
  const base::MemoryLedger* memory = exchange.memory();
  if (!memory || most <= memory->budget()) return no_room_for_answer();
  return base::failure(base::Code::kOutOfRange, "the answer may have " + std::to_string(most) +
                                                    " bytes, and all memory is " + std::to_string(memory->budget()) +
                                                    " (limits.slab_budget)");
}

void write_on_worker(Offload& offload, Exchange& exchange, uint64_t most, MakeBody make,
                     std::function<void(base::Result<base::Bytes>)> then) {
  auto write = std::make_unique<WriteBody>(exchange, std::move(make));
  if (!write->reserve(most)) return then(no_room_for_body(exchange, most));
  auto done = [then](const Status& sent, std::unique_ptr<base::OffloadTask> task) {
    then(sent.ok() ? static_cast<WriteBody&>(*task).body() : base::Result<base::Bytes>(sent));
  };
  run_on_worker(offload, std::move(write), most, Offload::Part::kAnswer, exchange, std::move(done));
}

}  // namespace weir::wire
