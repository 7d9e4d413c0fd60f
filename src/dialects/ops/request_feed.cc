#include "dialects/ops/request_feed.h"

#include <algorithm>
#include <utility>

#include "dialects/ops/access_log.h"
#include "dialects/ops/feed_stream.h"
#include "wire/sse.h"

namespace weir::ops {
namespace {

constexpr auto kAlive = std::chrono::seconds(10);  // between two signs of life
constexpr size_t kMostOfOneTurn = 256 << 10;       // bytes of lines

}  // namespace

// The requests that ended on one shard in one turn. Immutable once posted.
struct RequestFeed::Batch {
  // A line, and the part of its record that filters look at.
  struct FeedEntry {
    size_t end = 0;  // of its line in `lines`
    wire::RequestRecord record;
    base::Duration took{0};
  };
  std::string lines;
  std::vector<FeedEntry> entries;
  uint64_t dropped = 0;
};

// Each has a cache line of its own: its counters change with its own shard's followers.
struct alignas(64) RequestFeed::ShardFollowers {
  ShardFeed* feed = nullptr;  // on its shard's thread
  std::atomic<uint32_t> followers{0};
  std::atomic<size_t> on_the_way{0};  // bytes of batches that it has not taken yet
  std::atomic<uint64_t> dropped{0};   // lines that did not even set out
};

RequestFeed::RequestFeed(uint32_t shards, Post post) : by_shard_(shards), post_(std::move(post)) {}
RequestFeed::~RequestFeed() = default;

std::unique_ptr<RequestFeed::ShardFeed> RequestFeed::on_shard(base::ShardId shard, base::Env& env,
                                                              wire::Router& router) {
  return std::make_unique<ShardFeed>(*this, shard, env, router);
}

// One who follows, from its request to its end.
class RequestFeed::ShardFeed::Follower final : public wire::ExchangeListener {
 public:
  Follower(ShardFeed& home, wire::Exchange& exchange, RequestFilter filter)
      : home_(home), exchange_(exchange), filter_(std::move(filter)) {}

  void on_close(wire::Exchange&, bool) override { home_.leave(*this); }

  void deliver(const Batch& batch, uint64_t lost) {
    std::string out;
    dropped_ += lost + batch.dropped;
    const bool reads = exchange_.backlog() < kMostBacklog;
    if (reads && dropped_ > 0)
      wire::append_sse(out, "{\"dropped\":" + std::to_string(std::exchange(dropped_, 0)) + "}", "dropped");
    size_t begin = 0;
    for (const auto& entry : batch.entries) {
      const auto line = std::string_view(batch.lines).substr(begin, entry.end - begin);
      begin = entry.end;
      if (!filter_.matches(entry.record, entry.took)) continue;
      if (reads)
        wire::append_sse(out, line.substr(0, line.size() - 1));
      else
        ++dropped_;
    }
    if (!out.empty()) exchange_.body(base::Bytes::adopt(std::move(out)));
  }
  void sign_of_life() {
    std::string out;
    wire::append_sse_comment(out);
    if (exchange_.backlog() < kMostBacklog) exchange_.body(base::Bytes::adopt(std::move(out)));
  }
  void end() { exchange_.end(); }

