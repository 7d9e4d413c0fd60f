// RunCounts: how much of a model has run. All threads that run it count, each in a cell of its own: shards that serve
// one model share no cache line, and none pays for an atomic read-modify-write (bench/README.md). A read adds the cells
// up.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/metrics.h"
#include "base/thread_number.h"

namespace weir::bus {

// Batches of one size. Nanoseconds.
struct BatchStat {
  uint64_t count = 0;
  uint64_t input_ns = 0, infer_ns = 0, output_ns = 0;

  void operator+=(const BatchStat& more) {
    count += more.count, input_ns += more.input_ns, infer_ns += more.infer_ns, output_ns += more.output_ns;
  }
};

// Any thread.
class RunCounts {
 public:
  enum Which : uint8_t {
    kInferences,
    kExecutions,
    kSuccess,
    kSuccessNs,
    kQueue,
    kQueueNs,
    kInput,
    kInputNs,
    kInfer,
    kInferNs,
    kOutput,
    kOutputNs,
    kWhich
  };

  // A thread's own.
  class Cell {
   public:
    void add(Which which, uint64_t n) { put(counts_[which], n); }
    void set_latest(uint64_t at_ms) { latest_.store(at_ms, std::memory_order_relaxed); }
    void add_batch(uint32_t rows, const BatchStat& batch);

   private:
    friend RunCounts;
    explicit Cell(bool shared) : shared_(shared) {}
    void put(std::atomic<uint64_t>& to, uint64_t n) {
      if (shared_)
        to.fetch_add(n, std::memory_order_relaxed);
      else
        base::add_alone(to, n);
    }

    alignas(64) std::array<std::atomic<uint64_t>, kWhich> counts_{};
    std::atomic<uint64_t> latest_{0};
    std::array<std::atomic<uint64_t>, 4> alone_{};  // batches of one row, as BatchStat has them
    std::mutex mutex_;
    std::map<uint32_t, BatchStat> batches_;  // under the mutex: the others, by rows
    const bool shared_;                      // by threads that have no number
  };

  RunCounts() = default;
  ~RunCounts();
  RunCounts(const RunCounts&) = delete;

  // The calling thread's.
  Cell& mine() {
    const uint32_t thread = base::thread_number();
    Cell* cell = cells_[thread].load(std::memory_order_acquire);
    return cell ? *cell : add_cell(thread);
  }
  uint64_t sum(Which which) const;
  uint64_t latest() const;  // Unix time in ms; 0: never
  std::map<uint32_t, BatchStat> batches() const;

 private:
  Cell& add_cell(uint32_t thread);
  template <class Visit>
  void each(Visit visit) const;

  std::array<std::atomic<Cell*>, base::kNumberedThreads + 1> cells_{};
};

// One of the counts.
class RunCount {
 public:
  RunCount(RunCounts& all, RunCounts::Which which) : all_(all), which_(which) {}
  void add(uint64_t n = 1) { all_.mine().add(which_, n); }
  uint64_t load() const { return all_.sum(which_); }
  operator uint64_t() const { return load(); }

 private:
  RunCounts& all_;
  const RunCounts::Which which_;
};

}  // namespace weir::bus
