#include "engines/forward/sequence_table.h"

#include <algorithm>
#include <string>

#include "base/encoding.h"
#include "engines/forward/origin.h"

namespace weir::forward {
namespace {

constexpr size_t kMostReason = 512;  // of why one is broken, which the origin may have said at length

}  // namespace

SequenceRun SequenceTable::start(const SequenceKey& key) {
  std::lock_guard lock(mutex_);
  Known& one = find_or_add(key);
  one.broken = {};
  return one.run = SequenceRun(++last_run_);
}

base::Result<SequenceRun> SequenceTable::go_on(const SequenceKey& key, base::Time now) {
  std::lock_guard lock(mutex_);
  Known* const one = find(key);
  if (!one) return SequenceRun::kUnknown;
  if (!one->broken.ok() && now < one->broken_until) return one->broken;
  one->broken = {};
  return one->run;
}

void SequenceTable::break_off(const SequenceKey& key, SequenceRun run, const base::Status& why, base::Time now) {
  std::lock_guard lock(mutex_);
  if (is_over(key, run)) return;
  Known& one = find_or_add(key);
  if (!one.broken.ok() && now < one.broken_until) return;
  one.broken = base::failure(why.code, std::string(base::cut_text(why.text, kMostReason)));
  one.broken_until = now + kBrokenFor;
}

SequenceTable::Place SequenceTable::place_of(const SequenceKey& key, SequenceRun run) {
  std::lock_guard lock(mutex_);
  const Known* one = find(key);
  if (one && one->sent > run) return {.over = true};
  if (!one || !one->origin) return {};
  const Origin& origin = *one->origin;
  const bool same = origin.present.load(std::memory_order_acquire) && origin.number() == one->number &&
                    origin.generation.load(std::memory_order_acquire) == one->generation;
  return {one->origin, !same};
}

void SequenceTable::send_start(const SequenceKey& key, SequenceRun run) {
  std::lock_guard lock(mutex_);
  Known& one = find_or_add(key);
  one.sent = std::max(one.sent, run);
}

void SequenceTable::set_place(const SequenceKey& key, SequenceRun run, Origin& origin) {
  std::lock_guard lock(mutex_);
  if (is_over(key, run)) return;
  Known& one = find_or_add(key);
  one.origin = &origin, one.number = origin.number();
  one.generation = origin.generation.load(std::memory_order_acquire);
}

void SequenceTable::end(const SequenceKey& key, SequenceRun run) {
  std::lock_guard lock(mutex_);
  auto found = at_.find(key);
  if (found == at_.end() || is_over(key, run)) return;
  if (!found->second->broken.ok()) {  // which is not forgotten with its place
    found->second->origin = nullptr;
    return;
  }
  erase(found);
}

// One that is found had a request just now. Null: it is not known.
SequenceTable::Known* SequenceTable::find(const SequenceKey& key) {
  auto found = at_.find(key);
  if (found == at_.end()) return nullptr;
  OfTenant& its = known_[key.tenant];
  its.splice(its.end(), its, found->second);
  return &*found->second;
}

SequenceTable::Known& SequenceTable::find_or_add(const SequenceKey& key) {
  if (Known* one = find(key)) return *one;
  if (at_.size() >= kMost) erase(at_.find(known_[counts_.rbegin()->second].front().key));
  OfTenant& its = known_[key.tenant];
  at_.emplace(key, its.insert(its.end(), Known{.key = key}));
  count(key.tenant, its.size() - 1, its.size());
  return its.back();
}

void SequenceTable::erase(std::map<SequenceKey, OfTenant::iterator>::iterator one) {
  const uint64_t tenant = one->first.tenant;
  OfTenant& its = known_[tenant];
  count(tenant, its.size(), its.size() - 1);
  its.erase(one->second);
  if (its.empty()) known_.erase(tenant);
  at_.erase(one);
}

void SequenceTable::count(uint64_t tenant, size_t before, size_t now) {
  counts_.erase({before, tenant});
  if (now > 0) counts_.emplace(now, tenant);
}

// Another one has begun. Where no run of it is known nobody can tell.
bool SequenceTable::is_over(const SequenceKey& key, SequenceRun run) const {
  auto found = at_.find(key);
  return found != at_.end() && found->second->run != SequenceRun::kUnknown && found->second->run != run;
}

}  // namespace weir::forward
