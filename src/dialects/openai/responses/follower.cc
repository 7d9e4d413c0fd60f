#include "dialects/openai/responses/follower.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "dialects/openai/event_stream.h"
#include "dialects/openai/responses/background.h"
#include "dialects/openai/responses/replay.h"
#include "dialects/openai/responses/stored.h"
#include "jobs/shard_jobs.h"
#include "marshal/tenant.h"
#include "wire/offload.h"
#include "wire/service_guard.h"

namespace weir::openai::responses {
namespace {

using wire::Exchange;

// Streams a response that is still being made: looks every `every` whether it is over, and then calls replay() for
// the rest, which may destroy this.
class Follower : public wire::ExchangeListener {
 public:
  Follower(OpenAiState& state, Exchange& exchange, std::string id, int64_t after, base::Duration every)
      : state_(state), exchange_(exchange), id_(std::move(id)), every_(every), after_(after) {}
  ~Follower() override { stop(); }
  void on_close(Exchange&, bool) override { stop(); }

  // Sends the first events at once. Those of a long response are sent with the others, which a worker writes.
  void begin(std::string_view so_far) {
    stream_.open();
    if (wire::work_of_document(so_far.size()) <= wire::kLongBody && after_ < kBegun - 1) {
      if (std::string events = beginning_events(so_far, after_); !events.empty()) stream_.send(std::move(events));
      after_ = kBegun - 1;
    }
    stream_.start();
    arm();
  }

 protected:
  virtual void look() = 0;
  virtual void stop() {
    stream_.stop();
    state_.bus.env().cancel(std::exchange(timer_, base::TimerId::kNone));
  }
  void arm() {
    timer_ = state_.bus.env().at(state_.bus.env().now() + every_, [this] {
      timer_ = base::TimerId::kNone;
      wire::guarded(exchange_, [this] { look(); });
    });
  }
  // The caller must not touch this afterwards: replay() may have destroyed it.
  void go_on() {
    stream_.stop();
    const std::string id = id_;
    replay(state_, exchange_, id, after_);
  }

  OpenAiState& state_;
  Exchange& exchange_;
  const std::string id_;
  EventStream stream_{state_.bus.env(), exchange_};

 private:
  const base::Duration every_;
  int64_t after_;  // the number of the last event that the client has
  base::TimerId timer_ = base::TimerId::kNone;
};

class FollowsHere final : public Follower {
 public:
  using Follower::Follower;

 private:
  // A response that has just been put off is found neither here nor in the journal for a moment, so it has to be
  // missing several times in a row before it counts as over.
  void look() override {
    constexpr int kMostMissed = 20;
    const uint64_t tenant = marshal::tenant_of(exchange_.request());
    if (state_.options.background->has(tenant, id_)) return arm();
    if (!state_.options.stored->find(tenant, id_, state_.bus.env().now()) && ++missed_ < kMostMissed) return arm();
    go_on();
  }

  int missed_ = 0;
};

// Whether its job is still to be done is read often, for it costs little; all that is known of it, seldom.
class FollowsElsewhere final : public Follower {
 public:
  FollowsElsewhere(OpenAiState& state, Exchange& exchange, std::string id, int64_t after, base::Duration every)
      : Follower(state, exchange, std::move(id), after, every), tenant_(marshal::tenant_of(exchange.request())) {
    ++state_.followers[tenant_];
  }
  ~FollowsElsewhere() override {
    if (--state_.followers[tenant_] == 0) state_.followers.erase(tenant_);
  }

 private:
  static constexpr int kLooks = 10;

  void look() override {
    auto asked = state_.options.jobs->ask(
        [id = id_](jobs::Storage& s) { return s.journal.count(id); },
        [this](base::Result<jobs::Counts> counts) { wire::guarded(exchange_, [&] { counted(counts); }); });
    if (!asked) return arm();  // the journal has too much to do for now
    question_ = *std::move(asked);
  }
  void counted(const base::Result<jobs::Counts>& counts) {
    const bool under_way = !counts || counts->waiting + counts->running > 0;
    const bool ends = state_.options.jobs->draining();
    if (under_way && !ends && ++looks_ < kLooks) return arm();
    if (under_way) stream_.ping();
    go_on();
  }
  void stop() override {
    question_ = nullptr;
    Follower::stop();
  }

  const uint64_t tenant_;
  jobs::ShardJobs::Question question_;
  int looks_ = 0;
};

bool may_follow(const OpenAiState& state, uint64_t tenant) {
  size_t all = 0, own = 0;
  for (const auto& [whose, streams] : state.followers) all += streams, own += whose == tenant ? streams : 0;
  return all < kMostFollowers && own < kMostFollowers / 4 && !state.options.jobs->draining();
}

template <class Kind>
void attach(OpenAiState& state, Exchange& exchange, const std::string& id, int64_t after, std::string_view so_far,
            base::Duration every) {
  auto follower = std::make_unique<Kind>(state, exchange, id, after, every);
  Kind& follows = *follower;
  exchange.attach(std::move(follower));
  follows.begin(so_far);
}

}  // namespace

void follow_here(OpenAiState& state, Exchange& exchange, const std::string& id, int64_t after,
                 std::string_view so_far) {
  attach<FollowsHere>(state, exchange, id, after, so_far, std::chrono::milliseconds(100));
}

void follow_elsewhere(OpenAiState& state, Exchange& exchange, const std::string& id, int64_t after,
                      std::string_view so_far) {
  if (may_follow(state, marshal::tenant_of(exchange.request())))
    return attach<FollowsElsewhere>(state, exchange, id, after, so_far, std::chrono::seconds(1));
  if (exchange.responding()) return exchange.end();
  respond(exchange, refuse(base::try_again(base::Code::kUnavailable,
                                           "too many responses of other servers are followed; try again later")));
}

}  // namespace weir::openai::responses
