// MemoryLedger: all memory that peers cause, in one account with a hard total.
//
// Slabs (device/pool.h), answers outside of slabs, request bytes that wait for a slab, scratch of decoders and what
// sessions keep are charged here, so that the sum is bounded and not only each part. take() asks before the memory is
// allocated; who is refused refuses its request (RESOURCE_EXHAUSTED, 503) and does not wait. A share of the budget
// is never given to slabs, nor to processes of models: the requests that hold slabs can be answered, also when slabs
// are spent. Sessions get half of it at most, because nobody gives them back soon.
//
// Any thread. The total is one shared atomic: charge pieces of 4 KiB and more by themselves, and smaller ones through a
// MemoryShare, which belongs to one shard and touches the total once per 64 KiB.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/overload.h"

namespace weir::base {

enum class MemoryKind : uint8_t {
  kSlabs,      // of a SlabPool: bodies, messages, tensors, batches; with the idle slabs that it keeps for reuse
  kInput,      // request bytes outside of slabs: kept aside, heads, decompressors
  kDecoding,   // what decoders make outside of slabs: protobuf's JSON, tensors for which there was no slab
  kAnswers,    // answers outside of slabs, until the socket has taken them
  kSessions,   // what outlives a request
  kProcesses,  // shared with models in processes of their own: their inputs and outputs, kept for the next ones
};
inline constexpr size_t kMemoryKinds = 6;
std::string_view name(MemoryKind kind);  // "slabs", "input", …: labels of weir_tracked_bytes

class MemoryLedger {
 public:
  // Slabs get the budget less `kept`, in bytes.
  explicit MemoryLedger(uint64_t budget, uint64_t kept = 0, OverloadShares shares = OverloadShares::never());
  MemoryLedger(const MemoryLedger&) = delete;

  // Charges `bytes`, or returns false and charges nothing: they would pass the budget even if idle slabs were given up.
  bool take(MemoryKind kind, uint64_t bytes);
  // Whether take() would succeed now.
  bool has_room(MemoryKind kind, uint64_t bytes) const;
  // Charges what is there already and cannot be refused; may pass the budget.
  void add(MemoryKind kind, uint64_t bytes);
  // kQuiet: whoever gives takes the room at once, so nobody is woken for it.
  enum class Wake : uint8_t { kWaiting, kQuiet };
  void give(MemoryKind kind, uint64_t bytes, Wake wake = Wake::kWaiting);

  uint64_t budget() const { return budget_; }
  // The most that slabs may take.
  uint64_t slab_limit() const { return budget_ - kept_; }
  // All that is charged, less what idle slabs would give back.
  uint64_t held() const;
  uint64_t held(MemoryKind kind) const { return kinds_[size_t(kind)].load(std::memory_order_relaxed); }

  // The step of the overload ladder as of the last update_overload().
  Overload overload() const { return step_.load(std::memory_order_relaxed); }
  bool at_least(Overload step) const { return overload() >= step; }
  // Finds the step anew: before work is taken on, and as often as limits are looked after.
  Overload update_overload();
  // Called by the thread that finds a step which differs from the last one; before any update_overload().
  void on_step(std::function<void(Overload)> changed) { changed_ = std::move(changed); }
  // For the refused: "memory is short: 1900MiB of 2GiB (limits.slab_budget) are in use".
  std::string shortage() const;

  // The keeper of idle slabs: how much it keeps, and to give it all back. One; it outlives the ledger's use.
  struct Idle {
    std::function<uint64_t()> bytes;
    std::function<void()> trim;  // by give(), kQuiet
  };
  void keep_idle(Idle idle) { idle_ = std::move(idle); }

  // Each function is called, from the thread that gives back, when there is room after take() had been refused. They
  // must outlive the ledger's use.
  void on_room(std::function<void()> wake);
  // There is room that give() does not know of: an idle slab.
  void notify_room();
  // The system refused memory that the ledger had granted, and somebody waits: the next give() or notify_room() wakes.
  void note_refused() { refused_.store(true); }

 private:
  uint64_t limit(MemoryKind kind) const {
    return kind == MemoryKind::kSlabs || kind == MemoryKind::kProcesses ? slab_limit() : budget_;
  }
  bool full_of_sessions(MemoryKind kind, uint64_t bytes) const;
  bool charge(MemoryKind kind, uint64_t bytes);
  bool squeeze(MemoryKind kind, uint64_t bytes);