 private:
  ShardFeed& home_;
  wire::Exchange& exchange_;
  const RequestFilter filter_;
  uint64_t dropped_ = 0;
};

RequestFeed::ShardFeed::ShardFeed(RequestFeed& feed, base::ShardId shard, base::Env& env, wire::Router& router)
    : feed_(feed), shard_(shard), env_(env) {
  feed_.by_shard_[size_t(shard)].feed = this;
  router.add({"GET", "/console/v1/requests", this, "console", {wire::BodyPlan::kIgnore}, wire::Permission::kObserve});
  router.observe(*this);
}

RequestFeed::ShardFeed::~ShardFeed() { feed_.by_shard_[size_t(shard_)].feed = nullptr; }

void RequestFeed::ShardFeed::serve(wire::Exchange& x, const wire::PathArgs&) {
  auto filter = RequestFilter::from_query(x.request());
  if (!filter) return wire::respond_error(x, filter.error());
  if (auto status = may_follow(followers_.size(), draining_); !status.ok()) return wire::respond_error(x, status);
  auto follower = std::make_unique<Follower>(*this, x, std::move(*filter));
  followers_.push_back(follower.get());
  x.attach(std::move(follower));
  feed_.by_shard_[size_t(shard_)].followers.fetch_add(1);
  feed_.followers_.fetch_add(1);
  open_feed(x);
  if (timer_ == base::TimerId::kNone) timer_ = env_.at(env_.now() + kAlive, [this] { keep_alive(); });
}

void RequestFeed::ShardFeed::leave(const Follower& follower) {
  std::erase(followers_, &follower);
  feed_.by_shard_[size_t(shard_)].followers.fetch_sub(1);
  feed_.followers_.fetch_sub(1);
}

// A follower that is gone is found out, and proxies see that the stream lives.
void RequestFeed::ShardFeed::keep_alive() {
  timer_ = base::TimerId::kNone;
  if (followers_.empty()) return;
  for (auto* follower : std::vector(followers_)) follower->sign_of_life();
  timer_ = env_.at(env_.now() + kAlive, [this] { keep_alive(); });
}

void RequestFeed::ShardFeed::drain() {
  draining_ = true;
  for (auto* follower : std::vector(followers_)) follower->end();
}

RequestFeed::Batch& RequestFeed::ShardFeed::batch() {
  if (!batch_) batch_ = std::make_shared<Batch>();
  return *batch_;
}

void RequestFeed::ShardFeed::finished(const wire::Exchange& x) {
  if (feed_.followers_.load(std::memory_order_relaxed) == 0) return;
  Batch& to = batch();
  if (to.lines.size() > kMostOfOneTurn) {
    ++to.dropped;
    return;
  }
  append_access_line(to.lines, env_.wall(), x);
  auto& entry = to.entries.emplace_back();
  entry.end = to.lines.size();
  const wire::RequestRecord& record = x.record();
  entry.record.protocol = record.protocol, entry.record.model = record.model;
  entry.record.status = record.status, entry.record.code = record.code;
  entry.took = record.began == base::kNever ? base::Duration{0} : record.took(x.now());
}

void RequestFeed::ShardFeed::rejected(std::string_view reason, const wire::PeerInfo& peer) {
  if (feed_.followers_.load(std::memory_order_relaxed) == 0) return;
  Batch& to = batch();
  if (to.lines.size() > kMostOfOneTurn) {
    ++to.dropped;
    return;
  }
  append_rejected_line(to.lines, env_.wall(), reason, peer);
  auto& entry = to.entries.emplace_back();
  entry.end = to.lines.size();
  entry.record.code = base::Code::kInvalidArgument;
}

void RequestFeed::ShardFeed::flush() {
  if (!batch_) return;
  const std::shared_ptr<const Batch> batch = std::exchange(batch_, nullptr);
  for (size_t i = 0; i < feed_.by_shard_.size(); ++i) {
    ShardFollowers& here = feed_.by_shard_[i];
    if (here.followers.load(std::memory_order_relaxed) == 0) continue;
    if (here.on_the_way.load(std::memory_order_relaxed) > kMostOnTheWay) {
      here.dropped.fetch_add(batch->entries.size() + batch->dropped, std::memory_order_relaxed);
      continue;
    }
    here.on_the_way.fetch_add(batch->lines.size(), std::memory_order_relaxed);
    feed_.post_(base::ShardId(i), [&here, batch] {
      here.on_the_way.fetch_sub(batch->lines.size(), std::memory_order_relaxed);
      if (here.feed) here.feed->deliver(*batch);
    });
  }
}

void RequestFeed::ShardFeed::deliver(const Batch& batch) {
  const uint64_t lost = feed_.by_shard_[size_t(shard_)].dropped.exchange(0, std::memory_order_relaxed);
  for (auto* follower : std::vector(followers_)) follower->deliver(batch, lost);
}

}  // namespace weir::ops
