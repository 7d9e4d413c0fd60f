#include "models/publisher.h"

#include <algorithm>

namespace weir::models {

uint64_t Publisher::settled() const {
  std::lock_guard lock(queue_->mutex);
  return queue_->settled;
}

void Publisher::publish() {
  uint64_t epoch = ++published_;
  for (auto& retired : table_.take_retired()) leaving_.push_back({epoch, std::move(retired)});
  publish_(table_.catalog(default_model_), [queue = queue_, epoch] {
    std::lock_guard lock(queue->mutex);
    queue->settled = std::max(queue->settled, epoch);
    queue->changed.notify_one();
  });
}

void Publisher::notify_settled() {
  uint64_t now = settled();
  while (!waiting_.empty() && waiting_.front().epoch <= now) {
    auto done = std::move(waiting_.front().done);
    waiting_.erase(waiting_.begin());
    done();
  }
}

void Publisher::end() {
  for (auto& w : std::exchange(waiting_, {})) w.done();
}

bool Publisher::destroy_retired() {
  uint64_t now = settled();
  bool any = false;
  for (auto at = leaving_.begin(); at != leaving_.end();) {
    bool done = at->epoch <= now && at->what.served.use_count() == 1 && at->what.served->idle();
    if (!done) {
      ++at;
      continue;
    }
    at->what.served.reset();
    table_.destroyed(at->what);
    at = leaving_.erase(at);
    any = true;
  }
  return any;
}

void Publisher::wait_for_retired(std::chrono::nanoseconds longest, std::chrono::nanoseconds pause) {
  const auto until = std::chrono::steady_clock::now() + longest;
  while (has_retired() && std::chrono::steady_clock::now() < until) {
    if (destroy_retired()) continue;
    std::unique_lock lock(queue_->mutex);
    if (queue_->stopping) return;
    queue_->changed.wait_for(lock, pause);
  }
}

}  // namespace weir::models
