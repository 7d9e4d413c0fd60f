#include "generation/scheduler.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "msg/priority.h"

namespace weir::generation {

using base::Code;
using base::failure;
using base::Status;
using base::Time;
using Place = Sequence::Place;

namespace {

// A step has room for a token of every running sequence; an engine may have made room for step_tokens and no more.
TokenPolicy sane(TokenPolicy policy) {
  policy.step_tokens = std::max(policy.step_tokens, 1u);
  policy.max_running = std::clamp(policy.max_running, 1u, policy.step_tokens);
  return policy;
}

}  // namespace

Status queue_full(const msg::ModelSpec& spec, const TokenPolicy& policy) {
  return base::try_again(Code::kResourceExhausted, "the queue of model '" + spec.name + "' is full (" +
                                                       std::to_string(policy.max_waiting) +
                                                       " requests); try again later");
}

TokenScheduler::TokenScheduler(TokenEngine& engine, TokenRoom room, const TokenPolicy& policy,
                               const msg::ModelSpec& spec, bus::ModelStats& stats, uint64_t seed)
    : engine_(engine),
      policy_(sane(policy)),
      spec_(spec),
      room_(room),
      limit_(room.positions(*spec.text)),
      stats_(stats),
      tokens_(*stats.tokens),
      memory_(engine, room.blocks, room.block_size, policy.prefix_cache ? KvMemory::Cache::kOn : KvMemory::Cache::kOff,
              seed),
      rows_(room.block_size, limit_),
      ahead_(room.block_size, limit_),
      random_(seed) {
  tokens_.blocks_total.add(room.blocks);
}

TokenScheduler::~TokenScheduler() { base::check(empty(), "a scheduler ends when everything was answered"); }

// A priority that the model does not have means the default one, as in Triton.
uint32_t TokenScheduler::level_of(const msg::Call& call) const { return msg::level_of(spec_, call.priority) - 1; }

void TokenScheduler::insert(std::vector<Owned>& line, Owned sequence) {
  auto at = std::upper_bound(line.begin(), line.end(), sequence,
                             [](const auto& a, const auto& b) { return a->precedes(*b); });
  line.insert(at, std::move(sequence));
}

void TokenScheduler::add(msg::Call* call, Time now) {
  if (call->generation->aim == msg::Aim::kRelease) return release_session(call, now);
  auto s = std::make_unique<Sequence>(call, level_of(*call), ++arrivals_);
  const auto& wish = s->wish;
  uint64_t drawn = random_();
  s->seed = wish.sampling.seed.value_or(drawn);
  const auto& policy = msg::queue_policy(spec_, s->level + 1);
  auto timeout = policy.timeout_of(call->queue_timeout);
  bool rejects = policy.timeout_action == msg::QueuePolicy::TimeoutAction::kReject;
  if (rejects && timeout.count() > 0 && timeout < base::kNever - now) s->leaves = now + timeout;
  s->tag = share_.came(s->level, call->tenant, s->work());
  insert(waiting_, std::move(s));
  gauge();
}

TokenScheduler::LargestTenant TokenScheduler::largest_tenant() const {
  std::unordered_map<uint64_t, size_t> calls;
  LargestTenant most;
  for (const auto& s : waiting_)
    if (size_t n = s->started ? 0 : ++calls[s->call->tenant]; n > most.calls) most = {s->call->tenant, n};
  return most;
}

// As many as a full queue has taken more from other tenants.
void TokenScheduler::push_out(Time now) {
  size_t most = policy_.max_waiting + policy_.max_running - std::min<size_t>(active_.size(), policy_.max_running);
  for (size_t over = waiting_.size() - std::min(waiting_.size(), most); over > 0; --over) {
    auto [tenant, calls] = largest_tenant();
    auto last = std::find_if(waiting_.rbegin(), waiting_.rend(),
                             [tenant = tenant](const auto& s) { return !s->started && s->call->tenant == tenant; });
    if (calls == 0 || last == waiting_.rend()) return;
    fail(**last, queue_full(spec_, policy_), now);
    drop_gone();
  }
}

void TokenScheduler::release_session(msg::Call* call, Time now) {
  memory_.forget(call->session);
  for (auto& line : {&waiting_, &active_})
    for (auto& s : *line)
      if (s->call->session == call->session) s->keeps = false;
  call->times.started = call->times.computing = call->times.computed = call->times.finished = now;
  mail_.push_back({call, {msg::Done{}}});
  gauge();
}

Time TokenScheduler::leaves_at() const {
  Time first = base::kNever;
  for (const auto& s : waiting_) first = std::min({first, s->call->deadline, s->started ? base::kNever : s->leaves});
  return first;
}

Status TokenScheduler::leaving(const Sequence& s, Time now) const {
  if (s.call->deadline <= now) return failure(Code::kDeadlineExceeded, "the deadline passed before the end");
  if (s.call->cancelled.load(std::memory_order_acquire)) return failure(Code::kCancelled, "cancelled");
  if (!s.started && s.leaves <= now)
    return base::try_again(Code::kUnavailable,
                           "the request waited too long in the queue of model '" + spec_.name + "'; try again later");
  return {};
}

// From the back: who gives up several calls is charged for none of them (FairShare::left).
void TokenScheduler::sweep(Time now) {
  for (auto* line : {&waiting_, &active_})
    for (auto at = line->rbegin(); at != line->rend(); ++at) {
      auto& s = *at;
      auto status = leaving(*s, now);
      if (status.ok()) continue;
      if (s->started && s->call->satisfied.load(std::memory_order_relaxed))
        s->ending = msg::Finish::kStopId, finish_sequence(*s, now);
      else
        fail(*s, std::move(status), now);
    }
  drop_gone();
}

void TokenScheduler::drop_gone() {
  for (auto& run : ahead_.runs)
    if (run.sequence && run.sequence->place == Place::kGone) run.sequence = nullptr;
  for (auto* line : {&waiting_, &active_}) std::erase_if(*line, [](const auto& s) { return s->place == Place::kGone; });
}

// Prompt that admitted sequences still have to compute: as long as it fills steps, nobody else is let in to hold
// blocks.
size_t TokenScheduler::backlog() const {
  size_t positions = 0;
  for (const auto& s : active_)
    if (!s->parked() && s->unseen == 0) positions += s->unfed() + s->reviews.size();
  return positions;
}

size_t TokenScheduler::running() const {
  return size_t(std::count_if(active_.begin(), active_.end(),
                              [](const auto& s) { return s->place == Place::kActive && !s->parked(); }));
}

bool TokenScheduler::alone() const {
  return std::none_of(active_.begin(), active_.end(), [](const auto& s) { return s->place == Place::kActive; });
}

// In order, without overtaking: who does not fit holds up the rest, save for those that nobody reads. Where all slots
// are taken, the first call of a tenant may have one that another tenant has beyond its share.
void TokenScheduler::admit_waiting(Time now) {
  std::optional<uint64_t> held_up;  // the last tenant for whom there was no slot: nor is there for its next call
  for (size_t i = 0; i < waiting_.size();) {
    if (backlog() >= policy_.step_tokens) return;
    auto& s = *waiting_[i];
    bool waits = s.place != Place::kWaiting || s.parked() || s.call->tenant == held_up;
    if (!waits && running() >= policy_.max_running && !make_way(s, Scarce::kSlots))
      held_up = s.call->tenant, waits = true;
    if (waits) {
      ++i;
      continue;
    }
    while (!admit(s, now))
      if (!make_way(s, Scarce::kBlocks)) return;
    Owned owned = std::move(waiting_[i]);
    waiting_.erase(waiting_.begin() + ptrdiff_t(i));
    settle_evicted();
    insert(active_, std::move(owned));
    start(s, now);
    drop_gone();
  }
}

bool TokenScheduler::admit(Sequence& s, Time) {
  while (memory_.blocks().available() < s.wanted)
    if (!relieve(s, Claim::kAdmit)) return false;
  uint32_t before = memory_.blocks().available();
  bool feeds_last = s.draws(limit_) || s.held || s.is(msg::Aim::kEmbed);
  memory_.attach(s, s.length() - (feeds_last ? 1 : 0));
  s.find_reviews();
  uint32_t found = before - std::min(before, memory_.blocks().available());
  if (!make_room(s)) {
    s.wanted = memory_.lacking(s) + found;
    give_back(s);
    return false;
  }
  memory_.fill(s);
  return true;
}

// Running sequences will want a block each before long; to let one in and to preempt it at once helps nobody.
bool TokenScheduler::make_room(Sequence& s) {
  const auto& blocks = memory_.blocks();
  while (blocks.available() < memory_.lacking(s))
    if (!relieve(s, Claim::kAdmit)) {
      if (!alone()) return false;
      // Alone with all blocks: what it found costs more than it saves (a copy, a block for reviews).
      memory_.release(s);
      s.reviews = {};
    }
  return blocks.available() >= memory_.lacking(s) + running();
}

void TokenScheduler::give_back(Sequence& s) {
  s.reviews = {};
  if (s.resides() && !s.started && s.keeps)
    memory_.keep(s);
  else
    memory_.release(s);
}

void TokenScheduler::start(Sequence& s, Time now) {
  s.place = Place::kActive;
  s.wanted = 0;
  if (!s.started) {
    s.started = true;
    share_.began(s.level, s.tag, s.work());
    s.cached = s.stored;
    s.call->times.started = now;
    s.call->generation->cached_tokens = s.cached;
    tokens_.prefix_queries.add(s.prompt);
    tokens_.prefix_hits.add(s.cached);
  }
  want_images(s);
  if (complete(s)) finish_sequence(s, now);
}

// Only those that are to be fed are looked at: what is stored was right when it was computed.
void TokenScheduler::want_images(Sequence& s) {
  if (s.image_states.empty()) return;
  auto want = [&](uint32_t from, uint32_t to) {
    for (auto& state : s.image_states_in(from, to)) s.unseen += !state.seen && !std::exchange(state.wanted, true);
  };
  want(s.stored, s.length());
  for (auto range : s.reviews.all()) want(range.start, range.end);
}

std::optional<TokenScheduler::PendingImage> TokenScheduler::next_image() {
  for (auto& s : active_) {
    if (s->place != Place::kActive || s->unseen == 0) continue;
    for (auto& state : s->image_states)
      if (state.wanted && !state.seen && state.job == 0) return PendingImage{state.job = ++image_jobs_, *state.image};
  }
  return {};
}

// Nobody waits for what a sequence wanted that has left, or lost its blocks.
void TokenScheduler::on_image_encoded(uint64_t id, base::Result<ImageFeatures> features, Time now) {
  for (auto& s : active_)
    for (auto& state : s->image_states) {
      if (state.job != id || s->place != Place::kActive) continue;
      if (auto status = take(*s, state, std::move(features)); !status.ok()) fail(*s, std::move(status), now);
      drop_gone();
      return gauge();
    }
}

Status TokenScheduler::take(Sequence& s, Sequence::ImageState& state, base::Result<ImageFeatures> features) const {
  if (!features) return std::move(features).error();
  const auto& image = *state.image;
  uint32_t pads = image.end - image.start - 2;
  if (features->count != pads)
    return base::invalid("image " + std::to_string(&state - s.image_states.data()) + " at positions [" +
                         std::to_string(image.start) + ", " + std::to_string(image.end) + ") has " +
                         std::to_string(pads) + " pads; the model makes " + std::to_string(features->count) +
                         " features of it");
  state.features = std::move(*features);
  state.seen = true;
  --s.unseen;
  return {};
}

void TokenScheduler::fail_all(const Status& status, Time now) {
  for (auto* line : {&waiting_, &active_})
    for (auto& s : *line) fail(*s, status, now);
  drop_gone();
  gauge();
}

void TokenScheduler::abandon() {
  auto take_back = [](base::Gauge& gauge, int64_t was) { gauge.add(-was); };
  stats_.pending.fetch_add(-shown_.waiting, std::memory_order_relaxed);
  take_back(tokens_.waiting, shown_.waiting);
  take_back(tokens_.running, shown_.running);
  take_back(tokens_.blocks_used, shown_.used);
  take_back(tokens_.blocks_cached, shown_.cached);
  take_back(tokens_.sessions, shown_.sessions);
  take_back(tokens_.blocks_total, room_.blocks);
  shown_ = {};
  waiting_.clear();
  active_.clear();
  mail_.clear();
}

void TokenScheduler::gauge() {
  const auto& blocks = memory_.blocks();
  auto show = [](base::Gauge& gauge, int64_t& was, int64_t now) { gauge.add(now - std::exchange(was, now)); };
  auto waiting = int64_t(waiting_.size());
  stats_.pending.fetch_add(waiting - shown_.waiting, std::memory_order_relaxed);
  show(tokens_.waiting, shown_.waiting, waiting);
  show(tokens_.running, shown_.running, int64_t(active_.size()));
  show(tokens_.blocks_used, shown_.used, blocks.used());
  show(tokens_.blocks_cached, shown_.cached, blocks.cached());
  show(tokens_.sessions, shown_.sessions, int64_t(memory_.residents()));
}

}  // namespace weir::generation
