// WaitingAnswers: bytes of a decoupled model's answers that wait for whoever asked, by tenant; of all instances. They
// wait from when the child has sent them until their peer has taken them. Each call has a window of them, and one
// client has many calls; so once more than half of the memory is in use, a client may have no more than its share of it
// here (base/client.h).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/client.h"
#include "base/memory_ledger.h"
#include "base/status.h"
#include "base/units.h"
#include "msg/tenant.h"

namespace weir::process {

struct AnswerLimit {
  const base::MemoryLedger* memory = nullptr;  // null: nobody is limited
  base::ShareRule share{};
};

// Any thread.
class WaitingAnswers {
 public:
  explicit WaitingAnswers(AnswerLimit limit) : limit_(limit) {}

  // Errors: RESOURCE_EXHAUSTED; nothing has changed then.
  base::Status add(uint64_t tenant, uint64_t bytes) {
    if (bytes == 0) return {};
    std::lock_guard lock(mutex_);
    const auto found = bytes_.find(tenant);
    const uint64_t own = found == bytes_.end() ? 0 : found->second;
    const auto* memory = tenant == 0 || msg::speaks_for_many(tenant) ? nullptr : limit_.memory;
    if (memory && !limit_.share.allows(own, bytes, memory->held(), memory->budget()))
      return base::try_again(base::Code::kResourceExhausted,
                             "answers of " + base::show_size(own) +
                                 " wait for you to read them, and more than half of all memory (limits.slab_budget) "
                                 "is in use (limits.client_share); try again later");
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
  const AnswerLimit limit_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, uint64_t> bytes_;
};

}  // namespace weir::process
