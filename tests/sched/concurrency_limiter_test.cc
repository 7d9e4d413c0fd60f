#include "sched/concurrency_limiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <set>

#include "calls.h"
#include "engines.h"
#include "fake_deadline_timer.h"
#include "sched/lane.h"
#include "sched/runner.h"
#include "shard_thread.h"

namespace weir::sched {
namespace {

using base::Code;

// Keeps what it is given until the test answers.
struct Held final : msg::Inbox {
  void put(msg::Call* call) override {
    std::lock_guard lock(mutex);
    calls.push_back(call);
    most = std::max(most, calls.size());
  }
  void poke() override { ++pokes; }
  void answer(size_t i) {
    std::vector<msg::Mail> one;
    msg::Home* home;
    {
      std::lock_guard lock(mutex);
      one.push_back({calls[i], {msg::Outputs{}}});
      home = calls[i]->home;
      calls.erase(calls.begin() + std::ptrdiff_t(i));
    }
    home->post(one);
  }
  std::mutex mutex;
  std::vector<msg::Call*> calls;
  size_t most = 0;
  int pokes = 0;
};

struct Door {
  explicit Door(uint32_t most, uint32_t max_queue = 0)
      : limiter(std::make_shared<ConcurrencyLimiter>(most)), spec(spec_of(8)) {
    spec.batching.max_queue = max_queue;
    auto inner = std::make_unique<Held>();
    held = inner.get();
    inbox = behind(limiter, std::move(inner), spec, stats, deadline_timer);
  }
  msg::Call& call() {
    auto& call = calls.emplace_back();
    call.home = &answers;
    call.id = std::to_string(calls.size());
    return call;
  }
  std::shared_ptr<ConcurrencyLimiter> limiter;
  std::shared_ptr<FakeDeadlineTimer> deadline_timer = std::make_shared<FakeDeadlineTimer>();
  msg::ModelSpec spec;
  bus::ModelStats stats;
  Answers answers;
  std::deque<msg::Call> calls;
  Held* held = nullptr;
  std::unique_ptr<msg::Inbox> inbox;
};

TEST(ConcurrencyLimiter, ExcessCallsWaitInOrderAndGoInAsOthersLeave) {
  Door door(2);
  for (int i = 0; i < 5; ++i) door.inbox->put(&door.call());
  EXPECT_EQ(door.held->calls.size(), 2u);
  EXPECT_EQ(door.limiter->waiting(), 3u);
  EXPECT_EQ(door.stats.waiting(), 3u);
  std::vector<std::string> order;
  while (!door.held->calls.empty()) {
    order.push_back(door.held->calls[0]->id);
    door.held->answer(0);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"1", "2", "3", "4", "5"}));
  EXPECT_EQ(door.held->most, 2u);
  EXPECT_EQ(door.answers.mail.size(), 5u);
  EXPECT_EQ(door.limiter->inside(), 0u);
  EXPECT_EQ(door.stats.waiting(), 0u);
  for (auto& call : door.calls) EXPECT_EQ(call.home, &door.answers);
}

TEST(ConcurrencyLimiter, AFullLineRefusesTheCallAtOnce) {
  Door door(1, 1);
  for (int i = 0; i < 3; ++i) door.inbox->put(&door.call());
  ASSERT_EQ(door.answers.mail.size(), 1u);
  EXPECT_EQ(door.answers.mail[0].call->id, "3");
  EXPECT_EQ(text_of(door.answers.mail[0].event), "RESOURCE_EXHAUSTED");
  door.held->answer(0);
  door.held->answer(0);
}

TEST(ConcurrencyLimiter, ACancelledCallLeavesTheLineAtOnceAndOthersKeepTheirPlaces) {
  Door door(1);
  for (int i = 0; i < 3; ++i) door.inbox->put(&door.call());
  door.calls[1].cancelled = true;
  door.inbox->poke();
  ASSERT_EQ(door.answers.mail.size(), 1u);
  EXPECT_EQ(door.answers.mail[0].call->id, "2");
  EXPECT_EQ(door.held->pokes, 1);
  door.held->answer(0);
  ASSERT_EQ(door.held->calls.size(), 1u);
  EXPECT_EQ(door.held->calls[0]->id, "3");
  door.held->answer(0);
  EXPECT_EQ(door.limiter->inside(), 0u);
}

