#include "sched/fair_queue.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/release.h"

namespace weir::sched {
namespace {

constexpr size_t kFewTenants = 32;  // that are never looked through for those that are gone
constexpr size_t kFewRounds = 32;
constexpr size_t kFewCalls = 4096;  // whose memory an empty queue keeps

}  // namespace

FairQueue::Slot FairQueue::push(uint64_t id, uint32_t rows) {
  uint32_t of = tenant(id);
  Slot slot = free_;
  if (slot == kNone) {
    slot = Slot(calls_.size());
    calls_.emplace_back();
  } else {
    free_ = calls_[slot].next;
  }
  calls_[slot].rows = rows, calls_[slot].tenant = of, calls_[slot].delayed = false;
  ++size_, ++tenants_[of].calls;
  join(slot);
  return slot;
}

void FairQueue::delay(Slot slot) {
  unlink(slot);
  calls_[slot].delayed = true;
  join(slot);
}

void FairQueue::serve(Slot slot) {
  const auto& call = calls_[slot];
  auto& line = lines_[call.delayed];
  uint64_t end = call.start + call.rows;
  tenants_[call.tenant].lines[call.delayed].end = end;
  line.next = std::max(line.next, ((call.start >> shift_) + 1) << shift_);
  line.end = std::max(line.end, end);
  unlink(slot);
  if (line.head == kNone) line.next = std::max(line.next, line.end);  // nobody waits: all are even again
  forget(slot);
}

void FairQueue::leave(Slot slot) {
  unlink(slot);
  forget(slot);
}

// Behind the calls of its own round and of those before it.
void FairQueue::join(Slot slot) {
  auto& call = calls_[slot];
  auto& line = lines_[call.delayed];
  auto& own = tenants_[call.tenant].lines[call.delayed];
  bool alone = own.newest == kNone;
  call.start = alone ? std::max(line.next, own.end) : calls_[own.newest].start + calls_[own.newest].rows;
  call.older = own.newest, call.newer = kNone;
  if (!alone) calls_[own.newest].newer = slot;
  own.newest = slot;
  place(line, slot);
}

void FairQueue::place(Line& line, Slot slot) {
  uint64_t round = round_of(slot);
  if (line.head == kNone) line.first = line.last = round;
  uint64_t span = std::max(round, line.last) - std::min(round, line.first);
  if (span >= line.rounds.size()) reach(line, span + 1);
  Slot before = line.tail;
  if (round < line.last) {
    before = kNone;
    for (uint64_t r = round; before == kNone && r >= line.first; --r) before = last_of(line, r);
  }
  insert(line, slot, before);
  last_of(line, round) = slot;
}

// Behind `before`; kNone: as the first.
void FairQueue::insert(Line& line, Slot slot, Slot before) {
  Slot next = before == kNone ? line.head : calls_[before].next;
  calls_[slot].before = before, calls_[slot].next = next;
  if (before == kNone)
    line.head = slot, line.first = round_of(slot);
  else
    calls_[before].next = slot;
  if (next == kNone)
    line.tail = slot, line.last = round_of(slot);
  else
    calls_[next].before = slot;
}

// Makes the ring as long as so many rounds.
void FairQueue::reach(Line& line, uint64_t rounds) {
  if (rounds <= line.rounds.size()) return;
  line.rounds.assign(std::bit_ceil(std::max<uint64_t>(rounds, kFewRounds)), kNone);
  for (Slot slot = line.head; slot != kNone; slot = calls_[slot].next) last_of(line, round_of(slot)) = slot;
}

void FairQueue::unlink(Slot slot) {
  const auto call = calls_[slot];
  auto& line = lines_[call.delayed];
  uint64_t round = call.start >> shift_;
  if (auto& last = last_of(line, round); last == slot)
    last = call.before != kNone && round_of(call.before) == round ? call.before : kNone;
  if (call.before != kNone)
    calls_[call.before].next = call.next;
  else if (line.head = call.next; call.next != kNone)
    line.first = round_of(call.next);
  if (call.next != kNone)
    calls_[call.next].before = call.before;
  else if (line.tail = call.before; call.before != kNone)
    line.last = round_of(call.before);
  (call.newer == kNone ? tenants_[call.tenant].lines[call.delayed].newest : calls_[call.newer].older) = call.older;
  if (call.older != kNone) calls_[call.older].newer = call.newer;
}

void FairQueue::forget(Slot slot) {
  --size_, --tenants_[calls_[slot].tenant].calls;
  calls_[slot].next = free_;
  free_ = slot;
  if (size_ > 0 || calls_.size() <= kFewCalls) return;
  base::release(calls_);
  free_ = kNone;
  for (auto& line : lines_) base::release(line.rounds);
}

FairQueue::Slot FairQueue::surplus(uint64_t id) const {
  uint32_t known = find(id);
  size_t mine = known == kNone ? 0 : tenants_[known].calls;
  if (2 * mine >= size_) return kNone;
  auto most = std::max_element(tenants_.begin(), tenants_.end(),
                               [](const Tenant& a, const Tenant& b) { return a.calls < b.calls; });
  if (most == tenants_.end() || most->calls < mine + 2) return kNone;
  return most->lines[0].newest != kNone ? most->lines[0].newest : most->lines[1].newest;
}

// The place of `id` in the index: its own, or the free one where it belongs.
size_t FairQueue::probe(uint64_t id) const {
  size_t at = size_t((id * 0x9e3779b97f4a7c15) >> 32) & (index_.size() - 1);
  while (index_[at] != kNone && tenants_[index_[at]].id != id) at = (at + 1) & (index_.size() - 1);
  return at;
}

uint32_t FairQueue::find(uint64_t id) const { return index_.empty() ? kNone : index_[probe(id)]; }

uint32_t FairQueue::tenant(uint64_t id) {
  if (latest_ != kNone && tenants_[latest_].id == id) return latest_;
  if (latest_ = find(id); latest_ != kNone) return latest_;
  if (2 * (tenants_.size() + 1) > index_.size()) prune();
  latest_ = uint32_t(tenants_.size());
  tenants_.emplace_back().id = id;
  index_[probe(id)] = latest_;
  return latest_;
}

// A tenant that has nothing here, and has had no more than others, is treated like one that never came.
void FairQueue::prune() {
  size_t kept = 0;
  for (auto& tenant : tenants_) {
    bool even = tenant.lines[0].end <= lines_[0].next && tenant.lines[1].end <= lines_[1].next;
    if (tenant.calls == 0 && even) continue;
    for (auto& line : tenant.lines)
      for (Slot slot = line.newest; slot != kNone; slot = calls_[slot].older) calls_[slot].tenant = uint32_t(kept);
    tenants_[kept++] = tenant;
  }
  tenants_.resize(kept);
  index_.assign(std::bit_ceil(std::max(4 * (kept + 1), 2 * kFewTenants)), kNone);
  for (uint32_t i = 0; i < kept; ++i) index_[probe(tenants_[i].id)] = i;
}

}  // namespace weir::sched
