#include "dialects/ops/request_feed.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "dialects/ops/access_log.h"
#include "dialects/ops/feed_stream.h"
#include "wire/sse.h"

namespace weir::ops {
namespace {

constexpr auto kAlive = std::chrono::seconds(10);  // between two signs of life
constexpr uint32_t kHighestMost = 100'000;
constexpr uint32_t kSlices = std::chrono::seconds(1) / RequestFeed::kEvery;

base::Result<uint32_t> most_of(const wire::Request& request) {
  const std::string text = request.query_value("most");
  if (text.empty()) return RequestFeed::kUsualMost;
  uint32_t most = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), most);
  if (error == std::errc() && end == text.data() + text.size() && most >= 1 && most <= kHighestMost) return most;
  return base::invalid("most: a number of lines per second is wanted, from 1 to " + std::to_string(kHighestMost));
}

}  // namespace

// Those who ask for the same. All but the counts is immutable.
struct RequestFeed::Group {
  Group(RequestFilter filter_of_all, uint32_t most_a_second, size_t shards)
      : filter(std::move(filter_of_all)), most(most_a_second), on_shard(shards) {}
  const RequestFilter filter;
  const uint32_t most;                          // lines a second
  std::vector<std::atomic<uint32_t>> on_shard;  // followers of each shard
  uint32_t followers = 0;                       // of all; under the feed's mutex_
};

// One shard's requests, as a group is told of them. Immutable once posted.
struct RequestFeed::Batch {
  std::shared_ptr<const Group> group;
  base::Bytes events;
  uint64_t told = 0, skipped = 0;
};

// A shard as the others know of it. Each has a cache line of its own: its counters change with its own followers.
struct alignas(64) RequestFeed::Arrivals {
  ShardFeed* feed = nullptr;          // on its shard's thread
  std::atomic<size_t> on_the_way{0};  // bytes of batches that it has not taken yet
};

// The events of one group since the last sending.
struct RequestFeed::ShardFeed::Gathered {
  Gathered(std::shared_ptr<const Group> of, size_t shards) : group(std::move(of)), lost(shards) {}
  std::shared_ptr<const Group> group;
  std::string events;
  uint32_t good = 0, failed = 0;  // of which there are events
  uint64_t skipped = 0;
  std::vector<uint64_t> lost;  // by shard: what it was too busy to be sent, until it takes something again
};

RequestFeed::RequestFeed(uint32_t shards, Post post) : by_shard_(shards), post_(std::move(post)) {}
RequestFeed::~RequestFeed() = default;

std::unique_ptr<RequestFeed::ShardFeed> RequestFeed::on_shard(base::ShardId shard, base::Env& env,
                                                              wire::Router& router) {
  return std::make_unique<ShardFeed>(*this, shard, env, router);
}

std::shared_ptr<RequestFeed::Group> RequestFeed::join(const RequestFilter& filter, uint32_t most, base::ShardId shard) {
  std::lock_guard lock(mutex_);
  auto at = std::find_if(groups_.begin(), groups_.end(),
                         [&](const auto& group) { return group->filter == filter && group->most == most; });
  if (at == groups_.end()) {
    at = groups_.insert(at, std::make_shared<Group>(filter, most, by_shard_.size()));
    version_.fetch_add(1);
  }
  ++(*at)->followers;
  (*at)->on_shard[size_t(shard)].fetch_add(1);
  return *at;
}

void RequestFeed::leave(const std::shared_ptr<Group>& group, base::ShardId shard) {
  std::lock_guard lock(mutex_);
  group->on_shard[size_t(shard)].fetch_sub(1);
  if (--group->followers > 0) return;
  std::erase(groups_, group);
  version_.fetch_add(1);
}

// One client of GET /console/v1/requests, until its stream ends.
class RequestFeed::ShardFeed::Follower final : public wire::ExchangeListener {
 public:
  Follower(ShardFeed& home, wire::Exchange& exchange, std::shared_ptr<Group> group)
      : home_(home), exchange_(exchange), group_(std::move(group)) {}

