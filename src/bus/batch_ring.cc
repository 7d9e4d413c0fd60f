#include "bus/batch_ring.h"

#include <algorithm>

namespace weir::bus {

std::vector<BatchRecord> BatchRing::latest() const {
  std::vector<BatchRecord> out;
  uint64_t end = count();
  for (uint64_t number = end > kRecords ? end - kRecords : 0; number < end; ++number) {
    const auto& slot = slots_[number % kRecords];
    if (slot.state.load(std::memory_order_acquire) != 2 * number + 2) continue;
    std::array<uint64_t, kWords> words;
    for (size_t i = 0; i < words.size(); ++i) words[i] = slot.words[i].load(std::memory_order_acquire);
    if (slot.state.load(std::memory_order_relaxed) != 2 * number + 2) continue;
    auto time = [&](size_t i) { return base::Time(base::Duration(int64_t(words[i]))); };
    out.push_back({number, uint32_t(words[0] >> 32), uint32_t(words[0]), uint32_t(words[1]), time(2), time(3), time(4),
                   time(5), time(6), time(7), time(8), time(9), time(10)});
  }
  return out;
}

}  // namespace weir::bus
