#include "bus/bus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/fake_env.h"

namespace weir::bus {
namespace {

using base::Code;
using namespace std::chrono_literals;

// Keeps what is lent to it until the test answers.
class HeldInbox final : public msg::Inbox {
 public:
  void put(msg::Call* call) override { held.push_back(call); }
  void poke() override { ++pokes; }

  std::vector<msg::Call*> held;
  int pokes = 0;
};

// Answers at once, on the shard, as inline engines do.
class EchoInbox final : public msg::Inbox {
 public:
  void put(msg::Call* call) override { call->home->post_here({call, {msg::Outputs{}}}); }
};

struct Recorder final : msg::Sink {
  void on(msg::Call& call, msg::Event&& event) override {
    if (auto* failed = std::get_if<msg::Failed>(&event.what))
      heard.push_back(call.id + ":" + std::string(base::name(failed->status.code)));
    else
      heard.push_back(call.id + (event.last() ? ":last" : ":more"));
    if (then) then();
  }
  std::vector<std::string> heard;
  std::function<void()> then;
};

struct Bench {
  explicit Bench(BusLimits limits = {})
      : bus(
            env, base::ShardId(3), [this] { ++wakes; }, limits) {
    auto catalog = std::make_shared<Catalog>();
    add(*catalog, "digits", "2", std::make_unique<HeldInbox>());
    add(*catalog, "echo", "1", std::make_unique<EchoInbox>());
    catalog->index = {{"broken", "1", ModelState::kUnavailable, "the file is cut short"},
                      {"digits", "1", ModelState::kUnavailable, "version policy"},
                      {"digits", "2", ModelState::kReady, ""},
                      {"echo", "1", ModelState::kReady, ""}};
    bus.publish(catalog);
  }
  void add(Catalog& catalog, std::string name, std::string version, std::unique_ptr<msg::Inbox> inbox) {
    auto served = std::make_shared<Served>();
    served->spec.name = name, served->spec.version = version;
    served->inbox = std::move(inbox);
    auto& model = catalog.models[name];
    model.preferred = served.get();
    model.versions[version] = served;
    all.push_back(served);
  }
  HeldInbox& digits() { return static_cast<HeldInbox&>(*all[0]->inbox); }
  Served& served() { return *all[0]; }

  msg::Call* call(std::string id, base::Duration timeout = 0s, std::string model = "digits") {
    auto* made = bus.make_call();
    made->model = std::move(model), made->id = std::move(id), made->sink = &sink;
    if (timeout != 0s) made->deadline = env.now() + timeout;
    return made;
  }
  msg::Call* sent(std::string id, base::Duration timeout = 0s, std::string model = "digits") {
    auto* made = call(std::move(id), timeout, std::move(model));
    EXPECT_TRUE(bus.submit(made).ok());
    return made;
  }
  base::Status refused(msg::Call* made) {
    auto status = bus.submit(made);
    EXPECT_FALSE(status.ok());
    bus.discard(made);
    return status;
  }
  void answer(msg::Call* made, msg::Event event = {msg::Outputs{}}) {
    std::erase(digits().held, made);
    std::vector<msg::Mail> burst;
    burst.push_back({made, std::move(event)});
    made->home->post(burst);
  }

  base::FakeEnv env;
  std::vector<std::shared_ptr<Served>> all;
  int wakes = 0;
  Recorder sink;
  Bus bus;
};

using Heard = std::vector<std::string>;

TEST(Bus, AnAnswerReachesTheSinkInATurnAndNotBefore) {
  Bench t;
  auto* call = t.sent("a");
  EXPECT_EQ(t.bus.in_flight(), 1u);
  t.answer(call);
  EXPECT_EQ(t.wakes, 1);
  EXPECT_EQ(t.sink.heard, Heard{});
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, Heard{"a:last"});
  EXPECT_EQ(t.bus.in_flight(), 0u);
}

TEST(Bus, EventsThatAreNotTheLastKeepTheCall) {
  Bench t;
  auto* call = t.sent("a");
  t.answer(call, {msg::Token{}});
  t.answer(call, {msg::Outputs{{}, {}, false}});
  t.bus.turn();
  EXPECT_EQ(t.bus.in_flight(), 1u);
  t.answer(call, {msg::Done{}});
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, (Heard{"a:more", "a:more", "a:last"}));
  EXPECT_EQ(t.bus.in_flight(), 0u);
}

