// BatchRing: the last batches of a model, for whoever looks at a timeline of them. Written by its lanes, a few stores
// per batch, without a lock; read by anyone at any time. A record that is being written over while it is read is left
// out.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/env.h"

namespace weir::bus {

struct BatchRecord {
  uint64_t number = 0;  // counts the model's batches from 0
  uint32_t instance = 0;
  uint32_t calls = 0, rows = 0;
  // In this order. Steps that a batch does not have, as copies on the CPU, take no time.
  base::Time queued{};    // its call that has waited longest
  base::Time median{};    // and the one in the middle of all
  base::Time last{};      // and the one that came last
  base::Time started{};   // closed; it is gathered from here on
  base::Time gathered{};  // side by side in one place; copied to the device from here on
  base::Time arrived{};   // there; computed from here on
  base::Time computed{};  // copied back from here on
  base::Time landed{};    // taken apart from here on
  base::Time finished{};  // answered
};

class BatchRing {
 public:
  static constexpr size_t kRecords = 128;

  void add(const BatchRecord& record) {
    uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
    auto& slot = slots_[number % kRecords];
    // Release, as fences are not: whoever sees one of the words sees that the slot is being written.
    slot.state.store(2 * number + 1, std::memory_order_relaxed);
    size_t i = 0;
    auto put = [&](uint64_t word) { slot.words[i++].store(word, std::memory_order_release); };
    put(uint64_t(record.instance) << 32 | record.calls);
    put(record.rows);
    for (auto when : {record.queued, record.median, record.last, record.started, record.gathered, record.arrived,
                      record.computed, record.landed, record.finished})
      put(uint64_t(when.time_since_epoch().count()));
    slot.state.store(2 * number + 2, std::memory_order_release);
  }

  // The oldest first.
  std::vector<BatchRecord> latest() const;
  uint64_t count() const { return next_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kWords = 11;
  struct Slot {
    std::atomic<uint64_t> state{0};  // 2 n + 1: record n is being written; 2 n + 2: it is there
    std::array<std::atomic<uint64_t>, kWords> words{};
  };
  std::atomic<uint64_t> next_{0};
  std::array<Slot, kRecords> slots_;
};

}  // namespace weir::bus
