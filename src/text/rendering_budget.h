// RenderingBudget: what a task may take to render a chat template. A request of a hundred bytes can ask a template for
// minutes of a worker and for all of the memory. So a worker begins with about as much as it takes to read the
// request's text; what needs more is rendered anew in a turn among the forms (base/extra_work.h), which have threads of
// their own and are shared by tenant. What the template makes is charged to the ledger and to its client.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/client.h"
#include "base/stepped_charge.h"
#include "msg/text_codec.h"

namespace weir::text {

// A rendering of any length, as base::ExtraWork counts it: half a second.
inline constexpr uint64_t kRenderingWork = uint64_t(1) << 20;

// The memory of a rendering, charged until this is destroyed. On one thread at a time.
struct RenderingMemory {
  RenderingMemory(base::MemoryLedger& ledger, base::ClientRef of, base::SteppedCharge::Owner owner)
      : client(std::move(of)), charge(&ledger, base::MemoryKind::kDecoding, 0, owner) {}
  RenderingMemory(const RenderingMemory&) = delete;

  const base::ClientRef client;  // outlives what is charged to it
  base::SteppedCharge charge;
};

class RenderingBudget {
 public:
  // Before next(): the bytes of the request's text, and who is charged. `client`: the owner's, which it keeps alive.
  // `ledger`: null: nothing is charged.
  void begin(size_t bytes, base::MemoryLedger* ledger, base::ClientRef client, base::SteppedCharge::Owner owner);

  // For a worker's thread.
  msg::TextBudget next(const std::atomic<bool>* cancelled) const;
  // Whether the error says that next() was too little, and there is more: it is no error then.
  bool needs_more(const base::Status& error);
  // Behind needs_more(): the next turn is one among the forms.
  bool is_long() const { return long_; }
  uint64_t extra_work() const { return long_ ? kRenderingWork : 0; }  // of that turn: base::ExtraWork
  // Null: nothing is charged.
  std::unique_ptr<RenderingMemory> take_memory() { return std::move(memory_); }

 private:
  std::unique_ptr<RenderingMemory> memory_;
  size_t bytes_ = 0;
  bool long_ = false;
};

}  // namespace weir::text
