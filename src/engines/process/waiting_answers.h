// WaitingAnswers: bytes of a decoupled model's answers that wait for whoever asked, by tenant; of all instances. They
// wait from when the child has sent them until their peer has taken them. Each call has a window of them, and one
// client has many calls; so once more than half of the memory is in use, a client may have no more than its share of it
// here (base/client.h).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/client.h"
#include "base/memory_ledger.h"
#include "base/status.h"
#include "base/units.h"
#include "msg/call.h"
#include "msg/credit.h"
#include "msg/tenant.h"

namespace weir::process {

struct AnswerLimit {
  const base::MemoryLedger* memory = nullptr;  // null: nobody is limited
  base::ShareRule share{};
};

// Any thread.
class WaitingAnswers : public std::enable_shared_from_this<WaitingAnswers> {
 public:
  // An answer counts for as long as this is kept, which keeps the WaitingAnswers, too.
  using Charge = std::shared_ptr<const void>;

  explicit WaitingAnswers(AnswerLimit limit) : limit_(limit) {}

  // Counts an answer's bytes; null for one without any. Its tensors keep the charge from then on, since nobody else
  // knows when the peer has read the last one of a call. Errors: RESOURCE_EXHAUSTED; nothing has changed then.
  base::Result<Charge> add(uint64_t tenant, msg::Outputs& answer) {
    const uint64_t bytes = msg::bytes_of(answer);
    if (bytes == 0) return Charge();
    auto charge = std::make_shared<Counted>(*this, tenant);
    if (base::Status full = count(tenant, bytes); !full.ok()) return full;
    charge->bytes = bytes;
    for (auto& tensor : answer.tensors)
      if (!tensor.data.empty()) tensor.data = (new Kept(charge, std::move(tensor.data)))->take();
    return Charge(std::move(charge));
  }
  size_t tenants() const {  // that have some
    std::lock_guard lock(mutex_);
    return bytes_.size();
  }

 private:
  struct Counted {
    Counted(WaitingAnswers& counts_in, uint64_t of) : all(counts_in.shared_from_this()), tenant(of) {}
    Counted(const Counted&) = delete;
    ~Counted() { all->remove(tenant, bytes); }
    const std::shared_ptr<WaitingAnswers> all;
    const uint64_t tenant;
    uint64_t bytes = 0;
  };
  // The slab of a tensor, with a charge.
  struct Kept : base::Slab {
    Kept(std::shared_ptr<Counted> its_charge, base::Bytes bytes)
        : Slab(const_cast<std::byte*>(bytes.data()), bytes.slab() ? bytes.slab()->capacity : bytes.size(),
               [](Slab* slab) { delete static_cast<Kept*>(slab); }),
          charge(std::move(its_charge)),
          of(std::move(bytes)) {}
    base::Bytes take() { return {this, of.data(), of.size()}; }
    const std::shared_ptr<Counted> charge;
    const base::Bytes of;
  };

  base::Status count(uint64_t tenant, uint64_t bytes) {
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

  const AnswerLimit limit_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, uint64_t> bytes_;
};

}  // namespace weir::process
