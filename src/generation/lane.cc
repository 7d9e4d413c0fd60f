#include "generation/lane.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/workers.h"
#include "generation/fit.h"
#include "generation/kv_budget.h"
#include "generation/lane_masks.h"
#include "generation/outbox.h"
#include "generation/scheduler.h"

namespace weir::generation {
namespace {

using base::Code;
using base::Status;
using base::Time;

constexpr int kImageWorkerNice = 5;  // leaves it less than a third of a core that a step wants, too

uint64_t random_seed() {
  std::random_device device;
  return uint64_t(device()) << 32 | device();
}

// put() leaves arrivals under a lock and wakes the thread only if it sleeps; the scheduler belongs to the thread alone.
class TokenLane final : public TokenInbox {
 public:
  TokenLane(std::unique_ptr<TokenEngine> engine, TokenRoom room, const TokenPolicy& policy, const msg::ModelSpec& spec,
            bus::ModelStats& stats)
      : engine_(std::move(engine)),
        room_(room),
        policy_(policy),
        spec_(spec),
        stats_(stats),
        scheduler_(make_scheduler()),
        thread_([this] { run(); }) {}

  ~TokenLane() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  void put(msg::Call* call) override;
  void poke() override;
  size_t load() override {
    std::lock_guard lock(mutex_);
    return arrivals_.size() + waiting_ + active_;
  }

 private:
  enum class State : uint8_t { kBusy, kStalled, kIdle };  // kStalled: asleep though Calls are here
  enum class Found : uint8_t { kNothing, kStep };
  struct EncodedImage {
    uint64_t job;
    base::Result<ImageFeatures> features;
  };
  using EncodeImage = base::Result<ImageFeatures> (TokenEngine::*)(const msg::Image&);

  std::unique_ptr<TokenScheduler> make_scheduler() const {
    return std::make_unique<TokenScheduler>(*engine_, room_, policy_, spec_, stats_, random_seed());
  }
  void run();
  bool gather(Found last);
  Found turn();
  void take_in();
  void note_largest_tenant();
  void rescue(const Status& why);
  void run_steps(TokenStep& step);
  bool gather_ahead();
  void note_queue();  // this and the next one: under the lock
  void take_arrivals();
  using Act = Status (TokenEngine::*)(TokenStep&);
  Status act(Act what, TokenStep& step);
  Status begin_draws(Act what, TokenStep& step);
  void finish(const Status& outcome);
  Found encode_next_image(Found stepped);
  void encode_image_aside(TokenScheduler::PendingImage pending);
  base::Result<ImageFeatures> encode_image(const msg::Image& image, EncodeImage how);
  Status named(Status thrown) const;
  void post();
  void refuse(msg::Call* call, Status status);
  void note_failure(msg::Call& call, Code code);
  bool has_room(const msg::Call& call) const;

  std::unique_ptr<TokenEngine> engine_;
  const TokenRoom room_;
  const TokenPolicy policy_;
  const msg::ModelSpec& spec_;
  bus::ModelStats& stats_;
  const std::string title_ = "model '" + spec_.name + "'";

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<msg::Call*> arrivals_;                        // this and what follows: under mutex_
  std::vector<std::pair<base::SessionId, uint32_t>> cuts_;  // of refused Calls: session, length of its history
  State state_ = State::kBusy;
  bool poked_ = false, stopping_ = false;
  std::optional<EncodedImage> encoded_;  // by the image worker
  size_t waiting_ = 0, active_ = 0;      // in the scheduler, when arrivals were last taken
  size_t most_waiting_ = size_t(policy_.max_waiting) + policy_.max_running;  // there
  AdmissionQueue::LargestTenant largest_tenant_;                             // there, if its queue was full

