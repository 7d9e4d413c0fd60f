// ModelStats: what the Open Inference Protocol's statistics, the metrics page and the console read. Written by the lane
// (per batch) and by shards (rejections); read by anyone at any time. Durations in nanoseconds.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "bus/batch_ring.h"
#include "bus/token_stats.h"

namespace weir::bus {

struct DurationStat {
  std::atomic<uint64_t> count{0};
  std::atomic<uint64_t> ns{0};
  void add(uint64_t duration_ns, uint64_t times = 1) {
    count.fetch_add(times, std::memory_order_relaxed);
    ns.fetch_add(duration_ns, std::memory_order_relaxed);
  }
};

struct BatchStat {
  uint64_t count = 0;
  uint64_t input_ns = 0, infer_ns = 0, output_ns = 0;
};

struct ModelStats {
  std::atomic<uint64_t> inference_count{0};    // rows that ran
  std::atomic<uint64_t> execution_count{0};    // batches that ran
  std::atomic<uint64_t> last_inference_ms{0};  // Unix time
  DurationStat success, fail, queue, compute_input, compute_infer, compute_output;
  // Outcomes beside success; each call has one. `fail` has all that were lent, whatever their outcome.
  std::atomic<uint64_t> errors{0}, rejected{0}, cancelled{0}, expired{0};
  std::atomic<int64_t> pending{0};  // queued now, where their batches are made
  std::atomic<int64_t> held{0};     // waiting outside, for max_concurrency
  // All that wait now.
  uint64_t waiting() const {
    return uint64_t(std::max<int64_t>(pending.load(), 0) + std::max<int64_t>(held.load(), 0));
  }
  // Set for models that make tokens; made by their lane before anybody reads, null for others.
  std::unique_ptr<TokenStats> tokens;
  // The last batches of models with lanes, and where each instance runs ("cpu", "cuda:1"): set before anybody reads.
  BatchRing timeline;
  std::vector<std::string> places;

  // A lent call that failed. The bus counts `cancelled` and `expired` itself: it may know before the lane does.
  void add_failure(base::Code code, uint64_t duration_ns);
  void record_batch(uint32_t rows, uint64_t input_ns, uint64_t infer_ns, uint64_t output_ns);
  std::map<uint32_t, BatchStat> batches() const;  // by rows

 private:
  mutable std::mutex mutex_;
  std::map<uint32_t, BatchStat> batches_;
};

}  // namespace weir::bus
