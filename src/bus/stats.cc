#include "bus/stats.h"

namespace weir::bus {

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
