#include "bus/stats.h"

namespace weir::bus {

void ModelStats::add_failure(base::Code code, uint64_t duration_ns) {
  fail.add(duration_ns);
  if (code == base::Code::kCancelled || code == base::Code::kDeadlineExceeded) return;
  bool busy = code == base::Code::kUnavailable || code == base::Code::kResourceExhausted;
  (busy ? rejected : errors).fetch_add(1, std::memory_order_relaxed);
}

void ModelStats::record_batch(uint32_t rows, uint64_t input_ns, uint64_t infer_ns, uint64_t output_ns) {
  runs.mine().add_batch(rows, {1, input_ns, infer_ns, output_ns});
}

void ModelStats::ran(const Ran& these) {
  using Which = RunCounts::Which;
  RunCounts::Cell& mine = runs.mine();
  for (Which count : {Which::kSuccess, Which::kQueue, Which::kInput, Which::kInfer, Which::kOutput})
    mine.add(count, these.calls);
  mine.add(Which::kSuccessNs, these.whole_ns), mine.add(Which::kQueueNs, these.queue_ns);
  mine.add(Which::kInputNs, these.input_ns), mine.add(Which::kInferNs, these.infer_ns);
  mine.add(Which::kOutputNs, these.output_ns);
  mine.add(Which::kInferences, these.rows), mine.add(Which::kExecutions, 1);
  mine.set_latest(these.at_ms);
  if (durations && these.calls == 1)
    durations->add({these.whole_ns, these.queue_ns, these.input_ns, these.infer_ns, these.output_ns}, these.at_ms);
}

}  // namespace weir::bus