TEST(Bus, AFinishedCallIsUsedAgainAndIsBlank) {
  Bench t;
  auto* call = t.sent("a", 1s);
  call->rows = 7, call->parameters = {{"k", true}};
  t.answer(call);
  t.bus.turn();
  auto* again = t.bus.make_call();
  EXPECT_EQ(again, call);
  EXPECT_EQ(again->id, "");
  EXPECT_EQ(again->rows, 1u);
  EXPECT_EQ(again->deadline, base::kNever);
  EXPECT_TRUE(again->parameters.empty());
  t.bus.discard(again);
}

TEST(Bus, UnknownModelsAreNotFoundAndNameANearMiss) {
  Bench t;
  auto status = t.refused(t.call("a", 0s, "digit"));
  EXPECT_EQ(status.code, Code::kNotFound);
  EXPECT_EQ(status.text, "Request for unknown model 'digit': did you mean 'digits'?");
  EXPECT_EQ(t.refused(t.call("a", 0s, "somethingelse")).text, "Request for unknown model 'somethingelse'");
}

TEST(Bus, ALongNameIsShownInPartAndNeverThroughACharacter) {
  Bench t;
  auto shown = [&](const std::string& name) { return t.refused(t.call("a", 0s, name)).text; };
  EXPECT_EQ(shown(std::string(800, 'x')), "Request for unknown model '" + std::string(128, 'x') + "…'")
      << "and nothing is near to it";
  EXPECT_EQ(shown(std::string(127, 'x') + "äöü"), "Request for unknown model '" + std::string(127, 'x') + "…'");
}

TEST(Bus, ModelsThatAreNotReadySayWhy) {
  Bench t;
  auto status = t.refused(t.call("a", 0s, "broken"));
  EXPECT_EQ(status.code, Code::kUnavailable);
  EXPECT_EQ(status.text, "model 'broken' version 1 is not ready: the file is cut short");
}

TEST(Bus, VersionsAreFoundByNameAndMissingOnesAreNamed) {
  Bench t;
  auto* call = t.call("a");
  call->version = "2";
  EXPECT_TRUE(t.bus.submit(call).ok());
  t.answer(call);
  t.bus.turn();
  call = t.call("b"), call->version = "9";
  auto status = t.refused(call);
  EXPECT_EQ(status.code, Code::kNotFound);
  EXPECT_EQ(status.text, "model 'digits' has no version '9'; it serves 2");
  call = t.call("c"), call->version = "1";
  EXPECT_EQ(t.refused(call).code, Code::kUnavailable);
}

TEST(Bus, MoreCallsThanTheLimitAreRefusedUntilOneComesBack) {
  Bench t({2});
  auto* first = t.sent("a");
  auto* second = t.sent("b");
  EXPECT_EQ(t.refused(t.call("c")).code, Code::kResourceExhausted);
  EXPECT_EQ(t.served().stats.rejected, 1u);
  t.answer(first);
  t.bus.turn();
  auto* third = t.sent("d");
  t.answer(second), t.answer(third);
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, (Heard{"a:last", "b:last", "d:last"}));
}

TEST(Bus, AClosedBusRefusesNewCallsAndDeliversTheOldOnes) {
  Bench t;
  auto* call = t.sent("a");
  t.bus.close();
  EXPECT_EQ(t.refused(t.call("b")).code, Code::kUnavailable);
  t.answer(call);
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, Heard{"a:last"});
}

TEST(Bus, ADeadlineThatHasPassedIsRefused) {
  Bench t;
  auto* call = t.call("a");
  call->deadline = t.env.now();
  EXPECT_EQ(t.refused(call).code, Code::kDeadlineExceeded);
  EXPECT_EQ(t.served().stats.expired, 1u);
}

