// A long SessionMessage in JSON becomes a protobuf message on a worker.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/offload_task.h"
#include "dialects/evergreen/state.h"
#include "wire/offload.h"

namespace weir::evergreen {

class ReadMessage final : public base::OffloadTask {
 public:
  ReadMessage(wire::JsonForm& json, base::Bytes text) : json_(json), text_(std::move(text)) {}
  void run() override;

  base::Status status;  // after run(), as the next
  base::Bytes message;

 private:
  wire::JsonForm& json_;
  const base::Bytes text_;
};

inline bool is_long(const EvergreenState& state, size_t text) {
  return state.options.offload && text > wire::kLongBody;
}

// Errors: those of wire::Offload; `done` is not called then.
base::Result<std::unique_ptr<wire::SentTask>> read_elsewhere(EvergreenState& state, wire::Exchange& exchange,
                                                             base::Bytes text, wire::Offload::Done done);

}  // namespace weir::evergreen
