#include "sched/sequence_batcher.h"

#include <utility>

#include "msg/tenant.h"

namespace weir::sched {

SequenceBatcher::Sequence& SequenceBatcher::open(const Key& key, base::Time now) {
  auto& queued = list(Place::kQueued);
  Tenant& tenant = tenants_[key.tenant];
  bool listed = false;
  try {
    queued.push_back(nullptr);
    listed = true;
    Sequence& sequence = all_[key];
    sequence.key = key;
    sequence.since = now;
    sequence.tenant = &tenant;
    sequence.at = std::prev(queued.end());
    *sequence.at = &sequence;
    ++tenant.sequences;
    return sequence;
  } catch (...) {
    if (listed) queued.pop_back();
    if (tenant.sequences == 0) tenants_.erase(key.tenant);
    throw;
  }
}

void SequenceBatcher::move(Sequence& sequence, Place to, base::Time now) {
  if (sequence.place == Place::kQueued && to != Place::kQueued) bind(sequence);
  if (sequence.place != Place::kQueued && to == Place::kQueued) --bound_[sequence.instance_];
  list(to).splice(list(to).end(), list(sequence.place), sequence.at);
  sequence.tenant->slots += size_t(sequence.place == Place::kQueued);
  sequence.tenant->slots -= size_t(to == Place::kQueued);
  sequence.place = to;
  sequence.since = now;
}

void SequenceBatcher::bind(Sequence& sequence) {
  sequence.instance_ = size_t(std::min_element(bound_.begin(), bound_.end()) - bound_.begin());
  ++bound_[sequence.instance_];
}

// Nothing tells apart the clients behind one number that speaks for many, nor those that have none.
bool SequenceBatcher::limited(uint64_t tenant) const { return tenant != 0 && !msg::speaks_for_many(tenant); }

// For a slot.
SequenceBatcher::Arrival SequenceBatcher::may_wait(uint64_t tenant) const {
  const size_t all = list(Place::kQueued).size();
  if (all >= limits_.waiting) return Arrival::kFull;
  auto found = tenants_.find(tenant);
  const size_t own = found == tenants_.end() ? 0 : found->second.sequences - found->second.slots;
  const bool allowed = !limited(tenant) || limits_.share.allows(own, 1, all, limits_.waiting);
  return allowed ? Arrival::kAccepted : Arrival::kOverShare;
}

SequenceBatcher::Arrival SequenceBatcher::arrive(const Key& key, const Request& request, base::Time now) {
  expire(now);
  auto found = all_.find(key);
  const bool known = found != all_.end();
  if (!request.start && (!known || !found->second.open)) return Arrival::kNotStarted;
  if (known && found->second.waiting.size() >= limits_.pipelined)
    return end_early(found->second, now), Arrival::kPipelineFull;
  if (!known && sequences() >= limits_.slots)
    if (auto waits = may_wait(key.tenant); waits != Arrival::kAccepted) return waits;
  Sequence& sequence = known ? found->second : open(key, now);
  try {
    sequence.waiting.push_back(request);
  } catch (...) {
    if (!known) close(sequence);
    throw;
  }
  ++waiting_;
  sequence.open = !request.end;
  if (sequence.place == Place::kIdle) move(sequence, Place::kReady, now);
  fill_slots(now);
  return Arrival::kAccepted;
}

bool SequenceBatcher::next(Run& out) {
  auto& ready = list(Place::kReady);
  if (ready.empty()) return false;
  Sequence& sequence = *ready.front();
  sequence.running = sequence.waiting.front();
  sequence.waiting.pop_front();
  --waiting_;
  move(sequence, Place::kBusy, sequence.since);
  out = {&sequence, sequence.running};
  return true;
}

bool SequenceBatcher::finish(Sequence& sequence, Finish how, base::Time now, std::vector<msg::Call*>& dropped) {
  const bool starts_anew = !sequence.waiting.empty() && sequence.waiting.front().start;
  const bool ended = sequence.running.end || (sequence.evicted && (sequence.waiting.empty() || starts_anew));
  const bool next_waits = how == Finish::kAnswered && ended && !sequence.waiting.empty();
  sequence.running = {};
  if (how == Finish::kAborts) {
    drop_waiting(sequence, dropped);
    close(sequence);
  } else if (!ended) {
    move(sequence, sequence.waiting.empty() ? Place::kIdle : Place::kReady, now);
  } else if (sequence.waiting.empty()) {
    close(sequence);
  } else {  // the next sequence of that id takes its turn behind others
    evicting_ -= size_t(std::exchange(sequence.evicted, false));
    move(sequence, Place::kQueued, now);
  }
  fill_slots(now);
  return next_waits;
}

void SequenceBatcher::end_early(const Key& key, base::Time now) {
  if (auto found = all_.find(key); found != all_.end()) end_early(found->second, now);
}

void SequenceBatcher::end_early(Sequence& sequence, base::Time now) {
  sequence.open = false;
  if (!sequence.waiting.empty())
    sequence.waiting.back().end = true;
  else if (sequence.place == Place::kBusy)
    sequence.running.end = true;
  else
    close(sequence);
  fill_slots(now);
}

void SequenceBatcher::expire(base::Time now) {
  auto& idle = list(Place::kIdle);
  while (!idle.empty() && idle.front()->since + limits_.idle <= now) close(*idle.front());
  fill_slots(now);
  evict_for_others(now);
}

bool SequenceBatcher::over_share(uint64_t tenant, size_t slots) const {
  return limited(tenant) && (slots > slot_share() || slots == limits_.slots);
}

size_t SequenceBatcher::slot_share() const { return std::max<size_t>(1, limits_.share.share(limits_.slots)); }

// When the next eviction is due; kNever: nobody waits who has less than a share, or nobody has more.
base::Time SequenceBatcher::evicts_at() const {
  const auto& queued = list(Place::kQueued);
  if (!limits_.share.on() || evicting_ > 0 || queued.empty()) return base::kNever;
  auto over = [&](const auto& each) { return over_share(each.first, each.second.slots); };
  if (std::none_of(tenants_.begin(), tenants_.end(), over)) return base::kNever;
  base::Time first = base::kNever;
  for (const Sequence* sequence : queued)
    if (sequence->tenant->slots < slot_share()) first = std::min(first, sequence->since + limits_.idle);
  return first;
}

// One at a time: the next one when its slot has changed hands.
void SequenceBatcher::evict_for_others(base::Time now) {
  if (evicts_at() > now) return;
  if (evict_one(Place::kIdle))
    fill_slots(now);
  else if (!evict_one(Place::kReady))
    evict_one(Place::kBusy);
}

// The one that came there first, of a tenant with more than its share.
bool SequenceBatcher::evict_one(Place place) {
  for (Sequence* sequence : list(place)) {
    if (!over_share(sequence->key.tenant, sequence->tenant->slots)) continue;
    sequence->open = false;
    if (place == Place::kIdle) return close(*sequence), true;
    sequence->evicted = true;
    ++evicting_;
    return true;
  }
  return false;
}

base::Time SequenceBatcher::expires_at() const {
  const auto& idle = list(Place::kIdle);
  return std::min(evicts_at(), idle.empty() ? base::kNever : idle.front()->since + limits_.idle);
}

void SequenceBatcher::drop_waiting(Sequence& sequence, std::vector<msg::Call*>& dropped) {
  dropped.reserve(dropped.size() + sequence.waiting.size());  // what throws has changed nothing
  for (const Request& request : sequence.waiting) dropped.push_back(request.call);
  waiting_ -= sequence.waiting.size();
  sequence.waiting.clear();
  sequence.open = false;
}

void SequenceBatcher::close(Sequence& sequence) {
  list(sequence.place).erase(sequence.at);
  evicting_ -= size_t(sequence.evicted);
  Tenant& tenant = *sequence.tenant;
  tenant.slots -= size_t(sequence.place != Place::kQueued);
  bound_[sequence.instance_] -= size_t(sequence.place != Place::kQueued);
  const Key key = sequence.key;
  if (--tenant.sequences == 0) tenants_.erase(key.tenant);
  all_.erase(key);
}

void SequenceBatcher::fill_slots(base::Time now) {
  auto& queued = list(Place::kQueued);
  while (!queued.empty() && sequences() < limits_.slots) {
    auto first = std::min_element(queued.begin(), queued.end(), [](const Sequence* a, const Sequence* b) {
      return a->tenant->slots < b->tenant->slots;
    });
    move(**first, Place::kReady, now);
  }
}

}  // namespace weir::sched