TEST(Bus, AtItsDeadlineTheSinkHearsAndTheLateAnswerFreesTheCallSilently) {
  Bench t;
  auto* call = t.sent("a", 10ms);
  t.env.advance(9ms);
  EXPECT_EQ(t.sink.heard, Heard{});
  t.env.advance(1ms);
  EXPECT_EQ(t.sink.heard, Heard{"a:DEADLINE_EXCEEDED"});
  EXPECT_TRUE(call->cancelled);
  EXPECT_EQ(t.digits().pokes, 1);
  EXPECT_EQ(t.bus.in_flight(), 1u);
  t.answer(call);
  t.bus.turn();
  EXPECT_EQ(t.sink.heard.size(), 1u);
  EXPECT_EQ(t.bus.in_flight(), 0u);
  EXPECT_EQ(t.served().stats.expired, 1u);
}

TEST(Bus, TheEarliestDeadlineIsMetWhateverTheOrderOfArrival) {
  Bench t;
  std::vector<msg::Call*> calls{t.sent("late", 30ms), t.sent("early", 10ms), t.sent("middle", 20ms)};
  EXPECT_EQ(t.env.armed(), 1u);
  t.env.advance(25ms);
  EXPECT_EQ(t.sink.heard, (Heard{"early:DEADLINE_EXCEEDED", "middle:DEADLINE_EXCEEDED"}));
  for (auto* call : calls) t.answer(call);
  t.bus.turn();
  EXPECT_EQ(t.sink.heard.back(), "late:last");
}

TEST(Bus, ADeadlineOfAFinishedCallDoesNotHitTheCallThatReusesItsMemory) {
  Bench t;
  auto* call = t.sent("a", 10ms);
  t.answer(call);
  t.bus.turn();
  auto* again = t.sent("b");
  ASSERT_EQ(again, call);
  t.env.advance(1s);
  EXPECT_EQ(t.sink.heard, Heard{"a:last"});
  t.answer(again);
  t.bus.turn();
}

TEST(Bus, ASinkMaySubmitFromItsDeadline) {
  Bench t;
  auto* call = t.sent("a", 10ms);
  msg::Call* next = nullptr;
  t.sink.then = [&] {
    if (!next) next = t.sent("b", 5ms);
  };
  t.env.advance(10ms);
  t.env.advance(5ms);
  EXPECT_EQ(t.sink.heard, (Heard{"a:DEADLINE_EXCEEDED", "b:DEADLINE_EXCEEDED"}));
  t.answer(call), t.answer(next);
  t.bus.turn();
}

TEST(Bus, ManyFinishedCallsWithFarDeadlinesLeaveOneTimerAndNoPile) {
  Bench t;
  for (int i = 0; i < 10'000; ++i) {
    t.answer(t.sent("a", 60s));
    t.bus.turn();
  }
  EXPECT_EQ(t.env.armed(), 1u);
  t.env.advance(61s);
  EXPECT_EQ(t.env.armed(), 0u);
  EXPECT_EQ(t.served().stats.expired, 0u);
}

TEST(Bus, DeadlinesKeepTheirOrderWhenTheStaleOnesAreSweptOut) {
  Bench t;
  std::vector<msg::Call*> live;
  for (int i = 0; i < 500; ++i) {
    auto* call = t.sent(std::to_string(i), base::Duration((i * 7919) % 500 * 1ms + 1ms));
    if (i % 100 == 0) live.push_back(call);
    if (i % 100 != 0) t.answer(call);
    t.bus.turn();
  }
  t.sink.heard.clear();
  t.env.advance(1s);
  EXPECT_EQ(t.sink.heard, (Heard{"0:DEADLINE_EXCEEDED", "400:DEADLINE_EXCEEDED", "300:DEADLINE_EXCEEDED",
                                 "200:DEADLINE_EXCEEDED", "100:DEADLINE_EXCEEDED"}));
  for (auto* call : live) t.answer(call);
  t.bus.turn();
}

