#include "sched/demand_inbox.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "bus/mail_bursts.h"
#include "sched/concurrency_limiter.h"

namespace weir::sched {

// The version that was loaded, for both lines.
class DemandInbox::LoadedVersion {
 public:
  msg::Inbox* inbox() const { return inbox_.load(std::memory_order_acquire); }
  // May come at any time. It is not the last to have what was loaded: whoever retires that waits for all others.
  void poke() {
    std::shared_ptr<bus::Served> loaded;
    {
      std::lock_guard lock(mutex_);
      loaded = loaded_;
    }
    if (loaded) loaded->inbox->poke();
  }
  void set(std::shared_ptr<bus::Served> loaded) {
    std::lock_guard lock(mutex_);
    base::check(!loaded_, "what was loaded before has left");
    loaded_ = std::move(loaded);
    inbox_.store(loaded_->inbox.get(), std::memory_order_release);
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
  std::shared_ptr<bus::Served> loaded_;  // under mutex_
};

// Calls that wait together.
class DemandInbox::Line {
 public:
  Line(const LoadedVersion& version, const msg::ModelSpec& spec, bus::ModelStats& stats,
       std::shared_ptr<DeadlineTimer> timer)
      : timer_(std::move(timer)), gate_(std::make_shared<ConcurrencyLimiter>(0, " to be loaded")) {
    auto behind = std::make_unique<Behind>(version);
    behind_ = behind.get();
    inbox_ = sched::behind(gate_, std::move(behind), spec, stats, timer_);
  }

  msg::Inbox& inbox() { return *inbox_; }
  size_t waiting() const { return gate_->waiting(); }
  // Calls that have asked and are about to wait. Outlives this.
  std::shared_ptr<std::atomic<uint32_t>> coming() const { return coming_; }
  bool busy() const { return gate_->inside() > 0; }

  // The gate is closed before anybody is asked, so that the answer finds it so.
  bool must_ask() {
    std::lock_guard lock(mutex_);
    if (state_ == State::kAsked || state_ == State::kLoaded) return false;
    if (state_ == State::kFailed && timer_->now() < retry_at_) return false;
    gate_->set_most(0);
    state_ = State::kAsked;
    return true;
  }
  void loaded() {
    behind_->loaded();
    {
      std::lock_guard lock(mutex_);
      state_ = State::kLoaded;
      gate_->set_most(UINT32_MAX);
    }
    gate_->resume();
  }
  void failed(base::Status why, base::Time retry_at) {
    behind_->failed(std::move(why));
    {
      std::lock_guard lock(mutex_);
      state_ = State::kFailed, retry_at_ = retry_at;
      gate_->set_most(UINT32_MAX);
    }
    gate_->resume();
  }
  void close() {
    std::lock_guard lock(mutex_);
    gate_->set_most(0);
    state_ = State::kIdle;
  }

 private:
  // Where Calls come once there is an outcome.
  class Behind final : public msg::Inbox {
   public:
    explicit Behind(const LoadedVersion& version) : version_(version) {}
    // A Call that has come in keeps what was loaded: settle() waits until it has left.
    void put(msg::Call* call) override {
      if (!failed_.load(std::memory_order_acquire))
        if (auto* inbox = version_.inbox()) return inbox->put(call);
      base::Status why;
      {
        std::lock_guard lock(mutex_);
        why = why_;
      }
      bus::post_one(call, {msg::Failed{std::move(why)}});
    }
    void failed(base::Status why) {
      std::lock_guard lock(mutex_);
      why_ = std::move(why);
      failed_.store(true, std::memory_order_release);
    }
    void loaded() { failed_.store(false, std::memory_order_release); }

   private:
    const LoadedVersion& version_;
    std::atomic<bool> failed_{false};  // what was loaded before may still be there
    std::mutex mutex_;
    base::Status why_;  // under mutex_
  };
  enum class State : uint8_t { kIdle, kAsked, kLoaded, kFailed };

  const std::shared_ptr<DeadlineTimer> timer_;
  const std::shared_ptr<ConcurrencyLimiter> gate_;
  const std::shared_ptr<std::atomic<uint32_t>> coming_ = std::make_shared<std::atomic<uint32_t>>(0);
  Behind* behind_;  // of inbox_
  std::unique_ptr<msg::Inbox> inbox_;
  std::mutex mutex_;
  State state_ = State::kIdle;  // under mutex_, as the next
  base::Time retry_at_ = base::kNever;
};

namespace {

msg::ModelSpec queue_of(std::string_view model, const DemandInbox::Bounds& bounds) {
  msg::ModelSpec spec;
  spec.name = model;
  spec.batching.max_queue = bounds.most;
  spec.batching.queue_timeout = bounds.longest;
  return spec;
}

}  // namespace

DemandInbox::DemandInbox(std::string_view model, Bounds bounds, bus::ModelStats& stats,
                         const std::shared_ptr<DeadlineTimer>& timer, Ask ask)
    : ask_(std::move(ask)),
      spec_(queue_of(model, bounds)),
      version_(std::make_unique<LoadedVersion>()),
      clients_(std::make_unique<Line>(*version_, spec_, stats, timer)),
      models_(std::make_unique<Line>(*version_, spec_, stats, timer)) {}

// Calls inside of what was loaded end before their lines do.
DemandInbox::~DemandInbox() { version_->drop(); }

// Asks first: once the Call waits it may be answered, and this be gone. Whoever is asked finds it counted already.
void DemandInbox::put(msg::Call* call) {
  Line& line = call->tenant == 0 ? *models_ : *clients_;
  if (!line.must_ask()) return line.inbox().put(call);
  const auto coming = line.coming();
  ++*coming;
  if (!ask_()) line.failed(base::try_again(base::Code::kUnavailable, "the server is shutting down"), base::Time::min());
  line.inbox().put(call);
  --*coming;
}

void DemandInbox::poke() {
  clients_->inbox().poke();
  models_->inbox().poke();
  version_->poke();
}

void DemandInbox::loaded(std::shared_ptr<bus::Served> loaded) {
  version_->set(std::move(loaded));
  clients_->loaded();
  models_->loaded();
}

void DemandInbox::failed(const base::Status& why, base::Time retry_at) {
  clients_->failed(why, retry_at);
  models_->failed(why, retry_at);
}

void DemandInbox::refuse_models(const base::Status& why, base::Time retry_at) { models_->failed(why, retry_at); }

void DemandInbox::close() {
  clients_->close();
  models_->close();
}

bool DemandInbox::settle() {
  if (busy()) return false;
  version_->drop();
  return true;
}

size_t DemandInbox::waiting() const { return clients_->waiting() + models_->waiting(); }
bool DemandInbox::clients_wait() const { return clients_->waiting() > 0 || *clients_->coming() > 0; }
bool DemandInbox::busy() const { return clients_->busy() || models_->busy(); }

}  // namespace weir::sched
