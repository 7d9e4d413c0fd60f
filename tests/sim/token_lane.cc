#include "token_lane.h"

#include "base/check.h"
#include "generation/fit.h"

namespace weir::sim {

using base::check;
using base::Code;
using base::failure;

TokenLane::TokenLane(base::FakeEnv& env, const msg::ModelSpec& spec, bus::ModelStats& stats,
                     const generation::TokenPolicy& policy, uint32_t blocks, uint64_t seed)
    : engine(spec),
      env_(env),
      spec_(spec),
      room_{blocks, policy.block_size},
      max_waiting_(policy.max_waiting),
      scheduler_(engine, room_, policy, spec, stats, seed) {
  (void)engine.reserve(blocks, policy.block_size);
}

void TokenLane::refuse(msg::Call* call, base::Status status) {
  if (call->session && call->generation->aim == msg::Aim::kGenerate)
    cuts_.emplace_back(call->session, uint32_t(call->generation->history.size()));
  call->home->post_here({call, {msg::Failed{std::move(status)}}});
}

void TokenLane::put(msg::Call* call) {
  on_put(call->home);
  if (gone_) return refuse(call, failure(Code::kUnavailable, "gone"));
  if (auto status = generation::fits_tokens(*call, spec_, room_); !status.ok()) return refuse(call, std::move(status));
  bool releases = call->generation->aim == msg::Aim::kRelease;
  if (!releases && arrivals_.size() + scheduler_.queue().size() >= max_waiting_)
    return refuse(call, failure(Code::kResourceExhausted, "full"));
  arrivals_.push_back(call);
  awake_ = true;
}

void TokenLane::take_arrivals() {
  for (auto [session, length] : std::exchange(cuts_, {})) scheduler_.cut(session, length);
  for (auto* call : arrivals_) scheduler_.add(call, env_.now()), inside_.insert(call);
  arrivals_.clear();
}

bool TokenLane::begin(base::Duration work) {
  bool asleep = !awake_ && env_.now() < scheduler_.queue().leaves_at();
  if (step_ || gone_ || asleep) return false;
  take_arrivals();
  step_ = scheduler_.plan(env_.now());
  awake_ = step_ != nullptr;
  post();
  for (auto* call : inside_) {
    check(!call->cancelled, "I9: a plan leaves nobody inside who was cancelled");
    check(call->sink != nullptr, "I9: a plan leaves nobody inside for whom nobody waits");
  }
  if (!step_) return false;
  stepped_ = engine.step(*step_);
  done_ = env_.now() + work;
  return true;
}

// As TokenLane::run_steps() of the real one: what comes first is looked at between steps.
bool TokenLane::end(base::Duration work) {
  if (!step_ || done_ > env_.now()) return false;
  bool goes_on = ahead == Ahead::kYes && stepped_.ok();
  if (goes_on) take_arrivals();
  auto* next = goes_on ? scheduler_.plan_ahead(env_.now()) : nullptr;
  auto follows = next ? engine.step(*next) : base::Status();
  scheduler_.finish(stepped_, env_.now());
  // The scheduler's oldest stands where the first one stood.
  if (!next) step_ = nullptr;
  stepped_ = std::move(follows);
  done_ = env_.now() + work;
  post();
  return true;
}

void TokenLane::encode_image() {
  if (step_ || gone_) return;
  if (!pending_image_) {
    pending_image_ = scheduler_.next_image();
    return;
  }
  awake_ = true;
  scheduler_.on_image_encoded(pending_image_->id, engine.encode_image(pending_image_->image), env_.now());
  pending_image_.reset();
  post();
}

void TokenLane::unload() {
  check(!step_, "a lane ends between steps");
  take_arrivals();
  gone_ = true;
  scheduler_.fail_all(failure(Code::kUnavailable, "gone"), env_.now());
  post();
  check(inside_.empty() && scheduler_.empty(), "I18: unloading answers everybody");
}

void TokenLane::post() {
  auto mail = std::exchange(scheduler_.mail(), {});
  for (auto& m : mail) {
    check(inside_.count(m.call) == 1, "I3: nothing is said of a Call after its last Event");
    if (m.event.last()) inside_.erase(m.call);
    mail_.push_back(std::move(m));
  }
  if (!holds_mail) deliver(mail_.size());
}

bool TokenLane::deliver(size_t most) {
  if (mail_.empty()) return false;
  std::vector<msg::Mail> burst;
  for (; most > 0 && !mail_.empty(); --most) {
    burst.push_back(std::move(mail_.front()));
    mail_.pop_front();
    burst.back().call->home->post(burst);
  }
  return true;
}

}  // namespace weir::sim