TEST(Bus, AnAbandonedCallIsNotHeardOfAndDiesWithItsLastEvent) {
  Bench t;
  auto* call = t.sent("a", 10ms);
  t.bus.abandon(call);
  EXPECT_TRUE(call->cancelled);
  EXPECT_EQ(t.digits().pokes, 1);
  t.answer(call, {msg::Token{}});
  t.bus.turn();
  t.env.advance(1s);
  EXPECT_EQ(t.bus.in_flight(), 1u);
  t.answer(call, {msg::Failed{base::failure(Code::kCancelled, "cancelled")}});
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, Heard{});
  EXPECT_EQ(t.bus.in_flight(), 0u);
  EXPECT_EQ(t.served().stats.cancelled, 1u);
  EXPECT_EQ(t.served().stats.expired, 0u);
}

TEST(Bus, ACancelledCallIsHeardOfUntilTheEngineLetsGo) {
  Bench t;
  auto* call = t.sent("a");
  t.bus.cancel(call);
  t.bus.cancel(call);
  EXPECT_TRUE(call->cancelled);
  EXPECT_EQ(t.digits().pokes, 1);
  t.answer(call, {msg::Token{}});
  t.answer(call, {msg::Failed{base::failure(Code::kCancelled, "cancelled")}});
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, (Heard{"a:more", "a:CANCELLED"}));
  EXPECT_EQ(t.served().stats.cancelled, 1u);
}

TEST(Bus, ASinkMayAbandonAnotherCallWhoseMailIsInTheSameTurn) {
  Bench t;
  auto* first = t.sent("a");
  auto* second = t.sent("b");
  t.answer(first), t.answer(second);
  t.sink.then = [&] { t.bus.abandon(second); };
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, Heard{"a:last"});
  EXPECT_EQ(t.bus.in_flight(), 0u);
}

TEST(Bus, CreditWakesTheEngineOnlyWhenThereWasNone) {
  Bench t;
  auto* call = t.call("a");
  call->credit = 1;
  ASSERT_TRUE(t.bus.submit(call).ok());
  t.bus.add_credit(call, 2);
  EXPECT_EQ(t.digits().pokes, 0);
  call->credit = 0;
  t.bus.add_credit(call, 4);
  EXPECT_EQ(t.digits().pokes, 1);
  EXPECT_EQ(call->credit, 4);
  t.answer(call);
  t.bus.turn();
}

TEST(Bus, InlineAnswersComeInTheSameTurn) {
  Bench t;
  t.sent("a", 0s, "echo");
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, Heard{"a:last"});
  EXPECT_EQ(t.wakes, 0);
}

TEST(Bus, SinksThatKeepSubmittingToInlineEnginesDoNotHoldTheTurn) {
  Bench t;
  t.sink.then = [&] { t.sent("a", 0s, "echo"); };
  t.sent("a", 0s, "echo");
  t.bus.turn();
  EXPECT_LT(t.sink.heard.size(), 100u);
  EXPECT_EQ(t.wakes, 1);
  t.sink.then = nullptr;
  t.bus.turn();
  EXPECT_EQ(t.bus.in_flight(), 0u);
}

TEST(Bus, AServedIsIdleOnlyWhenEveryShardsCallsHaveComeBack) {
  Bench t;
  auto* call = t.sent("a");
  t.bus.publish(std::make_shared<Catalog>());
  EXPECT_FALSE(t.served().idle());
  EXPECT_EQ(t.refused(t.call("b")).code, Code::kNotFound);
  t.answer(call);
  t.bus.turn();
  EXPECT_TRUE(t.served().idle());
}

TEST(Bus, TimesAreStampedOnTheWayDown) {
  Bench t;
  auto* call = t.call("a");
  call->times.received = t.env.now();
  t.env.advance(2ms);
  ASSERT_TRUE(t.bus.submit(call).ok());
  EXPECT_EQ(call->times.queued - call->times.received, 2ms);
  t.answer(call);
  t.bus.turn();
}

TEST(BusDeathTest, ACallThatComesBackTwiceEndsTheProcess) {
  Bench t;
  auto* call = t.sent("a");
  auto twice = [&] {
    t.answer(call), t.answer(call);
    t.bus.turn();
  };
  EXPECT_DEATH(twice(), "broken invariant");
  t.answer(call);
  t.bus.turn();
}

