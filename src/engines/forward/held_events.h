// HeldEvents: Events of an origin that wait for their client's credit, in order. What they hold outside of slabs is
// charged to the ledger of all memory, as answers. On one shard's thread.
#pragma once

#include <cstdint>
#include <utility>

#include "base/memory_ledger.h"
#include "base/status.h"
#include "msg/call.h"
#include "wire/fifo.h"

namespace weir::forward {

class HeldEvents {
 public:
  // Bytes that are charged at once. What is less is not charged: most Events wait for nobody.
  static constexpr uint64_t kStep = 4096;

  // `ledger`: null, or outlives this.
  explicit HeldEvents(base::MemoryLedger* ledger) {
    if (ledger) charge_ = base::MemoryCharge(*ledger, base::MemoryKind::kAnswers);
  }

  // Before push(): takes the room for it. Errors: no_memory_for_answer(); nothing has changed.
  base::Status take_room(const msg::Event& event);
  void push(msg::Event&& event) { events_.push(std::move(event)); }
  // The oldest; not while empty(). Once none is left the whole charge is given back.
  msg::Event pop();
  bool empty() const { return events_.empty(); }
  uint64_t charged() const { return charge_.bytes(); }

 private:
  wire::Fifo<msg::Event> events_;
  uint64_t bytes_ = 0;  // of the events, outside of slabs
  base::MemoryCharge charge_;
};

}  // namespace weir::forward
