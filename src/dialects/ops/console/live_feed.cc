#include "dialects/ops/console/live_feed.h"

#include <algorithm>
#include <utility>

#include "dialects/ops/feed_stream.h"
#include "wire/identity.h"
#include "wire/sse.h"

namespace weir::ops {

using Shown = LiveState::Warnings;

// The events of one moment; those that nobody wants are empty. Immutable once posted.
struct LiveFeed::Moment {
  struct Events {
    base::Bytes state, change;
  };
  uint64_t number = 0;                   // from 1
  std::map<std::string, Events> events;  // by Audience::key()
};

// Each has a cache line of its own: its counters change with its own shard's followers.
struct alignas(64) LiveFeed::ShardFollowers {
  ShardLive* live = nullptr;  // on its shard's thread
  std::atomic<uint32_t> followers{0};
  std::atomic<uint32_t> on_the_way{0};  // moments that it has not taken yet
};

namespace {

constexpr uint32_t kMostMoments = 4;  // on their way to a shard that is busy
constexpr base::Duration kLeastPause = std::chrono::milliseconds(200);

base::Bytes event(std::string_view data, std::string_view name) {
  std::string out;
  wire::append_sse(out, data, name);
  return base::Bytes::adopt(std::move(out));
}

}  // namespace

LiveFeed::LiveFeed(uint32_t shards, Post post, ReadSource read_source)
    : by_shard_(shards), post_(std::move(post)), read_source_(std::move(read_source)) {}

LiveFeed::~LiveFeed() { stop(); }

void LiveFeed::start() {
  thread_ = std::thread([this] { run(); });
}

void LiveFeed::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool LiveFeed::wanted() const {
  return std::any_of(by_shard_.begin(), by_shard_.end(), [](const auto& here) { return here.followers.load() > 0; });
}

std::string LiveFeed::Audience::key() const {
  return (warnings == Shown::kShown ? "log" : "") + (models ? '\n' + models->text() : std::string());
}

std::map<std::string, LiveFeed::Present> LiveFeed::present() {
  std::lock_guard lock(mutex_);
  return present_;
}

// Sends events every so often while there are clients. A new client gets them at once, but clients that come and go all
// the time do not keep the thread busy.
void LiveFeed::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!wanted()) {
      last_.reset();
      wake_.wait(lock, [this] { return stopping_ || arrived_; });
    } else if (!arrived_) {
      wake_.wait_for(lock, kEvery, [this] { return stopping_ || arrived_; });
    }
    if (stopping_) return;
    arrived_ = false;
    lock.unlock();
    turn();
    lock.lock();
    wake_.wait_for(lock, kLeastPause, [this] { return stopping_; });
  }
}

void LiveFeed::turn() {
  if (!wanted()) return last_.reset();
  const bool whole = behind_.exchange(false) || !last_;
  auto state = std::make_unique<const LiveState>(read_source_());
  auto moment = std::make_shared<Moment>();
  moment->number = ++number_;
  for (const auto& [key, those] : present()) {
    const auto& [warnings, models] = those.audience;
    Moment::Events& events = moment->events[key];
    if (whole) events.state = event(state->whole(warnings, models.get()), "state");
    if (last_) events.change = event(state->change_from(*last_, warnings, models.get()), "change");
  }
  last_ = std::move(state);
  for (size_t i = 0; i < by_shard_.size(); ++i) {
    ShardFollowers& here = by_shard_[i];
    if (here.followers.load() == 0 || here.on_the_way.load() >= kMostMoments) continue;
    here.on_the_way.fetch_add(1);
    post_(base::ShardId(i), [&here, moment = std::shared_ptr<const Moment>(moment)] {
      here.on_the_way.fetch_sub(1);
      if (here.live) here.live->deliver(*moment);
    });
  }
}

void LiveFeed::come(ShardFollowers& here, const Audience& audience) {
  here.followers.fetch_add(1);
  {
    std::lock_guard lock(mutex_);
    Present& those = present_[audience.key()];
    those.audience = audience;
    ++those.followers;
    behind_ = true;
    arrived_ = true;
  }
  wake_.notify_all();
}

void LiveFeed::leave(ShardFollowers& here, const std::string& audience) {
  here.followers.fetch_sub(1);
  std::lock_guard lock(mutex_);
  if (auto at = present_.find(audience); --at->second.followers == 0) present_.erase(at);
}

std::unique_ptr<LiveFeed::ShardLive> LiveFeed::on_shard(base::ShardId shard, wire::Router& router) {
  return std::make_unique<ShardLive>(*this, shard, router);
}

// One client of the stream, until it ends.
class LiveFeed::ShardLive::Follower final : public wire::ExchangeListener {
 public:
  Follower(ShardLive& home, wire::Exchange& exchange, std::string audience)
      : home_(home), exchange_(exchange), audience_(std::move(audience)) {}

  void on_close(wire::Exchange&, bool) override { home_.leave(*this); }

  void deliver(const Moment& moment) {
    if (exchange_.backlog() >= kMostBacklog) return;
    auto at = moment.events.find(audience_);
    if (at == moment.events.end()) return home_.feed_.behind_.store(true);
    const auto& [state, change] = at->second;
    const bool next = known_ > 0 && known_ + 1 == moment.number && !change.empty();
    const base::Bytes& told = next ? change : state;
    if (told.empty()) return home_.feed_.behind_.store(true);  // the next moment brings the state
    known_ = moment.number;
    exchange_.body(told);
  }
  const std::string& audience() const { return audience_; }
  void end() { exchange_.end(); }
  const wire::Exchange& exchange() const { return exchange_; }

 private:
  ShardLive& home_;
  wire::Exchange& exchange_;
  const std::string audience_;
  uint64_t known_ = 0;  // the moment that it has
};

LiveFeed::ShardLive::ShardLive(LiveFeed& feed, base::ShardId shard, wire::Router& router)
    : feed_(feed), shard_(shard), router_(router) {
  feed_.by_shard_[size_t(shard)].live = this;
  router.add({"GET", "/console/v1/live", this, "console", {wire::BodyPlan::kIgnore}, wire::Permission::kMetrics});
}

LiveFeed::ShardLive::~ShardLive() { feed_.by_shard_[size_t(shard_)].live = nullptr; }

void LiveFeed::ShardLive::serve(wire::Exchange& x, const wire::PathArgs&) {
  const base::Client* client = client_of(x);
  auto status = may_follow(followers_.size(), count_own(followers_, client), client, draining_);
  if (!status.ok()) return wire::respond_error(x, status);
  const auto* identity = x.request().identity;
  Audience audience{Shown::kHidden, identity ? identity->models : nullptr};
  // Lines of the log name clients, and models. That somebody may not see them is no refusal.
  if (!audience.models && router_.permit(x, wire::Permission::kObserve).ok()) audience.warnings = Shown::kShown;
  x.record().reject = {};
  auto follower = std::make_unique<Follower>(*this, x, audience.key());
  followers_.push_back(follower.get());
  x.attach(std::move(follower));
  open_feed(x);
  feed_.come(feed_.by_shard_[size_t(shard_)], audience);
}

void LiveFeed::ShardLive::leave(const Follower& follower) {
  std::erase(followers_, &follower);
  feed_.leave(feed_.by_shard_[size_t(shard_)], follower.audience());
}

void LiveFeed::ShardLive::drain() {
  draining_ = true;
  for (auto* follower : std::vector(followers_)) follower->end();
}

void LiveFeed::ShardLive::deliver(const Moment& moment) {
  for (auto* follower : std::vector(followers_)) follower->deliver(moment);
}

}  // namespace weir::ops
