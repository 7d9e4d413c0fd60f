#include "base/memory_ledger.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/units.h"

namespace weir::base {
namespace {

// Other Bytes, and the charge for them.
struct ChargedSlab final : Slab {
  MemoryCharge charge;  // ends last: who is woken by it finds the memory
  Bytes held;

  ChargedSlab(Bytes all, MemoryCharge c)
      : Slab(const_cast<std::byte*>(all.data()), all.size(), give_back), charge(std::move(c)), held(std::move(all)) {}
  static void give_back(Slab* slab) { delete static_cast<ChargedSlab*>(slab); }
};

Bytes with(MemoryCharge charge, Bytes bytes) {
  auto* slab = new ChargedSlab(std::move(bytes), std::move(charge));
  return {slab, slab->data, slab->capacity};
}

}  // namespace

std::string_view name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kSlabs: return "slabs";
    case MemoryKind::kInput: return "input";
    case MemoryKind::kDecoding: return "decoding";
    case MemoryKind::kAnswers: return "answers";
    case MemoryKind::kSessions: return "sessions";
    case MemoryKind::kProcesses: return "processes";
  }
  return "";
}

MemoryLedger::MemoryLedger(uint64_t budget, uint64_t kept, OverloadShares shares)
    : budget_(budget), kept_(std::min(kept, budget)), shares_(shares) {}

bool MemoryLedger::full_of_sessions(MemoryKind kind, uint64_t bytes) const {
  const uint64_t most = budget_ / 2;
  return kind == MemoryKind::kSessions && (bytes > most || held(kind) > most - bytes);
}

bool MemoryLedger::charge(MemoryKind kind, uint64_t bytes) {
  if (full_of_sessions(kind, bytes)) return false;
  const uint64_t most = limit(kind);
  auto now = total_.load();
  do {
    if (bytes > most || now > most - bytes) return false;
  } while (!total_.compare_exchange_weak(now, now + bytes));
  kinds_[size_t(kind)].fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

// Refused is who is refused twice: between the two either the memory came, or who brings it sees that somebody waits.
bool MemoryLedger::take(MemoryKind kind, uint64_t bytes) {
  if (charge(kind, bytes) || squeeze(kind, bytes)) return true;
  refused_.store(true);
  return charge(kind, bytes) || squeeze(kind, bytes);
}

bool MemoryLedger::squeeze(MemoryKind kind, uint64_t bytes) {
  if (!idle_.bytes || idle_.bytes() == 0) return false;
  idle_.trim();
  return charge(kind, bytes);
}

bool MemoryLedger::has_room(MemoryKind kind, uint64_t bytes) const {
  const uint64_t most = limit(kind);
  return !full_of_sessions(kind, bytes) && bytes <= most && held() <= most - bytes;
}

void MemoryLedger::add(MemoryKind kind, uint64_t bytes) {
  total_.fetch_add(bytes);
  kinds_[size_t(kind)].fetch_add(bytes, std::memory_order_relaxed);
}

void MemoryLedger::give(MemoryKind kind, uint64_t bytes, Wake wake) {
  if (bytes == 0) return;
  kinds_[size_t(kind)].fetch_sub(bytes, std::memory_order_relaxed);
  auto before = total_.fetch_sub(bytes);
  check(before >= bytes, "memory comes back once");
  if (wake == Wake::kWaiting) notify_room();
}

uint64_t MemoryLedger::held() const {
  uint64_t total = total_.load(std::memory_order_relaxed), idle = idle_.bytes ? idle_.bytes() : 0;
  return total - std::min(total, idle);
}

Overload MemoryLedger::update_overload() {
  Overload was = overload();
  const Overload is = overload_step(shares_, was, held(), budget_);
  if (is != was && step_.compare_exchange_strong(was, is) && changed_) changed_(is);
  return is;
}

std::string MemoryLedger::shortage() const {
  constexpr uint64_t kMiB = 1 << 20;
  return "memory is short: " + show_size(held() / kMiB * kMiB) + " of " + show_size(budget_) +
         " (limits.slab_budget) are in use";
}

void MemoryLedger::on_room(std::function<void()> wake) {
  std::lock_guard lock(listeners_mutex_);
  listeners_.push_back(std::move(wake));
}

void MemoryLedger::notify_room() {
  if (!refused_.load() || !refused_.exchange(false)) return;
  std::vector<std::function<void()>> all;
  {
    std::lock_guard lock(listeners_mutex_);
    all = listeners_;
  }
  for (auto& wake : all) wake();
}

bool MemoryShare::borrow(uint64_t bytes) {
  uint64_t lacking = used_ + bytes - borrowed_;
  uint64_t step = std::max(lacking, kStep);
  if (!ledger_.take(kind_, step)) {
    if (step == lacking || !ledger_.take(kind_, lacking)) return false;
    step = lacking;
  }
  borrowed_ += step;
  return true;
}

void MemoryShare::give_back() {
  uint64_t keep = used_ + kStep;
  ledger_.give(kind_, borrowed_ - keep);
  borrowed_ = keep;
}

bool wait_in_vain(SlabSource& slabs, size_t bytes) {
  if (slabs.hopeless(bytes)) return true;
  MemoryLedger* ledger = slabs.ledger();
  return ledger && ledger->update_overload() >= Overload::kRefuse;
}

bool charge(MemoryLedger* ledger, MemoryKind kind, Bytes& bytes) {
  if (!ledger || bytes.size() < kLeastCharged || !on_heap(bytes.slab())) return true;
  MemoryCharge charge(*ledger, kind);
  if (!charge.grow(bytes.size())) return false;
  bytes = with(std::move(charge), std::move(bytes));
  return true;
}

std::optional<Bytes> adopt(MemoryLedger* ledger, MemoryKind kind, std::string text) {
  Bytes bytes = Bytes::adopt(std::move(text));
  if (!charge(ledger, kind, bytes)) return std::nullopt;
  return bytes;
}

Slab* take_now(SlabSource& slabs, size_t bytes) {
  if (Slab* slab = slabs.take(bytes)) return slab;
  MemoryLedger* ledger = slabs.ledger();
  if (!ledger) return heap_slab(bytes);
  MemoryCharge charge(*ledger, MemoryKind::kDecoding);
  if (!charge.grow(bytes)) throw std::bad_alloc();
  Slab* heap = heap_slab(bytes);
  return new ChargedSlab(Bytes(heap, heap->data, heap->capacity), std::move(charge));
}

}  // namespace weir::base
