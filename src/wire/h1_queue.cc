#include "wire/h1_queue.h"

#include <algorithm>
#include <utility>

#include "wire/h1_reader.h"
#include "wire/service_guard.h"

namespace weir::wire {
namespace {

constexpr size_t kSpare = 4;          // exchanges kept for reuse
constexpr uint64_t kKeptHead = 4096;  // of whose requests the heads were no longer

}  // namespace

H1Exchange& H1Queue::add() {
  if (spare_.empty()) {
    queue_.push_back(std::make_unique<H1Exchange>(*this));
  } else {
    queue_.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  H1Exchange& x = *queue_.back();
  if (queue_.size() - 1 == ended_) x.take_turn();
  return x;
}

H1Exchange& H1Queue::add_refused() {
  H1Exchange& x = add();
  x.forget_head();
  x.read_whole_ = true;
  return x;
}

void H1Queue::pass_turn() {
  while (ended_ < queue_.size()) {
    H1Exchange& x = *queue_[ended_];
    if (!x.turn_) x.take_turn();
    if (!x.ended_) return;
    ++ended_;
    if (x.close_) return reader_.close_now();
  }
}

void H1Queue::output_taken() {
  while (ended_ > 0 && queue_.front()->to_ <= connection_.output.sent()) {
    std::unique_ptr<H1Exchange> x = std::move(queue_.front());
    queue_.erase(queue_.begin());
    --ended_;
    bool complete = !x->cut_;
    close(std::move(x), complete);
  }
  if (ended_ == queue_.size()) return;
  H1Exchange& x = *queue_[ended_];
  x.small_.fit(x.backlog());
  if (!x.above_ || x.backlog() >= Exchange::kLowWater) return;
  x.above_ = false;
  notify_drain(x);
}

void H1Queue::close(std::unique_ptr<H1Exchange> x, bool complete) {
  x->gone_ = true;
  reader_.forget(*x);
  if (x->begun_) {
    if (!complete && x->record().code == base::Code::kOk) x->record().code = base::Code::kCancelled;
    notify_close(*x, x->listener(), complete);
    (void)base::attempt("a request's end", [&] {
      x->usage_.settle(*x);
      connection_.env.intake.closed(*x);
    });
  }
  x->clear();
  const uint64_t head = std::exchange(x->charged_, 0);
  connection_.heads.give(head);
  // Many a connection asks once and is silent then: it keeps nothing, and the memory stays with the thread.
  const bool again = std::exchange(served_, true);
  if (again && spare_.size() < kSpare && head <= kKeptHead) spare_.push_back(std::move(x));
  if (queue_.empty()) connection_.idle_since = connection_.wire.now();
}

void H1Queue::close_from(size_t first) {
  std::vector<std::unique_ptr<H1Exchange>> over;
  over.reserve(queue_.size() - std::min(first, queue_.size()));  // what it throws has changed nothing
  for (size_t i = first; i < queue_.size(); ++i) {
    queue_[i]->gone_ = true;
    reader_.forget(*queue_[i]);
    over.push_back(std::move(queue_[i]));
  }
  queue_.resize(first);
  ended_ = uint32_t(std::min<size_t>(ended_, first));
  for (auto& x : over) close(std::move(x), false);
}

uint64_t H1Queue::held_for_answers() const {
  uint64_t held = 0;
  for (const auto& x : queue_) held += held_for_answer(*x);
  return held;
}

}  // namespace weir::wire
