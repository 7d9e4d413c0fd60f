#include "dialects/openai/rendering_budget.h"

#include <utility>

#include "wire/body_memory.h"

namespace weir::openai {
namespace {

// Beside the text's own: twenty milliseconds. Ordinary templates take a few hundred steps for each message.
constexpr uint64_t kSteps = 200'000;
constexpr size_t kBytes = size_t(256) << 10;
// A step for each byte is a tenth of what tokenizing it takes. Templates join a message to what stands around it piece
// by piece, and each time that is another text.
constexpr uint64_t kStepsPerByte = 1;
constexpr size_t kBytesPerByte = 8;

}  // namespace

RenderingMemory::RenderingMemory(base::MemoryLedger* ledger, const wire::BodyMemory* bodies, base::ClientRef of)
    : client(std::move(of)),
      charge(ledger, base::MemoryKind::kDecoding, 0, wire::owner_of_heads(bodies, client.get())) {}

void RenderingBudget::begin(wire::Exchange& exchange, const wire::BodyMemory* bodies, size_t bytes) {
  bytes_ = bytes;
  const wire::PeerInfo* peer = exchange.request().peer;
  if (base::MemoryLedger* ledger = exchange.memory())
    memory_ = std::make_unique<RenderingMemory>(ledger, bodies, peer ? peer->client : base::ClientRef());
}

msg::TextBudget RenderingBudget::next(const std::atomic<bool>* cancelled) const {
  msg::TextBudget out{.cancelled = cancelled, .memory = memory_ ? &memory_->charge : nullptr};
  if (long_) return out;
  out.steps = kSteps + kStepsPerByte * bytes_;
  out.bytes = kBytes + kBytesPerByte * bytes_;
  return out;
}

bool RenderingBudget::needs_more(ApiError& error) {
  if (error.status.code != base::Code::kAborted || std::exchange(long_, true)) return false;
  error = {};
  return true;
}

}  // namespace weir::openai