  void on_close(wire::Exchange&, bool) override { home_.leave(*this); }

  void deliver(const Batch& batch, uint64_t lost) {
    if (batch.group != group_) return;
    dropped_ += lost + batch.skipped;
    if (exchange_.backlog() >= kMostBacklog) {
      dropped_ += batch.told;
      return;
    }
    if (dropped_ > 0) {
      std::string out;
      wire::append_sse(out, "{\"dropped\":" + std::to_string(std::exchange(dropped_, 0)) + "}", "dropped");
      exchange_.body(base::Bytes::adopt(std::move(out)));
    }
    if (!batch.events.empty()) exchange_.body(batch.events);
  }
  void sign_of_life() {
    std::string out;
    wire::append_sse_comment(out);
    if (exchange_.backlog() < kMostBacklog) exchange_.body(base::Bytes::adopt(std::move(out)));
  }
  void end() { exchange_.end(); }
  const wire::Exchange& exchange() const { return exchange_; }
  const std::shared_ptr<Group>& group() const { return group_; }

 private:
  ShardFeed& home_;
  wire::Exchange& exchange_;
  const std::shared_ptr<Group> group_;
  uint64_t dropped_ = 0;
};

RequestFeed::ShardFeed::ShardFeed(RequestFeed& feed, base::ShardId shard, base::Env& env, wire::Router& router)
    : feed_(feed), shard_(shard), env_(env) {
  feed_.by_shard_[size_t(shard)].feed = this;
  router.add({"GET", "/console/v1/requests", this, "console", {wire::BodyPlan::kIgnore}, wire::Permission::kObserve});
  router.observe(*this);
}

RequestFeed::ShardFeed::~ShardFeed() {
  for (auto timer : {alive_, send_}) env_.cancel(timer);
  feed_.by_shard_[size_t(shard_)].feed = nullptr;
}

void RequestFeed::ShardFeed::serve(wire::Exchange& x, const wire::PathArgs&) {
  auto filter = RequestFilter::from_query(x.request());
  if (!filter) return wire::respond_error(x, filter.error());
  auto most = most_of(x.request());
  if (!most) return wire::respond_error(x, most.error());
  const base::Client* client = client_of(x);
  auto status = may_follow(followers_.size(), count_own(followers_, client), client, draining_);
  if (!status.ok()) return wire::respond_error(x, status);
  auto follower = std::make_unique<Follower>(*this, x, feed_.join(*filter, *most, shard_));
  followers_.push_back(follower.get());
  x.attach(std::move(follower));
  open_feed(x);
  if (alive_ == base::TimerId::kNone) alive_ = env_.at(env_.now() + kAlive, [this] { keep_alive(); });
}

void RequestFeed::ShardFeed::leave(const Follower& follower) {
  std::erase(followers_, &follower);
  feed_.leave(follower.group(), shard_);
}

// Writes a comment to every stream: this finds out clients that are gone, and proxies see that the stream is alive.
void RequestFeed::ShardFeed::keep_alive() {
  alive_ = base::TimerId::kNone;
  if (followers_.empty()) return;
  for (auto* follower : std::vector(followers_)) follower->sign_of_life();
  alive_ = env_.at(env_.now() + kAlive, [this] { keep_alive(); });
}

void RequestFeed::ShardFeed::drain() {
  draining_ = true;
  send();
  for (auto* follower : std::vector(followers_)) follower->end();
}

// Copies the feed's groups if they have changed, and keeps what was gathered for those that are still there. Returns
// whether there are any.
bool RequestFeed::ShardFeed::anybody_follows() {
  if (feed_.version_.load(std::memory_order_relaxed) == known_) return !gathered_.empty();
  std::vector<Gathered> old = std::exchange(gathered_, {});
  std::lock_guard lock(feed_.mutex_);
  known_ = feed_.version_.load();
  for (const auto& group : feed_.groups_) {
    auto same = std::find_if(old.begin(), old.end(), [&](const auto& each) { return each.group == group; });
    if (same != old.end())
      gathered_.push_back(std::move(*same));
    else
      gathered_.emplace_back(group, feed_.by_shard_.size());
  }
  return !gathered_.empty();
}