TEST(BusDeathTest, ABusThatDiesBeforeItsCallsEndsTheProcess) {
  EXPECT_DEATH(
      {
        Bench t;
        t.sent("a");
      },
      "outlives its Calls");
}

struct Sum final : Errand {
  explicit Sum(int& out) : out(out) {}
  ~Sum() override { out += 100; }
  void run() override { out += 1; }
  int& out;
};

struct Keeper final : msg::Sink {
  explicit Keeper(Bus& bus) : bus(bus) {}
  void on(msg::Call& call, msg::Event&& event) override {
    if (std::holds_alternative<msg::Failed>(event.what)) return failed();
    errand = bus.take(call);
  }
  std::function<void()> failed;
  Bus& bus;
  std::unique_ptr<Errand> errand;
};

TEST(Bus, AnErrandIsRunAtOnceWhereThereAreNoWorkersAndComesBackInATurn) {
  Bench t;
  Keeper keeper(t.bus);
  int ran = 0;
  ASSERT_TRUE(t.bus.send(std::make_unique<Sum>(ran), 9, t.served(), keeper, {}));
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(keeper.errand);
  EXPECT_FALSE(t.served().idle()) << "the version stays";
  t.bus.turn();
  EXPECT_TRUE(keeper.errand);
  EXPECT_EQ(ran, 1) << "and it is not destroyed before its Sink lets go";
  EXPECT_TRUE(t.served().idle());
  EXPECT_EQ(t.bus.in_flight(), 0u);
}

TEST(Bus, AnErrandIsTheWorkersUntilTheyPostAndMayBeAbandoned) {
  Bench t;
  HeldInbox workers;
  t.bus.employ(workers);
  Keeper keeper(t.bus);
  int ran = 0;
  auto call = t.bus.send(std::make_unique<Sum>(ran), 9, t.served(), keeper, {});
  ASSERT_TRUE(call);
  ASSERT_EQ(workers.held.size(), 1u);
  EXPECT_EQ(static_cast<ErrandCall*>(workers.held[0])->bytes, 9u);
  EXPECT_TRUE(t.digits().held.empty()) << "no model hears of it";
  t.bus.abandon(*call);
  EXPECT_EQ(workers.pokes, 1);
  EXPECT_EQ(t.digits().pokes, 0);
  EXPECT_EQ(ran, 0) << "a worker may be at it";
  t.answer(*call, {msg::Done{}});
  t.bus.turn();
  EXPECT_FALSE(keeper.errand);
  EXPECT_EQ(ran, 100);
  EXPECT_EQ(t.bus.in_flight(), 0u);
  EXPECT_EQ(t.served().stats.cancelled.load(), 1u);
}

TEST(Bus, ErrandsAreAdmittedLikeCallsAndARefusalOfTheWorkersCounts) {
  Bench t({1});
  HeldInbox workers;
  t.bus.employ(workers);
  Keeper keeper(t.bus);
  int ran = 0, failures = 0;
  keeper.failed = [&] { ++failures; };
  auto call = t.bus.send(std::make_unique<Sum>(ran), 9, t.served(), keeper, {});
  ASSERT_TRUE(call);
  auto second = t.bus.send(std::make_unique<Sum>(ran), 9, t.served(), keeper, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kResourceExhausted);
  EXPECT_EQ(t.served().stats.rejected.load(), 1u);
  t.answer(*call, {msg::Failed{base::try_again(Code::kResourceExhausted, "full")}});
  t.bus.turn();
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(t.served().stats.rejected.load(), 2u);
}

TEST(Bus, EnoughEndsACallWithoutAFailure) {
  Bench t;
  auto* call = t.sent("a");
  t.bus.enough(call);
  EXPECT_TRUE(call->cancelled.load());
  EXPECT_TRUE(call->satisfied.load());
  EXPECT_EQ(t.digits().pokes, 1);
  t.answer(call);
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, Heard{});
  EXPECT_EQ(t.served().stats.cancelled.load(), 0u);
  EXPECT_FALSE(t.sent("b")->satisfied.load()) << "the next one is another";
  t.answer(t.digits().held.at(0));
  t.bus.turn();
}

}  // namespace
}  // namespace weir::bus
