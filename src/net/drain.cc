#include "net/drain.h"

#include <algorithm>
#include <utility>

namespace weir::net {

Drain::Drain(base::Env& env, base::Duration delay, base::Duration timeout, Steps steps)
    : env_(env), timeout_(timeout), steps_(std::move(steps)) {
  next_ = env_.at(env_.now() + delay, [this] { announce(); });
}

Drain::~Drain() {
  env_.cancel(next_);
  env_.cancel(deadline_);
}

void Drain::announce() {
  steps_.announce();
  deadline_ = env_.at(env_.now() + timeout_, [this] { expire(); });
  next_ = env_.at(env_.now() + std::min(kCrossing, timeout_), [this] { refuse(); });
}

void Drain::refuse() {
  refused_ = true;
  steps_.refuse();
  on_idle_shard();
}

// Not before refuse(): until then connections may still come out of a listener's queue.
void Drain::on_idle_shard() {
  if (refused_ && !forced_ && steps_.done && steps_.connections() == 0) end(true);
}

void Drain::expire() {
  if (!steps_.done) return;
  forced_ = true;
  steps_.force([this](size_t busy) { end(busy == 0); });
}

void Drain::end(bool clean) {
  env_.cancel(std::exchange(deadline_, base::TimerId::kNone));
  if (auto done = std::exchange(steps_.done, nullptr)) done(clean);
}

}  // namespace weir::net