  std::unique_ptr<TokenScheduler> scheduler_;  // the thread's, as all below; null where there is no memory for one
  std::vector<msg::Call*> taken_;
  Outbox mail_;
  std::vector<std::pair<base::SessionId, uint32_t>> taken_cuts_;
  LaneMasks masks_;
  TokenStep* uncollected_ = nullptr;                 // was submitted to the engine, and is not collected yet
  bool encoding_ = false;                            // the image worker has an image
  bool stale_image_ = false;                         // it belongs to a sequence that was lost with its scheduler
  std::optional<EncodedImage> ready_image_;          // on its way to the scheduler
  base::Workers image_worker_{1, kImageWorkerNice};  // encodes images while steps run
  std::thread thread_;
};

// The Call's session may go on from the history that it named, which the scheduler has to know.
void TokenLane::refuse(msg::Call* call, Status status) {
  if (call->session && call->generation && call->generation->aim == msg::Aim::kGenerate) {
    std::lock_guard lock(mutex_);
    cuts_.push_back({call->session, uint32_t(call->generation->history.size())});
  }
  note_failure(*call, status.code);
  call->home->post_here({call, {msg::Failed{std::move(status)}}});
}

void TokenLane::note_failure(msg::Call& call, Code code) {
  call.times.finished = base::steady_now();
  auto took = std::max<int64_t>((call.times.finished - call.times.queued).count(), 0);
  stats_.add_failure(code, uint64_t(took));
  stats_.tokens->end(bus::TokenStats::Reason::kError);
}

// In a full queue there is room for a tenant that has fewer calls in it than another: the scheduler drops one of the
// other's (AdmissionQueue::surplus). No more than the queue's length again may arrive in this way before it does.
bool TokenLane::has_room(const msg::Call& call) const {
  size_t most = most_waiting_;
  if (arrivals_.size() + waiting_ < most) return true;
  if (arrivals_.size() + waiting_ >= 2 * most) return false;
  auto arrived = [&](uint64_t tenant) {
    return size_t(std::count_if(arrivals_.begin(), arrivals_.end(), [&](auto* c) { return c->tenant == tenant; }));
  };
  auto largest = largest_tenant_;
  if (largest.calls == 0 && !arrivals_.empty()) largest = {arrivals_.back()->tenant, arrived(arrivals_.back()->tenant)};
  return call.tenant != largest.tenant && arrived(call.tenant) + 1 < largest.calls;
}

void TokenLane::put(msg::Call* call) {
  call->times.queued = base::steady_now();
  if (auto status = fits_tokens(*call, spec_, room_, engine_->adapter_loader().get()); !status.ok())
    return refuse(call, std::move(status));
  bool asleep = false, refused = false;
  size_t found = 0;
  {
    std::lock_guard lock(mutex_);
    found = arrivals_.size() + waiting_;
    refused = call->generation->aim != msg::Aim::kRelease && !has_room(*call);
    if (!refused) {
      arrivals_.push_back(call);  // what it throws is the caller's: the Call is not here then
      asleep = std::exchange(state_, State::kBusy) != State::kBusy;
    }
  }
  if (asleep) wake_.notify_one();
  if (refused) refuse(call, queue_full(spec_, policy_, found));
}

// A Call was cancelled or has credit. A lane that steps looks before its next step; one without Calls sleeps on.
void TokenLane::poke() {
  bool asleep;
  {
    std::lock_guard lock(mutex_);
    if (state_ == State::kIdle) return;
    poked_ = true;
    asleep = std::exchange(state_, State::kBusy) == State::kStalled;
  }
  if (asleep) wake_.notify_one();
}

// Takes the arrivals; sleeps first when the last plan found nothing to run. False: the lane is to end.
bool TokenLane::gather(Found last) {
  std::unique_lock lock(mutex_);
  note_queue();
  while (last == Found::kNothing && arrivals_.empty() && !poked_ && !encoded_ && !stopping_) {
    state_ = !scheduler_ || scheduler_->empty() ? State::kIdle : State::kStalled;
    Time until = scheduler_ ? scheduler_->queue().leaves_at() : base::kNever;
    if (until == base::kNever)
      wake_.wait(lock);
    else if (wake_.wait_until(lock, until) == std::cv_status::timeout)
      break;
  }
  state_ = State::kBusy;
  poked_ = false;
  take_arrivals();
  ready_image_ = std::exchange(encoded_, {});
  return !stopping_;
}

void TokenLane::note_queue() {
  waiting_ = scheduler_ ? scheduler_->queue().size() : 0, active_ = scheduler_ ? scheduler_->active() : 0;
  if (scheduler_) most_waiting_ = scheduler_->queue().most_waiting(active_);
}

void TokenLane::take_arrivals() {
  taken_.swap(arrivals_);
  taken_cuts_.swap(cuts_);
  waiting_ += taken_.size();
}

// An exception that is thrown in a turn ends the sequences that are here, and neither the lane nor the process.
void TokenLane::run() {
  pthread_setname_np(pthread_self(), "token lane");
  for (Found found = Found::kNothing; gather(found);) {
    found = Found::kNothing;
    auto status = base::attempt("a token lane", [&] { found = turn(); });
    if (!status.ok()) rescue(status);
  }
  rescue(Status{Code::kUnavailable, title_ + " is being unloaded", {}});
}

TokenLane::Found TokenLane::turn() {
  take_in();
  if (ready_image_) {
    encoding_ = false;
    if (!std::exchange(stale_image_, false))
      scheduler_->on_image_encoded(ready_image_->job, std::move(ready_image_->features), base::steady_now());
    ready_image_.reset();
  }
  auto* step = scheduler_->plan(base::steady_now());
  post();
  auto found = step ? Found::kStep : Found::kNothing;
  if (step) engine_->overlaps() ? run_steps(*step) : finish(begin_draws(&TokenEngine::step, *step));
  if (encode_next_image(found) == Found::kStep) found = Found::kStep;
  post();
  return found;
}

void TokenLane::take_in() {
  if (!scheduler_) scheduler_ = make_scheduler();
  for (auto [session, length] : taken_cuts_) scheduler_->cut(session, length);
  taken_cuts_.clear();
  note_largest_tenant();
  mail_.arrive(taken_);
  for (auto* call : taken_) scheduler_->add(call, base::steady_now());
  taken_.clear();
}

void TokenLane::note_largest_tenant() {
  bool full = scheduler_->queue().size() + taken_.size() >= scheduler_->queue().most_waiting(scheduler_->active());
  auto largest = full ? scheduler_->queue().largest_tenant() : AdmissionQueue::LargestTenant();
  std::lock_guard lock(mutex_);
  largest_tenant_ = largest;
}

// The scheduler may be in any state. Its events are handed over, all Calls without their last Event fail with `why`,
// and another scheduler follows, without the sessions and prefixes that this one kept.
void TokenLane::rescue(const Status& why) {
  if (uncollected_)
    (void)base::attempt("an engine", [this] { (*engine_).collect(*std::exchange(uncollected_, nullptr)); });
  post();
  for (auto* call : mail_.present(taken_)) {
    note_failure(*call, why.code);
    mail_.fail(*call, why);
  }
  taken_.clear();
  if (scheduler_) scheduler_->abandon();
  scheduler_.reset();
  if (ready_image_) encoding_ = false;
  ready_image_.reset();
  stale_image_ = encoding_;
  post();
}

// The next step, with what has arrived meanwhile, is with the engine before this one is read. `step` is the scheduler's
// oldest, whichever that is.
void TokenLane::run_steps(TokenStep& step) {
  auto submitted = begin_draws(&TokenEngine::submit, step);
  for (TokenStep* next = &step; next;) {
    uncollected_ = submitted.ok() ? &step : nullptr;
    next = submitted.ok() && gather_ahead() ? scheduler_->plan_ahead(base::steady_now()) : nullptr;
    auto follows = next ? begin_draws(&TokenEngine::submit, *next) : Status();
    auto outcome = submitted.ok() ? act(&TokenEngine::collect, step) : submitted;
    uncollected_ = next && follows.ok() ? next : nullptr;
    finish(outcome);
    submitted = std::move(follows);
  }
}

// As gather(), while a step runs. False: there is something that is done between steps.
bool TokenLane::gather_ahead() {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || encoded_) return false;
    note_queue();
    take_arrivals();
  }
  take_in();
  return true;
}

