// A long SessionMessage in JSON becomes a protobuf message on a worker.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/errand.h"
#include "dialects/evergreen/house.h"
#include "wire/errands.h"

namespace weir::evergreen {

class ReadMessage final : public base::Errand {
 public:
  ReadMessage(wire::JsonForm& json, base::Bytes text) : json_(json), text_(std::move(text)) {}
  void run() override;

  base::Status status;  // after run(), as the next
  base::Bytes message;

 private:
  wire::JsonForm& json_;
  const base::Bytes text_;
};

inline bool is_long(const House& house, size_t text) { return house.options.errands && text > wire::kLongBody; }

// Errors: those of wire::Errands; `done` is not called then.
base::Result<std::unique_ptr<wire::SentErrand>> read_elsewhere(House& house, wire::Exchange& exchange, base::Bytes text,
                                                               wire::Errands::Done done);

}  // namespace weir::evergreen
