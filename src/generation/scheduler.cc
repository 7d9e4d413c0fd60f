#include "generation/scheduler.h"

#include <string>
#include <utility>

#include "base/check.h"

namespace weir::generation {

using base::Code;
using base::failure;
using base::Status;
using base::Time;
using Place = Sequence::Place;

namespace {

// Why the sequence has to leave before the next step; OK when it has not.
Status leaving(const Sequence& s, const msg::ModelSpec& spec, Time now) {
  if (s.call->deadline <= now) return failure(Code::kDeadlineExceeded, "the deadline passed before the end");
  if (s.call->cancelled.load(std::memory_order_acquire)) return failure(Code::kCancelled, "cancelled");
  if (!s.started && s.queue_deadline <= now)
    return base::try_again(Code::kUnavailable,
                           "the request waited too long in the queue of model '" + spec.name + "'; try again later");
  return {};
}

}  // namespace

TokenScheduler::TokenScheduler(TokenEngine& engine, TokenRoom room, const TokenPolicy& policy,
                               const msg::ModelSpec& spec, bus::ModelStats& stats, uint64_t seed)
    : policy_(policy.clamped()),
      spec_(spec),
      stats_(stats),
      limit_(room.positions(*spec.text)),
      memory_(engine, room.blocks, room.block_size, policy.prefix_cache ? KvMemory::Cache::kOn : KvMemory::Cache::kOff,
              seed),
      active_(policy_, room, memory_, *stats.tokens),
      queue_(policy_, spec, memory_, limit_, seed),
      planner_(engine, policy_, room, limit_, memory_, active_),
      results_(spec, stats, memory_, limit_),
      gauges_(stats, room.blocks) {}

TokenScheduler::~TokenScheduler() { base::check(empty(), "a scheduler ends when everything was answered"); }

void TokenScheduler::add(msg::Call* call, Time now) {
  if (call->generation->aim == msg::Aim::kRelease) return release_session(call, now);
  queue_.add(call, now);
  arrived_ = true;
  show_gauges();
}

void TokenScheduler::release_session(msg::Call* call, Time now) {
  memory_.forget(call->session);
  for (const auto* all : {&queue_.all(), &active_.all()})
    for (auto& s : *all)
      if (s->call->session == call->session) s->keeps_session = false;
  results_.finish_release(call, now);
  show_gauges();
}

TokenStep* TokenScheduler::plan(Time now) {
  planner_.begin(now);
  arrived_ = false;
  drop_leaving(now);
  admit(now, Preempts::kYes);
  while (auto* s = queue_.surplus(active_.size())) {
    fail(*s, queue_full(spec_, policy_, queue_.size()), now);
    erase_gone();
  }
  for (auto& s : active_) catch_up(*s);
  auto* step = planner_.plan();
  active_.move_preempted(queue_);
  show_gauges();
  return step;
}

// From the back: a tenant that gives up several calls is charged for none of them (FairShare::left).
void TokenScheduler::drop_leaving(Time now) {
  for (const auto* all : {&queue_.all(), &active_.all()})
    for (auto at = all->rbegin(); at != all->rend(); ++at) {
      auto& s = *at;
      auto status = leaving(*s, spec_, now);
      if (status.ok()) continue;
      if (s->started && s->call->satisfied.load(std::memory_order_relaxed))
        s->ending = msg::Finish::kStopId, results_.finish_sequence(*s, now);
      else
        fail(*s, std::move(status), now);
    }
  erase_gone();
}

void TokenScheduler::admit(Time now, Preempts preempts) {
  AdmissionQueue::Pass pass{.preempts = preempts};
  while (auto* s = queue_.admit_next(pass, active_)) {
    start(*s, now);
    erase_gone();
  }
}

void TokenScheduler::start(Sequence& s, Time now) {
  if (!s.started) {
    s.started = true;
    s.cached = s.stored;
    s.call->times.started = now;
    queue_.began(s, now);
    s.call->generation->cached_tokens = s.cached;
    stats_.tokens->prefix_queries.add(s.prompt);
    stats_.tokens->prefix_hits.add(s.cached);
  }
  s.request_images();
  if (results_.complete(s)) results_.finish_sequence(s, now);
}

// Another sequence with the same beginning may have computed some of it since this one was admitted. Of one that was
// preempted this may be what it computed itself; its client has counts already, and reads them.
void TokenScheduler::catch_up(Sequence& s) {
  if (s.place != Place::kActive || s.unfed() <= 1 || s.planned) return;
  uint32_t found = memory_.catch_up(s);
  if (found == 0 || s.preempted || s.generated > 0) return;
  s.cached += found;
  s.call->generation->cached_tokens = s.cached;
  stats_.tokens->prefix_hits.add(found);
}

bool TokenScheduler::nobody_leaves(Time now) const {
  for (const auto* all : {&queue_.all(), &active_.all()})
    for (const auto& s : *all)
      if (!leaving(*s, spec_, now).ok()) return false;
  return true;
}

// A step runs: whatever changes its sequences is left to plan(), as are those who leave, and those who may only enter
// in another's place. Calls that plan() has looked at, while no slot was free, go on waiting.
TokenStep* TokenScheduler::plan_ahead(Time now) {
  if (!nobody_leaves(now)) return nullptr;
  admit(now, Preempts::kNo);
  if (!queue_.empty() && (arrived_ || active_.running() < policy_.max_running)) return nullptr;
  for (auto& s : active_) catch_up(*s);
  auto* step = planner_.plan_ahead(now);
  show_gauges();
  return step;
}

void TokenScheduler::finish(const Status& outcome, Time now) {
  if (outcome.ok()) {
    count_step(stats_, planner_.rows(), planner_.planned(), now);
    planner_.measure(now);
  }
  results_.process(planner_.rows(), outcome, now);
  erase_gone();
  planner_.advance();
  show_gauges();
}

std::optional<TokenScheduler::PendingImage> TokenScheduler::next_image() {
  for (auto& s : active_) {
    if (s->place != Place::kActive || s->images_missing == 0) continue;
    for (auto& state : s->image_states)
      if (state.needed && !state.encoded && state.job == 0)
        return PendingImage{state.job = ++image_jobs_, *state.image};
  }
  return {};
}

// The sequence that needed it may have left, or lost its blocks: then nothing waits for it.
void TokenScheduler::on_image_encoded(uint64_t id, base::Result<ImageFeatures> features, Time now) {
  for (auto& s : active_)
    for (auto& state : s->image_states) {
      if (state.job != id || s->place != Place::kActive) continue;
      if (auto status = s->take_features(state, std::move(features)); !status.ok()) fail(*s, std::move(status), now);
      erase_gone();
      return show_gauges();
    }
}

void TokenScheduler::fail(Sequence& s, Status status, Time now) {
  if (!s.started) queue_.uncharge(s);
  results_.fail(s, std::move(status), now);
}

void TokenScheduler::fail_all(const Status& status, Time now) {
  for (const auto* all : {&queue_.all(), &active_.all()})
    for (auto& s : *all) fail(*s, status, now);
  erase_gone();
  show_gauges();
}

void TokenScheduler::abandon() {
  gauges_.withdraw();
  queue_.clear();
  active_.clear();
  mail().clear();
}

void TokenScheduler::erase_gone() {
  planner_.forget_gone();
  queue_.erase_gone();
  active_.erase_gone();
}

}  // namespace weir::generation