void TokenLane::finish(const Status& outcome) {
  scheduler_->finish(outcome, base::steady_now());
  stats_.set_last_inference(base::unix_ms());
  post();
}

Status TokenLane::act(Act what, TokenStep& step) {
  Status outcome;
  auto thrown = base::attempt(title_, [&] { outcome = (*engine_.*what)(step); });
  return thrown.ok() ? outcome : named(std::move(thrown));
}

Status TokenLane::begin_draws(Act what, TokenStep& step) {
  masks_.begin(step);
  auto outcome = act(what, step);
  masks_.end();
  return outcome;
}

// The text for an exception that a library under the engine has thrown: its words are in the log, and not for clients.
Status TokenLane::named(Status thrown) const {
  if (thrown.code == Code::kInternal) thrown.text = title_ + " failed";
  return thrown;
}

// Images are encoded one at a time: by the image worker while steps run, if the engine can; else here, between steps.
TokenLane::Found TokenLane::encode_next_image(Found stepped) {
  if (encoding_) return Found::kNothing;
  auto pending = scheduler_->next_image();
  if (!pending) return Found::kNothing;
  if (stepped == Found::kStep && engine_->encodes_aside()) {
    encode_image_aside(std::move(*pending));
    return Found::kNothing;
  }
  scheduler_->on_image_encoded(pending->id, encode_image(pending->image, &TokenEngine::encode_image),
                               base::steady_now());
  return Found::kStep;
}

