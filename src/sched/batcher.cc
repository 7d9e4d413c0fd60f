#include "sched/batcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sched/fit.h"

namespace weir::sched {
namespace {

using base::Code;
using base::failure;
using base::Time;

Time later(Time from, base::Duration by) { return by >= base::kNever - from ? base::kNever : from + by; }

}  // namespace

Batcher::Batcher(const msg::ModelSpec& spec)
    : spec_(spec), shares_(shares_batches(spec)), levels_(std::max<uint32_t>(spec.batching.priority_levels, 1)) {}

// A priority that the model does not have means the default one, as in Triton.
Batcher::Level& Batcher::level_of(const msg::Call& call) {
  auto levels = uint32_t(levels_.size());
  uint32_t priority = call.priority;
  if (priority == 0 || priority > levels) priority = spec_.batching.default_priority;
  if (priority == 0 || priority > levels) priority = (levels + 1) / 2;
  return levels_[priority - 1];
}

base::Status Batcher::full() const {
  return base::try_again(Code::kResourceExhausted, "the queue of model '" + spec_.name + "' is full (" +
                                                       std::to_string(spec_.batching.max_queue) +
                                                       " requests); try again later");
}

base::Status Batcher::add(msg::Call* call, Time now, std::vector<Dropped>& dropped) {
  const auto& policy = spec_.batching;
  if (policy.max_queue > 0 && size_ >= policy.max_queue) leave(now, dropped);
  if (policy.max_queue > 0 && size_ >= policy.max_queue) return full();
  auto timeout = call->queue_timeout;
  if (timeout.count() <= 0 || (policy.queue_timeout.count() > 0 && policy.queue_timeout < timeout))
    timeout = policy.queue_timeout;
  Time leaves = timeout.count() > 0 ? later(now, timeout) : base::kNever;
  Time ends = std::min(leaves, call->deadline);
  Time half = ends == base::kNever ? base::kNever : now + (ends - now) / 2;
  Time patience = std::min(later(now, policy.max_delay), half);
  level_of(*call).push_back({call, row_key(*call, spec_), leaves, patience});
  ++size_;
  leaves_at_ = std::min(leaves_at_, ends);
  return {};
}

bool Batcher::leaving(const Entry& entry, Time now) const {
  return entry.leaves <= now || entry.call->deadline <= now || entry.call->cancelled.load(std::memory_order_acquire);
}

void Batcher::drop(Entry& entry, Time now, std::vector<Dropped>& dropped) {
  auto* call = entry.call;
  --size_;
  if (call->deadline <= now)
    dropped.push_back({call, failure(Code::kDeadlineExceeded, "the deadline passed in the queue")});
  else if (call->cancelled.load(std::memory_order_acquire))
    dropped.push_back({call, failure(Code::kCancelled, "cancelled")});
  else
    dropped.push_back({call, base::try_again(Code::kUnavailable, "the request waited too long in the queue of model '" +
                                                                     spec_.name + "'; try again later")});
}

void Batcher::leave(Time now, std::vector<Dropped>& dropped) {
  leaves_at_ = base::kNever;
  for (auto& level : levels_)
    std::erase_if(level, [&](Entry& entry) {
      if (!leaving(entry, now)) {
        leaves_at_ = std::min({leaves_at_, entry.leaves, entry.call->deadline});
        return false;
      }
      drop(entry, now, dropped);
      return true;
    });
}

// False, and the line is closed, when the entry cannot run with those before it.
bool Batcher::join(Line& line, const Entry& entry) const {
  const auto& preferred = spec_.batching.preferred;
  uint64_t with = line.rows + entry.call->rows;
  if (line.first) {
    if (line.best == 0 && !preferred.empty() && with > preferred.back()) line.best = line.calls;
    line.closed =
        with > spec_.max_batch || entry.key != line.first->key || !same_rows(*line.first->call, *entry.call, spec_);
    if (line.closed) return false;
  } else {
    line.first = &entry;
  }
  line.rows = with;
  ++line.calls;
  line.due = std::min(line.due, entry.patience);
  if (std::binary_search(preferred.begin(), preferred.end(), with)) line.best = line.calls;
  line.closed = entry.key == kAlone || with >= spec_.max_batch;
  return true;
}

Batcher::Plan Batcher::plan(Time now, std::vector<msg::Call*>* calls) const {
  Line line;
  for (auto level = levels_.begin(); level != levels_.end() && !line.closed; ++level)
    for (auto entry = level->begin(); entry != level->end() && !line.closed; ++entry) {
      if (leaving(*entry, now)) continue;
      if (join(line, *entry) && calls) calls->push_back(entry->call);
    }
  if (line.calls == 0) return {};
  const auto& preferred = spec_.batching.preferred;
  bool overdue = hurried_ || line.due <= now;
  bool prefers = line.best > 0 && shares_ && !hurried_;
  if (prefers && (!overdue || spec_.batching.max_delay.count() == 0)) return {line.best, now};
  bool reached = !preferred.empty() && line.rows >= preferred.back();
  return {line.calls, line.closed || overdue || reached ? now : line.due};
}

// `cancelled` may be raised at any moment, so who runs is decided once, in plan(); a call may be leaving only a moment
// later, and runs all the same.
void Batcher::next(Time now, std::vector<msg::Call*>& batch, std::vector<Dropped>& dropped) {
  batch.clear();
  if (size_ == 0) return;
  Plan plan = this->plan(now, &batch);
  batch.resize(plan.at <= now ? plan.calls : 0);
  size_t taken = 0;
  for (auto& level : levels_) {
    for (; !level.empty(); level.pop_front()) {
      auto& entry = level.front();
      if (taken < batch.size() && entry.call == batch[taken])
        ++taken, --size_;
      else if (leaving(entry, now))
        drop(entry, now, dropped);
      else
        break;
    }
  }
  base::check(taken == batch.size(), "a batch is a prefix of the queue");
  if (size_ == 0) leaves_at_ = base::kNever;
}

Time Batcher::ready_at(Time now) const { return size_ == 0 ? base::kNever : plan(now, nullptr).at; }

}  // namespace weir::sched
