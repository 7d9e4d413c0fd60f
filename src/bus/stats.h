// ModelStats: the counters of one model, which the Open Inference Protocol's statistics, /metrics and the console show.
// Written by its lanes (per batch) and by shards (refused calls); read from any thread. Durations are in nanoseconds.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "bus/batch_ring.h"
#include "bus/call_durations.h"
#include "bus/run_counts.h"
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

// The same of what RunCounts has.
struct RunDuration {
  RunCount count, ns;
  void add(uint64_t duration_ns, uint64_t times = 1) { count.add(times), ns.add(duration_ns); }
};

struct ModelStats {
  RunCounts runs;
  RunCount inference_count{runs, RunCounts::kInferences};  // rows that ran
  RunCount execution_count{runs, RunCounts::kExecutions};  // batches that ran
  RunDuration success{{runs, RunCounts::kSuccess}, {runs, RunCounts::kSuccessNs}};
  RunDuration queue{{runs, RunCounts::kQueue}, {runs, RunCounts::kQueueNs}};
  RunDuration compute_input{{runs, RunCounts::kInput}, {runs, RunCounts::kInputNs}};
  RunDuration compute_infer{{runs, RunCounts::kInfer}, {runs, RunCounts::kInferNs}};
  RunDuration compute_output{{runs, RunCounts::kOutput}, {runs, RunCounts::kOutputNs}};
  DurationStat fail;
  // How calls ended that did not succeed, one of these each. `fail` counts those of them that a lane had been given.
  std::atomic<uint64_t> errors{0}, rejected{0}, cancelled{0}, expired{0};
  std::atomic<int64_t> pending{0};  // calls in the lane's queue now; of a pipeline: all that are inside
  std::atomic<int64_t> held{0};     // calls that wait before it: max_concurrency, sequences
  // All calls that wait now; of a pipeline those whose steps run are among them.
  uint64_t waiting() const {
    return uint64_t(std::max<int64_t>(pending.load(), 0) + std::max<int64_t>(held.load(), 0));
  }
  // Set before the first call; null: nobody asks for them. Models that generate tokens have nothing in them.
  std::unique_ptr<CallDurations> durations;
  // The lane of a model that generates tokens makes it before anybody reads. Null for other models.
  std::unique_ptr<TokenStats> tokens;
  // The last batches of models with lanes, and where each instance runs ("cpu", "cuda:1"): set before anybody reads.
  BatchRing timeline;
  std::vector<std::string> places;

  // Calls that ran together, and have succeeded; the times are those of all of them, added up. A call that ran alone is
  // one of `durations`, too; of several the caller adds each there.
  struct Ran {
    uint64_t at_ms;  // Unix time
    uint64_t calls = 1, rows = 1;
    uint64_t whole_ns = 0, queue_ns = 0, input_ns = 0, infer_ns = 0, output_ns = 0;
  };
  void ran(const Ran& these);
  void set_last_inference(uint64_t at_ms) { runs.mine().set_latest(at_ms); }
  // Counts a call that failed in a lane. The bus counts `cancelled` and `expired`: it may know before the lane does.
  void add_failure(base::Code code, uint64_t duration_ns);
  void record_batch(uint32_t rows, uint64_t input_ns, uint64_t infer_ns, uint64_t output_ns);
  std::map<uint32_t, BatchStat> batches() const { return runs.batches(); }  // by rows
};

}  // namespace weir::bus
