#include "bus/run_counts.h"

#include <algorithm>

namespace weir::bus {

RunCounts::~RunCounts() {
  for (auto& cell : cells_) delete cell.load(std::memory_order_relaxed);
}

// Threads without a number may come at the same time.
RunCounts::Cell& RunCounts::add_cell(uint32_t thread) {
  auto* fresh = new Cell(thread == base::kNumberedThreads);
  Cell* there = nullptr;
  if (cells_[thread].compare_exchange_strong(there, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;
  return *there;
}

template <class Visit>
void RunCounts::each(Visit visit) const {
  for (const auto& at : cells_)
    if (Cell* cell = at.load(std::memory_order_acquire)) visit(*cell);
}

void RunCounts::Cell::add_batch(uint32_t rows, const BatchStat& batch) {
  if (rows == 1) {
    put(alone_[0], batch.count), put(alone_[1], batch.input_ns);
    put(alone_[2], batch.infer_ns), put(alone_[3], batch.output_ns);
    return;
  }
  std::lock_guard lock(mutex_);
  batches_[rows] += batch;
}

uint64_t RunCounts::sum(Which which) const {
  uint64_t out = 0;
  each([&](const Cell& cell) { out += cell.counts_[which].load(std::memory_order_relaxed); });
  return out;
}

uint64_t RunCounts::latest() const {
  uint64_t out = 0;
  each([&](const Cell& cell) { out = std::max(out, cell.latest_.load(std::memory_order_relaxed)); });
  return out;
}

std::map<uint32_t, BatchStat> RunCounts::batches() const {
  std::map<uint32_t, BatchStat> out;
  each([&](Cell& cell) {
    auto at = [&](size_t i) { return cell.alone_[i].load(std::memory_order_relaxed); };
    if (at(0) > 0) out[1] += {at(0), at(1), at(2), at(3)};
    std::lock_guard lock(cell.mutex_);
    for (const auto& [rows, batch] : cell.batches_) out[rows] += batch;
  });
  return out;
}

}  // namespace weir::bus
