#include "text/rendering_budget.h"

namespace weir::text {
namespace {

// Beside the text's own: twenty milliseconds. Ordinary templates take a few hundred steps for each message.
constexpr uint64_t kSteps = 200'000;
constexpr size_t kBytes = size_t(256) << 10;
// A step for each byte is a tenth of what tokenizing it takes. Templates join a message to what stands around it piece
// by piece, and each time that is another text.
constexpr uint64_t kStepsPerByte = 1;
constexpr size_t kBytesPerByte = 8;

}  // namespace

void RenderingBudget::begin(size_t bytes, base::MemoryLedger* ledger, base::ClientRef client,
                            base::SteppedCharge::Owner owner) {
  bytes_ = bytes;
  if (ledger) memory_ = std::make_unique<RenderingMemory>(*ledger, std::move(client), owner);
}

msg::TextBudget RenderingBudget::next(const std::atomic<bool>* cancelled) const {
  msg::TextBudget out{.cancelled = cancelled, .memory = memory_ ? &memory_->charge : nullptr};
  if (long_) return out;
  out.steps = kSteps + kStepsPerByte * bytes_;
  out.bytes = kBytes + kBytesPerByte * bytes_;
  return out;
}

bool RenderingBudget::needs_more(const base::Status& error) {
  return error.code == base::Code::kAborted && !std::exchange(long_, true);
}

}  // namespace weir::text