// poke() has found nothing, since the Call was not here yet.
TEST(ConcurrencyLimiter, ACallThatIsCancelledOnItsWayHereDoesNotWait) {
  Door door(1);
  door.inbox->put(&door.call());
  auto& gone = door.call();
  gone.cancelled = true;
  door.inbox->poke();
  door.inbox->put(&gone);
  ASSERT_EQ(door.answers.mail.size(), 1u);
  EXPECT_EQ(door.answers.mail[0].call, &gone);
  EXPECT_EQ(text_of(door.answers.mail[0].event), "CANCELLED");
  EXPECT_EQ(door.limiter->waiting(), 0u);
  EXPECT_EQ(door.stats.waiting(), 0u);
  EXPECT_EQ(door.stats.fail.count, 1u);
  door.held->answer(0);
  EXPECT_TRUE(door.held->calls.empty());
}

TEST(ConcurrencyLimiter, TenantsTakeTurns) {
  Door door(1);
  auto put = [&](uint64_t tenant) {
    auto& call = door.call();
    call.tenant = tenant;
    door.inbox->put(&call);
  };
  for (uint64_t tenant : {1, 1, 1, 1, 2, 2, 3}) put(tenant);
  std::vector<std::string> order;
  for (; !door.held->calls.empty(); door.held->answer(0)) order.push_back(door.held->calls[0]->id);
  EXPECT_EQ(order, (std::vector<std::string>{"1", "2", "5", "7", "3", "6", "4"}));
}

