// ConcurrencyLimiter: at most so many Calls inside at once, of one model or of all that share it; the others wait
// outside. Models that share it take turns, and tenants of one model do (sched/fair_queue.h); a tenant's own Calls are
// first come, first served. GRPS calls this max_concurrency.
//
// It stands between a Bus and the Inboxes behind it: it is the Home of the Calls inside, to see them leave, and hands
// their Events on to the Home that they came with. A Call that has waited is lent on by the thread on which another one
// left, a lane's as a rule, so waiting adds no hop.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>

#include "bus/stats.h"
#include "msg/call.h"
#include "msg/spec.h"
#include "sched/deadline_timer.h"
#include "sched/proxy_inbox.h"

namespace weir::sched {

class ConcurrencyLimiter final : public ProxyInbox::Resumable {
 public:
  // `waits_for` stands behind the model's name where a Call is told that it has waited too long; a literal.
  explicit ConcurrencyLimiter(uint32_t most, std::string_view waits_for = {}) : waits_for_(waits_for), most_(most) {}
  ConcurrencyLimiter(const ConcurrencyLimiter&) = delete;
  ConcurrencyLimiter& operator=(const ConcurrencyLimiter&) = delete;

  // Any thread. With 0 every Call waits; with more, resume() lets in those that do.
  void set_most(uint32_t most);
  uint32_t inside() const;
  size_t waiting() const;
  // Lets in Calls that wait, as many as there are places. Any thread.
  void resume() override;

 private:
  friend class LimitedInbox;
  struct Turn {
    class LimitedInbox* inbox;
    msg::Call* call;
  };
  // kFull: as many Calls wait as may. When one of another tenant goes for this one's sake, it is left in `pushed_out`.
  // kGone: the Call has been cancelled.
  enum class Outcome : uint8_t { kInside, kWaits, kFull, kGone };
  Outcome enter(LimitedInbox& inbox, msg::Call* call, msg::Call*& pushed_out);
  void leave();
  bool next(Turn& out);

  const std::string_view waits_for_;
  mutable std::mutex mutex_;
  uint32_t most_;  // this and what follows: under mutex_
  uint32_t inside_ = 0;
  size_t waiting_ = 0;
  std::deque<LimitedInbox*> turns_;  // each Inbox in which Calls wait, once
};

// Puts `inner` behind `limiter`. At most spec.batching.max_queue Calls of it wait; more are refused with
// RESOURCE_EXHAUSTED, and of one that is full a Call of the tenant that has most there makes room for those of others.
// A Call that waits longer than its queue timeout fails with UNAVAILABLE, timed by `deadline_timer` (null: one of its
// own); a cancelled one leaves at once. Do not put an Inbox whose Calls need the same limiter again (a pipeline of
// models behind it) in here. `spec` and `stats` outlive the Inbox.
std::unique_ptr<msg::Inbox> behind(std::shared_ptr<ConcurrencyLimiter> limiter, std::unique_ptr<msg::Inbox> inner,
                                   const msg::ModelSpec& spec, bus::ModelStats& stats,
                                   std::shared_ptr<DeadlineTimer> deadline_timer = nullptr);

}  // namespace weir::sched
