// WaitingAnswers: bytes of a decoupled model's answers that wait for whoever asked, by tenant; of all instances.
// kWindow answers of each call may wait, and one client has many calls; so once more than half of the memory is in use,
// a client may have no more than a share of it here (base/client.h).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/client.h"
#include "base/memory_ledger.h"
#include "base/status.h"
#include "base/units.h"
#include "msg/call.h"
#include "msg/tenant.h"

namespace weir::process {

inline uint64_t bytes_of(const msg::Outputs& outputs) {
  uint64_t bytes = 0;
  for (const auto& tensor : outputs.tensors) bytes += tensor.data.size();
  return bytes;
}
inline uint64_t bytes_of(const msg::Event& answer) {
  const auto* outputs = std::get_if<msg::Outputs>(&answer.what);
  return outputs ? bytes_of(*outputs) : 0;
}

// Any thread.
class WaitingAnswers {
 public:
  explicit WaitingAnswers(const base::MemoryLedger* memory) : memory_(memory) {}  // null: nobody is limited

  // Errors: RESOURCE_EXHAUSTED; nothing has changed then.
  base::Status add(uint64_t tenant, uint64_t bytes) {
    if (bytes == 0) return {};
    std::lock_guard lock(mutex_);
    const auto found = bytes_.find(tenant);
    const uint64_t own = found == bytes_.end() ? 0 : found->second;
    const bool limited = memory_ && tenant != 0 && !msg::speaks_for_many(tenant);
    if (limited && !base::ShareRule().allows(own, bytes, memory_->held(), memory_->budget()))
      return base::try_again(base::Code::kResourceExhausted,
                             "answers of " + base::show_size(own) +
                                 " wait for you to read them, and more than half of all memory (limits.slab_budget) "
                                 "is in use; try again later");
    bytes_[tenant] = own + bytes;
    return {};
  }
  void remove(uint64_t tenant, uint64_t bytes) {
    std::lock_guard lock(mutex_);
    const auto found = bytes_.find(tenant);
    if (found != bytes_.end() && (found->second -= bytes) == 0) bytes_.erase(found);
  }
  size_t tenants() const {  // that have some
    std::lock_guard lock(mutex_);
    return bytes_.size();
  }

 private:
  const base::MemoryLedger* const memory_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, uint64_t> bytes_;
};

}  // namespace weir::process