// `line` appends the request's line of the access log, if anybody is told of it.
template <class Line>
void RequestFeed::ShardFeed::gather(const wire::RequestRecord& record, base::Duration took, const Line& line) {
  const size_t room = kMostGathered / gathered_.size();
  event_.clear();
  for (auto& each : gathered_) {
    if (!each.group->filter.matches(record, took)) continue;
    if (send_ == base::TimerId::kNone)  // in step with the other shards
      send_ = env_.at(env_.now() + kEvery - env_.now().time_since_epoch() % kEvery, [this] { send(); });
    uint32_t& told = is_failure(record) ? each.failed : each.good;
    if (told >= (each.group->most + kSlices - 1) / kSlices || each.events.size() >= room) {
      ++each.skipped;
      continue;
    }
    if (event_.empty()) {
      line_.clear();
      line(line_);
      wire::append_sse(event_, std::string_view(line_).substr(0, line_.size() - 1));
    }
    each.events += event_;
    ++told;
  }
}

void RequestFeed::ShardFeed::finished(const wire::Exchange& x) {
  if (!anybody_follows()) return;
  const wire::RequestRecord& record = x.record();
  const auto took = record.began == base::kNever ? base::Duration{0} : record.took(x.now());
  gather(record, took, [&](std::string& out) { append_access_line(out, env_.wall(), x); });
}

void RequestFeed::ShardFeed::rejected(std::string_view reason, const wire::PeerInfo& peer) {
  if (!anybody_follows()) return;
  wire::RequestRecord record;
  record.code = base::Code::kInvalidArgument;
  gather(record, base::Duration{0}, [&](std::string& out) { append_rejected_line(out, env_.wall(), reason, peer); });
}

void RequestFeed::ShardFeed::send() {
  env_.cancel(std::exchange(send_, base::TimerId::kNone));
  if (!anybody_follows()) return;
  for (auto& each : gathered_) {
    const uint64_t told = std::exchange(each.good, 0) + std::exchange(each.failed, 0);
    const uint64_t skipped = std::exchange(each.skipped, 0);
    if (told + skipped == 0) continue;
    auto events = each.events.empty() ? base::Bytes() : base::Bytes::adopt(std::exchange(each.events, {}));
    const auto batch = std::make_shared<const Batch>(Batch{each.group, std::move(events), told, skipped});
    for (size_t i = 0; i < feed_.by_shard_.size(); ++i)
      if (each.group->on_shard[i].load(std::memory_order_relaxed) > 0) send_to(i, each, batch);
  }
}

void RequestFeed::ShardFeed::send_to(size_t shard, Gathered& gathered, const std::shared_ptr<const Batch>& batch) {
  const uint64_t lost = std::exchange(gathered.lost[shard], 0);
  if (shard == size_t(shard_)) return deliver(*batch, lost);
  Arrivals& there = feed_.by_shard_[shard];
  if (there.on_the_way.load(std::memory_order_relaxed) > kMostOnTheWay) {
    gathered.lost[shard] = lost + batch->told + batch->skipped;
    return;
  }
  there.on_the_way.fetch_add(batch->events.size() + 1, std::memory_order_relaxed);
  feed_.post_(base::ShardId(shard), [&there, batch, lost] {
    there.on_the_way.fetch_sub(batch->events.size() + 1, std::memory_order_relaxed);
    if (there.feed) there.feed->deliver(*batch, lost);
  });
}

void RequestFeed::ShardFeed::deliver(const Batch& batch, uint64_t lost) {
  for (auto* follower : std::vector(followers_)) follower->deliver(batch, lost);
}

}  // namespace weir::ops