  const uint64_t budget_, kept_;
  const OverloadShares shares_;
  alignas(64) std::atomic<uint64_t> total_{0};
  std::atomic<bool> refused_{false};  // take() has returned false since the last wake
  std::array<std::atomic<uint64_t>, kMemoryKinds> kinds_{};
  std::atomic<Overload> step_{Overload::kNone};
  std::function<void(Overload)> changed_;
  Idle idle_;
  std::mutex listeners_mutex_;
  std::vector<std::function<void()>> listeners_;
};

// A charge that ends with its holder. Any one thread at a time.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(MemoryLedger& ledger, MemoryKind kind) : ledger_(&ledger), kind_(kind) {}
  MemoryCharge(MemoryCharge&& o) noexcept : ledger_(o.ledger_), kind_(o.kind_), bytes_(std::exchange(o.bytes_, 0)) {}
  MemoryCharge& operator=(MemoryCharge&& o) noexcept {
    std::swap(ledger_, o.ledger_), std::swap(kind_, o.kind_), std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~MemoryCharge() { clear(); }

  // False: no room; the charge stays as it was. Without a ledger there is always room.
  bool grow(uint64_t more) {
    if (ledger_ && !ledger_->take(kind_, more)) return false;
    bytes_ += more;
    return true;
  }
  // Grows, or shrinks without waking anybody: for a charge that follows something back and forth.
  bool resize(uint64_t bytes) {
    if (bytes > bytes_) return grow(bytes - bytes_);
    if (ledger_) ledger_->give(kind_, bytes_ - bytes, MemoryLedger::Wake::kQuiet);
    bytes_ = bytes;
    return true;
  }
  void clear() {
    if (ledger_ && bytes_ > 0) ledger_->give(kind_, bytes_);
    bytes_ = 0;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  MemoryLedger* ledger_ = nullptr;
  MemoryKind kind_ = MemoryKind::kInput;
  uint64_t bytes_ = 0;
};

// One shard's part of one kind, in steps of 64 KiB: counting is an addition. Used on one thread; it gives back what it
// has when it is destroyed.
class MemoryShare {
 public:
  static constexpr uint64_t kStep = 64 << 10;

  MemoryShare(MemoryLedger& ledger, MemoryKind kind) : ledger_(ledger), kind_(kind) {}
  ~MemoryShare() { ledger_.give(kind_, borrowed_); }
  MemoryShare(const MemoryShare&) = delete;

  bool take(uint64_t bytes) {
    if (used_ + bytes > borrowed_ && !borrow(bytes)) return false;
    used_ += bytes;
    return true;
  }
  void add(uint64_t bytes) {
    if (take(bytes)) return;
    ledger_.add(kind_, bytes);
    borrowed_ += bytes, used_ += bytes;
  }
  void give(uint64_t bytes) {
    used_ -= bytes;
    if (borrowed_ - used_ > 4 * kStep) give_back();
  }
  uint64_t used() const { return used_; }

 private:
  bool borrow(uint64_t bytes);
  void give_back();

  MemoryLedger& ledger_;
  const MemoryKind kind_;
  uint64_t used_ = 0, borrowed_ = 0;
};

// Whether heap_slab() or Bytes::adopt() made the slab, so that no pool has charged it. Null, of constants, is none.
bool on_heap(const Slab* slab);

// Whether waiting for a slab of so many bytes, for which `slabs` had none, would be in vain: hopeless(), or work is
// refused for want of memory, and what has come of it had better go.
bool wait_in_vain(SlabSource& slabs, size_t bytes);

// Smaller Bytes are not charged by themselves: it would cost more than it tells.
inline constexpr size_t kLeastCharged = 4096;

// `text` as Bytes whose memory is charged until the last slice of them goes, on whichever thread. Nothing: there is no
// room, and the text is gone. Without a ledger, and below kLeastCharged: as Bytes::adopt().
std::optional<Bytes> adopt(MemoryLedger* ledger, MemoryKind kind, std::string text);
// The same for Bytes of any origin; those of a slab that is charged already stay as they are. `*bytes` is as it was
// when there is no room.
bool charge(MemoryLedger* ledger, MemoryKind kind, Bytes& bytes);

// A slab of `slabs`; where those are spent, one of the heap that is charged to their ledger, so out of what is kept for
// answers. Never null: throws bad_alloc where that has no room either, as the heap does; each request's border turns it
// into a refusal. For what a request needs to go on: it cannot wait for itself.
Slab* take_now(SlabSource& slabs, size_t bytes);

}  // namespace weir::base