TEST(ConcurrencyLimiter, InAFullLineTheTenantThatHasMostMakesRoom) {
  Door door(1, 3);
  for (int i = 0; i < 4; ++i) door.inbox->put(&door.call());
  auto& light = door.call();
  light.tenant = 2;
  door.inbox->put(&light);
  ASSERT_EQ(door.answers.mail.size(), 1u);
  EXPECT_EQ(door.answers.mail[0].call->id, "4");
  EXPECT_EQ(text_of(door.answers.mail[0].event), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(door.limiter->waiting(), 3u);
  EXPECT_EQ(door.stats.waiting(), 3u);
  std::vector<std::string> order;
  for (; !door.held->calls.empty(); door.held->answer(0)) order.push_back(door.held->calls[0]->id);
  EXPECT_EQ(order, (std::vector<std::string>{"1", "2", "5", "3"}));
}

TEST(ConcurrencyLimiter, ModelsThatShareItTakeTurns) {
  Door one(1), other(1);
  auto inner = std::make_unique<Held>();
  other.held = inner.get();
  other.inbox = behind(one.limiter, std::move(inner), other.spec, other.stats, other.deadline_timer);
  for (int i = 0; i < 4; ++i) one.inbox->put(&one.call());
  for (int i = 0; i < 2; ++i) other.inbox->put(&other.call());
  std::string order;
  while (one.limiter->inside() > 0) {
    bool first = !one.held->calls.empty();
    order += first ? '1' : '2';
    (first ? one : other).held->answer(0);
  }
  EXPECT_EQ(order, "112121");
  EXPECT_EQ(one.limiter->waiting(), 0u);
}

TEST(ConcurrencyLimiter, ACallThatHasWaitedTooLongFailsWhenItsTurnComes) {
  Door door(1);
  door.inbox->put(&door.call());
  auto& late = door.call();
  late.queue_timeout = 1ns;
  late.times.queued = door.deadline_timer->now() - 1s;
  door.inbox->put(&late);
  door.inbox->put(&door.call());
  door.held->answer(0);
  ASSERT_EQ(door.answers.mail.size(), 2u);
  EXPECT_EQ(text_of(door.answers.mail[1].event), "UNAVAILABLE");
  ASSERT_EQ(door.held->calls.size(), 1u);  // the one behind it is inside
  door.held->answer(0);
  EXPECT_EQ(door.limiter->inside(), 0u);
}

// Another thread may run a Call to its end while its put() still sets the deadline timer, and then unload the model.
TEST(ConcurrencyLimiter, MayGoAsSoonAsEveryCallIsAnswered) {
  for (int i = 0; i < 500; ++i) {
    Door door(1);
    door.spec.batching.queue_timeout = std::chrono::hours(1);
    door.inbox->put(&door.call());
    msg::Call& second = door.call();
    std::thread other([inbox = door.inbox.get(), &second] { inbox->put(&second); });
    while (door.limiter->waiting() == 0) {
    }
    door.held->answer(0);
    door.held->answer(0);
    door.inbox.reset();
    other.join();
    ASSERT_EQ(door.deadline_timer->due(), 0u) << "a listener that is gone would be called, in round " << i;
  }
}

TEST(ConcurrencyLimiter, TheCallIsNotItsHomesBeforeItsLastEvent) {
  Door door(1);
  auto& call = door.call();
  door.inbox->put(&call);
  std::vector<msg::Mail> burst;
  burst.push_back({&call, {msg::Token{}}});
  call.home->post(burst);
  EXPECT_NE(call.home, &door.answers);
  EXPECT_EQ(door.limiter->inside(), 1u);
  door.held->answer(0);
  EXPECT_EQ(call.home, &door.answers);
  EXPECT_EQ(door.answers.mail.size(), 2u);
}

class Inline final : public Engine {
 public:
  const msg::ModelSpec& spec() const override { return spec_; }
  bool is_inline() const override { return true; }
  base::Status step(Batch& batch) override {
    batch.outputs = {floats("y", batch.inputs[0].shape, floats_of(batch.inputs[0]))};
    return {};
  }

 private:
  msg::ModelSpec spec_;
};

// Two models, one of them inline, with limits of their own and one that they share, called from two shards.
struct LimiterLab final : msg::Sink {
  LimiterLab() {
    for (auto* served : {&lanes, &inlined}) (*served)->spec = spec_of(8), (*served)->spec.batching.max_queue = 0;
    std::vector<std::unique_ptr<Engine>> engines;
    for (int i = 0; i < 2; ++i) engines.push_back(std::make_unique<Doubler>());
    lanes->inbox = limited(make_lanes(std::move(engines), lanes->spec, lanes->stats, base::heap()), *lanes, 3);
    inlined->inbox = limited(make_inline(std::make_unique<Inline>(), inlined->spec, inlined->stats), *inlined, 2);
  }
  std::unique_ptr<msg::Inbox> limited(std::unique_ptr<msg::Inbox> inner, bus::Served& served, uint32_t own) {
    auto shared = behind(all, std::move(inner), served.spec, served.stats);
    return behind(std::make_shared<ConcurrencyLimiter>(own), std::move(shared), served.spec, served.stats);
  }
  void on(msg::Call&, msg::Event&& event) override {
    if (text_of(event) == "ok") ++answered;
  }
  void send(ShardThread& shard, int n) {
    std::promise<void> sent;
    shard.post([&] {
      for (int i = 0; i < n; ++i) {
        msg::Call* call = shard.bus.make_call();
        fill(*call, 1, float(i % 100));
        call->sink = this;
        EXPECT_TRUE(shard.bus.submit(call, i % 3 == 0 ? *inlined : *lanes).ok());
        if (i % 7 == 6) shard.bus.abandon(call);
      }
      sent.set_value();
    });
    sent.get_future().get();
  }
  std::shared_ptr<ConcurrencyLimiter> all = std::make_shared<ConcurrencyLimiter>(4);
  std::shared_ptr<bus::Served> lanes = std::make_shared<bus::Served>(), inlined = std::make_shared<bus::Served>();
  std::atomic<int> answered{0};
};

TEST(ConcurrencyLimiter, CallsOfManyShardsThroughTwoLimitersAllComeHome) {
  LimiterLab lab;
  constexpr int kCalls = 3000;
  {
    ShardThread one(1), two(2);
    std::thread other([&] { lab.send(two, kCalls); });
    lab.send(one, kCalls);
    other.join();
  }                                        // both shards end when nothing is in flight
  lab.lanes.reset(), lab.inlined.reset();  // lane threads leave the limiter after the answer has gone
  EXPECT_EQ(lab.answered.load(), 2 * (kCalls - kCalls / 7));
  EXPECT_EQ(lab.all->inside(), 0u);
  EXPECT_EQ(lab.all->waiting(), 0u);
}

}  // namespace
}  // namespace weir::sched
