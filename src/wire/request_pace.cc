#include "wire/request_pace.h"

#include <string>
#include <utility>

#include "wire/limits.h"

namespace weir::wire {

void RequestPace::received(size_t bytes, Pending pending) {
  follow_memory(pending);
  if (rules_.min_body_rate == 0) return;
  floor_.add(bytes);
  if (pending == Pending::kNothing) {
    floor_.stop();
    return await(0);
  }
  floor_.start(env_.now());
  await(least_rate());
  watch();
}

uint32_t RequestPace::least_rate() const { return floor_rate(rules_.min_body_rate, owner_.reserved(), slabs_); }

void RequestPace::await(uint32_t rate) {
  if (rules_.shared) rules_.shared->await(int64_t(rate) - std::exchange(awaited_, rate));
}

// One timer while anything is owed; it is not moved for every message.
void RequestPace::watch() {
  if (timer_ != base::TimerId::kNone) return;
  timer_ = env_.at(env_.now() + rules_.grace, [this] {
    timer_ = base::TimerId::kNone;
    if (!floor_.running()) return;
    await(least_rate());
    if (!floor_.below(env_.now(), least_rate(), rules_.grace)) return watch();
    if (rules_.shared && !rules_.shared->below()) {
      floor_.stop(), floor_.start(env_.now());
      return watch();
    }
    owner_.give_up(reason::kSlowBody,
                   base::failure(base::Code::kDeadlineExceeded, "the request message comes too slowly"));
  });
}

// A message that holds slabs may have to give way, one that has none stands in line.
void RequestPace::follow_memory(Pending pending) {
  BodyMemory* memory = rules_.owner.bodies;
  if (!memory || starved_) return;
  if (pending == Pending::kRestOfMessage && owner_.reserved() > 0)
    memory->hold(*this, rules_.owner.client);
  else
    memory->leave(*this);
}

bool RequestPace::starved(uint64_t bytes, base::Time deadline) {
  starved_ = true;
  if (!rules_.owner.bodies) return false;
  rules_.owner.bodies->wait(*this, rules_.owner.client, bytes, deadline);
  return true;
}

void RequestPace::on_memory_lost(BodyMemory::Loss why) {
  bool silent = why == BodyMemory::Loss::kSilent;
  owner_.give_up(
      silent ? reason::kSlowBody : reason::kOverload,
      base::try_again(base::Code::kResourceExhausted, std::string(silent ? kMemoryGivenAway : kNoMemoryInTime)));
}

void RequestPace::stop() {
  floor_.stop();
  await(0);
  if (timer_ != base::TimerId::kNone) env_.cancel(std::exchange(timer_, base::TimerId::kNone));
  if (rules_.owner.bodies) rules_.owner.bodies->leave(*this);
}

}  // namespace weir::wire
