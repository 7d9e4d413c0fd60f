#include "sched/demand_inbox.h"

#include <utility>

#include "base/check.h"
#include "bus/mail_bursts.h"

namespace weir::sched {

// The Inbox behind the gate, where Calls come once there is an outcome.
class DemandInbox::Behind final : public msg::Inbox {
 public:
  // A Call that has come in keeps what was loaded: settle() waits until it has left.
  void put(msg::Call* call) override {
    if (auto* inbox = inbox_.load(std::memory_order_acquire)) return inbox->put(call);
    base::Status why;
    {
      std::lock_guard lock(mutex_);
      why = why_;
    }
    bus::post_one(call, {msg::Failed{std::move(why)}});
  }
  // May come at any time. It is not the last to have what was loaded: whoever retires that waits for all others.
  void poke() override {
    std::shared_ptr<bus::Served> loaded;
    {
      std::lock_guard lock(mutex_);
      loaded = loaded_;
    }
    if (loaded) loaded->inbox->poke();
  }

  void loaded(std::shared_ptr<bus::Served> loaded) {
    std::lock_guard lock(mutex_);
    base::check(!loaded_, "what was loaded before has left");
    loaded_ = std::move(loaded);
    inbox_.store(loaded_->inbox.get(), std::memory_order_release);
  }
  void failed(base::Status why) {
    std::lock_guard lock(mutex_);
    why_ = std::move(why);
  }
  void drop() {
    inbox_.store(nullptr, std::memory_order_release);
    std::unique_lock lock(mutex_);
    auto loaded = std::move(loaded_);
    lock.unlock();  // it may go now, which takes a while
  }

 private:
  std::atomic<msg::Inbox*> inbox_{nullptr};  // of loaded_
  std::mutex mutex_;
  std::shared_ptr<bus::Served> loaded_;  // under mutex_, as the next
  base::Status why_;
};

DemandInbox::DemandInbox(std::string_view model, Bounds bounds, bus::ModelStats& stats,
                         std::shared_ptr<DeadlineTimer> timer, Ask ask)
    : timer_(std::move(timer)), ask_(std::move(ask)), gate_(std::make_shared<ConcurrencyLimiter>(0, " to be loaded")) {
  spec_.name = model;
  spec_.batching.max_queue = bounds.most;
  spec_.batching.queue_timeout = bounds.longest;
  auto behind = std::make_unique<Behind>();
  behind_ = behind.get();
  inbox_ = sched::behind(gate_, std::move(behind), spec_, stats, timer_);
}

DemandInbox::~DemandInbox() = default;

// The gate is closed before anybody is asked, so that the answer finds it so.
bool DemandInbox::must_ask() {
  std::lock_guard lock(mutex_);
  if (state_ == State::kAsked || state_ == State::kLoaded) return false;
  if (state_ == State::kFailed && timer_->now() < retry_at_) return false;
  gate_->set_most(0);
  state_ = State::kAsked;
  return true;
}

// Asks first: once the Call waits it may be answered, and this be gone.
void DemandInbox::put(msg::Call* call) {
  if (must_ask() && !ask_())
    failed(base::try_again(base::Code::kUnavailable, "the server is shutting down"), base::Time::min());
  inbox_->put(call);
}

void DemandInbox::poke() { inbox_->poke(); }

void DemandInbox::loaded(std::shared_ptr<bus::Served> loaded) {
  behind_->loaded(std::move(loaded));
  {
    std::lock_guard lock(mutex_);
    state_ = State::kLoaded;
    gate_->set_most(UINT32_MAX);
  }
  gate_->resume();
}

void DemandInbox::failed(base::Status why, base::Time retry_at) {
  behind_->failed(std::move(why));
  {
    std::lock_guard lock(mutex_);
    state_ = State::kFailed, retry_at_ = retry_at;
    gate_->set_most(UINT32_MAX);
  }
  gate_->resume();
}

void DemandInbox::close() {
  std::lock_guard lock(mutex_);
  gate_->set_most(0);
  state_ = State::kIdle;
}

bool DemandInbox::settle() {
  if (busy()) return false;
  behind_->drop();
  return true;
}

}  // namespace weir::sched
