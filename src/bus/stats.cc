#include "bus/stats.h"

namespace weir::bus {

void ModelStats::add_failure(base::Code code, uint64_t duration_ns) {
  fail.add(duration_ns);
  if (code == base::Code::kCancelled || code == base::Code::kDeadlineExceeded) return;
  bool busy = code == base::Code::kUnavailable || code == base::Code::kResourceExhausted;
  (busy ? rejected : errors).fetch_add(1, std::memory_order_relaxed);
}

void ModelStats::record_batch(uint32_t rows, uint64_t input_ns, uint64_t infer_ns, uint64_t output_ns) {
  std::lock_guard lock(mutex_);
  auto& row = batches_[rows];
  ++row.count;
  row.input_ns += input_ns;
  row.infer_ns += infer_ns;
  row.output_ns += output_ns;
}

std::map<uint32_t, BatchStat> ModelStats::batches() const {
  std::lock_guard lock(mutex_);
  return batches_;
}

}  // namespace weir::bus
