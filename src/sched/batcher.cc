#include "sched/batcher.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "msg/priority.h"
#include "sched/fit.h"

namespace weir::sched {
namespace {

using base::Code;
using base::failure;
using base::Status;
using base::Time;

// One tenant's part of a full batch per turn. The finer, the sooner a newcomer's turn; the coarser, the more calls of
// one tenant, which rather have the same shape, lie side by side.
constexpr uint32_t kTurns = 8;

Time later(Time from, base::Duration by) { return by >= base::kNever - from ? base::kNever : from + by; }

uint32_t round_of(const msg::ModelSpec& spec) { return std::bit_floor(std::max(spec.max_batch / kTurns, 1u)); }

}  // namespace

Batcher::Batcher(const msg::ModelSpec& spec)
    : spec_(spec),
      shares_(shares_batches(spec)),
      least_cost_(shares_ ? 1 : round_of(spec)),
      most_cost_(std::max(spec.max_batch, 1u)) {
  uint32_t levels = msg::levels(spec).count;
  levels_.reserve(levels);
  for (uint32_t i = 1; i <= levels; ++i) levels_.push_back({msg::queue_policy(spec, i), FairQueue(round_of(spec)), {}});
}

// Where calls do not share batches, each takes the engine for itself, however small it is: a turn at least.
uint32_t Batcher::cost(const msg::Call& call) const { return std::clamp(call.rows, least_cost_, most_cost_); }

Status Batcher::full(const Level& level) const {
  return base::try_again(Code::kResourceExhausted, "the queue of model '" + spec_.name + "' is full (" +
                                                       std::to_string(level.policy.max_queue) +
                                                       " requests); try again later");
}

Status Batcher::make_room(Level& level, uint64_t tenant, Time now, std::vector<Dropped>& dropped) {
  leave(level, now, dropped);
  if (level.queue.size() < level.policy.max_queue) return {};
  auto slot = level.queue.surplus(tenant);
  if (slot == FairQueue::kNone) return full(level);
  drop(level, slot, full(level), dropped);
  return {};
}

Status Batcher::add(msg::Call* call, Time now, std::vector<Dropped>& dropped) {
  auto& level = levels_[msg::level_of(spec_, call->priority) - 1];
  const auto& policy = level.policy;
  if (policy.max_queue > 0 && level.queue.size() >= policy.max_queue)
    if (auto status = make_room(level, call->tenant, now, dropped); !status.ok()) return status;
  Time times_out = msg::times_out_at(policy, call->queue_timeout, now);
  Time leaves = level.delays() ? call->deadline : std::min(times_out, call->deadline);
  Time half = leaves == base::kNever ? base::kNever : now + (leaves - now) / 2;
  // A new slot is the first that is free, so it is found room for before anything changes: this may throw.
  if (level.entries.size() <= level.queue.size()) level.entries.resize(level.queue.size() + 1);
  auto slot = level.queue.push(call->tenant, cost(*call));
  level.entries[slot] = {call, row_key(*call, spec_), times_out, std::min(later(now, spec_.batching.max_delay), half)};
  ++size_, rows_ += call->rows;
  leaves_at_ = std::min(leaves_at_, leaves);
  if (level.delays()) delays_at_ = std::min(delays_at_, times_out);
  return {};
}

bool Batcher::fills_batch() const {
  const auto& preferred = spec_.batching.preferred;
  return rows_ >= (preferred.empty() ? spec_.max_batch : preferred.back());
}

bool Batcher::leaving(const Level& level, const QueuedCall& entry, Time now) const {
  return (entry.times_out <= now && !level.delays()) || entry.call->deadline <= now ||
         entry.call->cancelled.load(std::memory_order_acquire);
}

Status Batcher::why(const msg::Call& call, Time now) const {
  if (call.deadline <= now) return failure(Code::kDeadlineExceeded, "the deadline passed in the queue");
  if (call.cancelled.load(std::memory_order_acquire)) return failure(Code::kCancelled, "cancelled");
  return base::try_again(Code::kUnavailable,
                         "the request waited too long in the queue of model '" + spec_.name + "'; try again later");
}

void Batcher::drop(Level& level, FairQueue::Slot slot, Status why, std::vector<Dropped>& dropped) {
  msg::Call* call = level.entries[slot].call;
  dropped.push_back({call, std::move(why)});
  level.queue.leave(slot);
  --size_, rows_ -= call->rows;
}

// Those that are first and may leave.
void Batcher::drop_first(Level& level, Time now, std::vector<Dropped>& dropped) {
  for (auto slot = level.queue.first(); slot != FairQueue::kNone; slot = level.queue.first()) {
    const auto& entry = level.entries[slot];
    if (!leaving(level, entry, now)) return;
    drop(level, slot, why(*entry.call, now), dropped);
  }
}

void Batcher::leave(Level& level, Time now, std::vector<Dropped>& dropped) {
  for (auto slot = level.queue.first(); slot != FairQueue::kNone;) {
    auto here = std::exchange(slot, level.queue.after(slot));
    const auto& entry = level.entries[here];
    if (leaving(level, entry, now))
      drop(level, here, why(*entry.call, now), dropped);
    else
      leaves_at_ = std::min({leaves_at_, entry.call->deadline, level.delays() ? base::kNever : entry.times_out});
  }
}

void Batcher::leave(Time now, std::vector<Dropped>& dropped) {
  leaves_at_ = base::kNever;
  for (auto& level : levels_) leave(level, now, dropped);
}

// In order: of two that are overdue the one that was before the other stays so, as far as tenants' turns allow.
void Batcher::delay_overdue(Time now) {
  if (now < delays_at_) return;
  delays_at_ = base::kNever;
  for (auto& level : levels_) {
    if (!level.delays()) continue;
    for (auto slot = level.queue.first(); slot != FairQueue::kNone && !level.queue.delayed(slot);) {
      auto here = std::exchange(slot, level.queue.after(slot));
      if (Time at = level.entries[here].times_out; at > now)
        delays_at_ = std::min(delays_at_, at);
      else
        level.queue.delay(here);
    }
  }
}

// False, and the line is closed, when the entry cannot run with those before it.
bool Batcher::join(Line& line, const QueuedCall& entry) const {
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

Batcher::Plan Batcher::plan(const Line& line, Time now) const {
  if (line.calls == 0) return {};
  const auto& preferred = spec_.batching.preferred;
  bool overdue = hurried_ || line.due <= now;
  bool prefers = line.best > 0 && shares_ && !hurried_;
  if (prefers && (!overdue || spec_.batching.max_delay.count() == 0)) return {line.best, now};
  bool reached = !preferred.empty() && line.rows >= preferred.back();
  return {line.calls, line.closed || overdue || reached ? now : line.due};
}

// `cancelled` may be raised at any moment, so who runs is decided once: a call may be leaving only a moment later, and
// runs all the same.
void Batcher::next(Time now, std::vector<msg::Call*>& batch, std::vector<Dropped>& dropped) {
  batch.clear();
  if (size_ == 0) return;
  delay_overdue(now);
  Line line;
  line_.clear();
  for (auto level = levels_.begin(); level != levels_.end() && !line.closed; ++level)
    for (auto slot = level->queue.first(); slot != FairQueue::kNone && !line.closed;) {
      auto here = std::exchange(slot, level->queue.after(slot));
      const auto& entry = level->entries[here];
      if (leaving(*level, entry, now))
        drop(*level, here, why(*entry.call, now), dropped);
      else if (join(line, entry))
        line_.push_back({&*level, here});
    }
  Plan plan = this->plan(line, now);
  if (plan.at > now) line_.clear();
  line_.resize(std::min(line_.size(), plan.calls));
  batch.reserve(line_.size());  // what throws has taken no call out of the queue
  for (auto [level, slot] : line_) {
    batch.push_back(level->entries[slot].call);
    rows_ -= batch.back()->rows;
    level->queue.serve(slot);
  }
  size_ -= line_.size();
  for (auto level = levels_.begin(); size_ > 0 && level != levels_.end(); ++level) drop_first(*level, now, dropped);
  if (size_ == 0) leaves_at_ = delays_at_ = base::kNever;
}

Time Batcher::ready_at(Time now) {
  if (size_ == 0) return base::kNever;
  delay_overdue(now);
  Line line;
  for (auto level = levels_.begin(); level != levels_.end() && !line.closed; ++level)
    for (auto slot = level->queue.first(); slot != FairQueue::kNone && !line.closed; slot = level->queue.after(slot))
      if (const auto& entry = level->entries[slot]; !leaving(*level, entry, now)) join(line, entry);
  return std::min(plan(line, now).at, delays_at_);
}

}  // namespace weir::sched
