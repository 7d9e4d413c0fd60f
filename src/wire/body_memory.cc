#include "wire/body_memory.h"

#include <algorithm>
#include <utility>

#include "base/attempt.h"
#include "base/take_out.h"

namespace weir::wire {
namespace {

constexpr base::Duration kLook = std::chrono::milliseconds(100);  // how often waits and silences are looked at
constexpr size_t kRound = 256;  // that try at once when memory comes free; the others at the next look at the latest

}  // namespace

BodyMemory::~BodyMemory() {
  env_.cancel(timer_);
  while (first_) leave(*first_);
  while (!waiting_.empty()) leave(*waiting_.back());
}

void BodyMemory::append(Body& body) {
  body.place_ = Body::Place::kHolds;
  body.before_ = last_, body.after_ = nullptr;
  (last_ ? last_->after_ : first_) = &body;
  last_ = &body;
}

void BodyMemory::unlink(Body& body) {
  switch (std::exchange(body.place_, Body::Place::kNowhere)) {
    case Body::Place::kNowhere: return;
    case Body::Place::kHolds:
      (body.before_ ? body.before_->after_ : first_) = body.after_;
      (body.after_ ? body.after_->before_ : last_) = body.before_;
      return;
    case Body::Place::kWaits:
      need_.bytes.fetch_sub(std::exchange(body.wanted_, 0), std::memory_order_relaxed);
      base::take_out(waiting_, body, &Body::at_);
      if (waiting_.empty()) least_ = UINT64_MAX;
      std::replace(round_.begin(), round_.end(), &body, static_cast<Body*>(nullptr));
  }
}

void BodyMemory::hold(Body& body, base::Client* client) {
  unlink(body);
  body.home_ = this, body.client_ = client;
  body.since_ = env_.now();
  append(body);
  arm();
}

void BodyMemory::wait(Body& body, base::Client* client, uint64_t bytes, base::Time deadline) {
  if (body.place_ == Body::Place::kWaits) return;
  unlink(body);
  body.home_ = this, body.client_ = client;
  body.since_ = env_.now();
  body.due_ = std::min(body.since_ + rules_.wait, deadline);
  body.place_ = Body::Place::kWaits;
  body.at_ = waiting_.size();
  waiting_.push_back(&body);
  least_ = std::min(least_, held_by(client));
  // No other body loses its memory to a client that has its share.
  body.wanted_ = over_share(client, bytes) ? 0 : bytes;
  need_.bytes.fetch_add(body.wanted_, std::memory_order_relaxed);
  arm();
}

void BodyMemory::leave(Body& body) {
  if (body.home_ != this) return;
  unlink(body);
  body.home_ = nullptr;
}

bool BodyMemory::over_share(const base::Client* client, uint64_t bytes) const {
  return client && client->limited() && rules_.budget > 0 && rules_.share.on() &&
         client->held(base::Held::kSlabBytes) + bytes > rules_.share.share(rules_.budget);
}

bool BodyMemory::may_take(const base::Client* client, uint64_t bytes, const base::SlabSource& slabs,
                          BodySize size) const {
  if (!waiting_.empty() && held_by(client) > least_) return false;
  if (!over_share(client, bytes)) return true;
  return size == BodySize::kPart ? !slabs.scarce() : !slabs.scarce_for_wholes();
}

// A body that takes a slab changes what its client holds: the order of this round is fixed before.
void BodyMemory::slabs_freed() {
  if (waiting_.empty() || !round_.empty()) return;
  std::vector<std::pair<uint64_t, Body*>> line;
  for (Body* body : waiting_) line.emplace_back(held_by(body->client_), body);
  auto end = line.begin() + ptrdiff_t(std::min(line.size(), kRound));
  std::partial_sort(line.begin(), end, line.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second->since_) < std::pair(b.first, b.second->since_);
  });
  round_.reserve(size_t(end - line.begin()));
  least_ = line.front().first;
  for (auto at = line.begin(); at != end; ++at) round_.push_back(at->second);
  for (size_t i = 0; i < round_.size(); ++i)
    if (Body* body = std::exchange(round_[i], nullptr))
      (void)base::attempt("a body that waits", [&] { body->on_memory_free(); });
  round_.clear();
}

void BodyMemory::arm() {
  if (timer_ != base::TimerId::kNone) return;
  timer_ = env_.at(env_.now() + kLook, [this] {
    timer_ = base::TimerId::kNone;
    check_waiting();
  });
}

void BodyMemory::check_waiting() {
  base::Time now = env_.now();
  refuse_late(now);
  free_silent(now);
  slabs_freed();
  if (first_ || !waiting_.empty()) arm();
}

void BodyMemory::refuse_late(base::Time now) {
  for (size_t i = waiting_.size(); i-- > 0;) {
    i = std::min(i, waiting_.size());  // others may have left with the one before
    if (i == waiting_.size() || waiting_[i]->due_ > now) continue;
    Body& body = *waiting_[i];
    leave(body);
    body.on_memory_lost(Loss::kWaited);
  }
}

// A body waits for at most kLook before this is checked, which is soon enough.
void BodyMemory::free_silent(base::Time now) {
  uint64_t wanted = need_.bytes.load(std::memory_order_relaxed), freed = 0;
  while (freed < wanted && first_ && now - first_->since_ >= rules_.silence) {
    Body& body = *first_;
    freed += body.memory_held();
    leave(body);
    body.on_memory_lost(Loss::kSilent);
  }
}

base::Slab* BodyOwner::take(base::SlabSource& slabs, uint64_t bytes, Size size) const {
  if (bodies && !bodies->may_take(client, bytes, slabs, size)) return nullptr;
  base::Slab* slab = size == Size::kPart ? slabs.take_part(size_t(bytes)) : slabs.take(size_t(bytes));
  if (slab && client) slabs.charge(slab, *client);
  return slab;
}

}  // namespace weir::wire