void TokenLane::encode_image_aside(TokenScheduler::PendingImage pending) {
  image_worker_.post([this, pending = std::move(pending)] {
    base::Result<ImageFeatures> features = Status{Code::kResourceExhausted, {}, {}};  // for want of words
    (void)base::attempt("an image worker",
                        [&] { features = encode_image(pending.image, &TokenEngine::encode_image_aside); });
    bool asleep;
    {
      std::lock_guard lock(mutex_);
      encoded_ = EncodedImage{pending.id, std::move(features)};
      asleep = std::exchange(state_, State::kBusy) != State::kBusy;
    }
    if (asleep) wake_.notify_one();
  });
  encoding_ = true;
}

base::Result<ImageFeatures> TokenLane::encode_image(const msg::Image& image, EncodeImage how) {
  base::Result<ImageFeatures> features = ImageFeatures{};
  auto thrown = base::attempt(title_, [&] { features = ((*engine_).*how)(image); });
  if (!thrown.ok()) features = named(std::move(thrown));
  return features;
}

void TokenLane::post() {
  if (scheduler_) mail_.take(scheduler_->mail());
  mail_.post();
}

}  // namespace

std::unique_ptr<TokenInbox> make_token_lane(std::unique_ptr<TokenEngine> engine, const TokenPolicy& configured,
                                            const msg::ModelSpec& spec, bus::ModelStats& stats) {
  base::check(spec.text != nullptr, "a model of tokens has a TextSpec");
  TokenPolicy policy = configured.clamped();
  uint32_t blocks = kv_blocks(*engine, policy, spec.text->max_length);
  if (blocks < 2)
    throw std::runtime_error("kv_bytes " + std::to_string(policy.kv_bytes) + " are less than two blocks of " +
                             std::to_string(bytes_per_block(*engine, policy)) + " bytes");
  if (auto status = engine->reserve(blocks, policy.block_size); !status.ok())
    throw std::runtime_error("no room for keys and values: " + status.text);
  if (!stats.tokens) stats.tokens = std::make_unique<bus::TokenStats>();
  return std::make_unique<TokenLane>(std::move(engine), TokenRoom{blocks, policy.block_size}, policy, spec, stats);
}

}  // namespace weir::generation
