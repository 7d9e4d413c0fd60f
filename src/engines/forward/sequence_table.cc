#include "engines/forward/sequence_table.h"

#include "engines/forward/origin.h"

namespace weir::forward {

void SequenceTable::break_off(const SequenceKey& key, const base::Status& why, base::Time now) {
  std::lock_guard lock(mutex_);
  broken_.add(key, {why, now + kBrokenFor});
}

base::Status SequenceTable::refusal(const SequenceKey& key, base::Time now) {
  std::lock_guard lock(mutex_);
  const Broken* broken = broken_.find(key);
  if (!broken) return {};
  if (now < broken->until) return broken->why;
  broken_.erase(key);
  return {};
}

void SequenceTable::start(const SequenceKey& key) {
  std::lock_guard lock(mutex_);
  broken_.erase(key);
}

SequenceTable::Place SequenceTable::place_of(const SequenceKey& key) {
  std::lock_guard lock(mutex_);
  auto found = at_.find(key);
  if (found == at_.end()) return {};
  placed_.splice(placed_.end(), placed_, found->second);
  const Placed& one = *found->second;
  const Origin& origin = *one.origin;
  const bool same = origin.present.load(std::memory_order_acquire) && origin.number() == one.number &&
                    origin.generation.load(std::memory_order_acquire) == one.generation;
  return {one.origin, !same};
}

void SequenceTable::set_place(const SequenceKey& key, Origin& origin) {
  std::lock_guard lock(mutex_);
  const Placed placed{key, &origin, origin.number(), origin.generation.load(std::memory_order_acquire)};
  if (auto found = at_.find(key); found != at_.end()) {
    *found->second = placed;
    placed_.splice(placed_.end(), placed_, found->second);
    return;
  }
  if (at_.size() >= kMost) at_.erase(placed_.front().key), placed_.pop_front();
  at_.emplace(key, placed_.insert(placed_.end(), placed));
}

void SequenceTable::end(const SequenceKey& key) {
  std::lock_guard lock(mutex_);
  auto found = at_.find(key);
  if (found == at_.end()) return;
  placed_.erase(found->second);
  at_.erase(found);
}

}  // namespace weir::forward
