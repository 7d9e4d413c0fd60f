#include "sched/sequence_batcher.h"

namespace weir::sched {

SequenceBatcher::Sequence& SequenceBatcher::open(const Key& key) {
  auto& queued = list(Place::kQueued);
  queued.push_back(nullptr);
  try {
    Sequence& sequence = all_[key];
    sequence.key = key;
    sequence.at = std::prev(queued.end());
    *sequence.at = &sequence;
    return sequence;
  } catch (...) {
    queued.pop_back();
    throw;
  }
}

void SequenceBatcher::move(Sequence& sequence, Place to) {
  list(to).splice(list(to).end(), list(sequence.place), sequence.at);
  sequence.place = to;
}

SequenceBatcher::Arrival SequenceBatcher::arrive(const Key& key, const Request& request, base::Time now) {
  expire(now);
  auto found = all_.find(key);
  const bool known = found != all_.end();
  if (!request.start && (!known || !found->second.open)) return Arrival::kNotStarted;
  const bool at_once = known ? found->second.place == Place::kIdle : sequences() < limits_.slots;
  if (!at_once && waiting_ >= limits_.waiting) return Arrival::kFull;
  Sequence& sequence = known ? found->second : open(key);
  try {
    sequence.waiting.push_back(request);
  } catch (...) {
    if (!known) close(sequence);
    throw;
  }
  ++waiting_;
  sequence.open = !request.end;
  if (sequence.place == Place::kIdle) move(sequence, Place::kReady);
  fill_slots();
  return Arrival::kAccepted;
}

bool SequenceBatcher::next(Run& out) {
  auto& ready = list(Place::kReady);
  if (ready.empty()) return false;
  Sequence& sequence = *ready.front();
  sequence.running = sequence.waiting.front();
  sequence.waiting.pop_front();
  --waiting_;
  move(sequence, Place::kBusy);
  out = {&sequence, sequence.running};
  return true;
}

void SequenceBatcher::finish(Sequence& sequence, Finish how, base::Time now, std::vector<msg::Call*>& dropped) {
  const bool ended = sequence.running.end;
  sequence.running = {};
  if (how == Finish::kAborts) {
    drop_waiting(sequence, dropped);
    close(sequence);
  } else if (!ended) {
    sequence.idle_since = now;
    move(sequence, sequence.waiting.empty() ? Place::kIdle : Place::kReady);
  } else if (sequence.waiting.empty()) {
    close(sequence);
  } else {  // the next sequence of that id takes its turn behind others
    move(sequence, Place::kQueued);
  }
  fill_slots();
}

void SequenceBatcher::expire(base::Time now) {
  auto& idle = list(Place::kIdle);
  while (!idle.empty() && expires_at() <= now) close(*idle.front());
  fill_slots();
}

base::Time SequenceBatcher::expires_at() const {
  const auto& idle = list(Place::kIdle);
  return idle.empty() ? base::kNever : idle.front()->idle_since + limits_.idle;
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
  const Key key = sequence.key;
  all_.erase(key);
}

void SequenceBatcher::fill_slots() {
  auto& queued = list(Place::kQueued);
  while (!queued.empty() && sequences() < limits_.slots) move(*queued.front(), Place::kReady);
}

}  // namespace weir::sched
