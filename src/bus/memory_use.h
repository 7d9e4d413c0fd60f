// MemoryUse: the memory that one model version has for as long as it is loaded, for the protocols' statistics.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bus/catalog.h"

namespace weir::bus {

struct MemoryUse {
  std::string_view what;  // "weights", "adapters", "kv": a literal
  std::string place;      // "cpu", "cuda:1"
  uint64_t bytes = 0;
};

// An Inbox that may stand in front of a model's engines is one of these, too. Whoever loads the model tells the
// outermost one, before anybody reads.
class TellsMemory {
 public:
  const std::vector<MemoryUse>& memory() const { return memory_; }
  void set_memory(std::vector<MemoryUse> memory) { memory_ = std::move(memory); }

 protected:
  ~TellsMemory() = default;

 private:
  std::vector<MemoryUse> memory_;
};

// Nothing of a model that runs elsewhere, or is not in memory.
inline std::vector<MemoryUse> memory_of(const Served& served) {
  const auto* tells = dynamic_cast<const TellsMemory*>(served.inbox.get());
  auto out = tells ? tells->memory() : std::vector<MemoryUse>();
  // Adapters that have come since are in the host's memory.
  if (uint64_t bytes = served.adapters ? served.adapters->bytes() : 0; bytes > 0) {
    auto at = std::find_if(out.begin(), out.end(), [](const auto& use) { return use.what == "adapters"; });
    if (at == out.end()) at = out.insert(out.end(), {"adapters", "cpu", 0});
    at->bytes += bytes;
  }
  return out;
}

}  // namespace weir::bus
