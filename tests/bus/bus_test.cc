#include "bus/bus.h"

#include <stdexcept>

#include "bus_fixture.h"

namespace weir::bus {
namespace {

using base::Code;

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

TEST(Bus, MailIsLeftForTheNextTurnInItsOrderWhenATurnIsLong) {
  Bench t;
  for (const char* id : {"a", "b", "c"}) t.answer(t.sent(id));
  int wakes = t.wakes;
  auto long_enough = [] { return true; };
  t.bus.turn(long_enough);
  EXPECT_EQ(t.sink.heard, Heard{"a:last"}) << "one is heard in each turn";
  EXPECT_GT(t.wakes, wakes);
  t.answer(t.sent("d"));
  t.bus.turn(long_enough);
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, (Heard{"a:last", "b:last", "c:last", "d:last"}));
  EXPECT_EQ(t.bus.in_flight(), 0u);
  t.answer(t.sent("e"));
  wakes = t.wakes;
  t.bus.turn(long_enough);
  EXPECT_EQ(t.wakes, wakes) << "nothing is left";
}

TEST(Bus, ASinkWithoutMemoryForItsAnswerHearsThatTheCallHasFailed) {
  Bench t;
  auto *a = t.sent("a"), *b = t.sent("b"), *c = t.sent("c");
  int left = 1;
  t.sink.then = [&] {
    if (left-- > 0) throw std::bad_alloc();
  };
  t.answer(a);
  t.answer(b);
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, (Heard{"a:last", "a:RESOURCE_EXHAUSTED", "b:last"}));
  EXPECT_EQ(t.bus.in_flight(), 1u);
  left = 2;  // not even for that
  t.answer(c, {msg::Token{}});
  t.bus.turn();
  EXPECT_TRUE(c->cancelled);
  t.answer(c, {msg::Token{}});
  t.answer(c);
  t.bus.turn();
  EXPECT_EQ(t.sink.heard.size(), 5u);
  EXPECT_EQ(t.bus.in_flight(), 0u);
  EXPECT_EQ(t.served().stats.cancelled, 1u) << "c; the others had ended";
  for (const char* id : {"d", "e", "f"}) t.answer(t.sent(id));
  t.bus.turn();
  EXPECT_EQ((Heard{t.sink.heard.end() - 3, t.sink.heard.end()}), (Heard{"d:last", "e:last", "f:last"}));
}

// The lender of a Call's memory takes it back at the last Event.
TEST(Bus, ASinkWithoutMemoryHearsNothingBeforeTheEngineHasLetGo) {
  Bench t;
  auto* call = t.sent("a");
  int left = 1;
  t.sink.then = [&] {
    if (left-- > 0) throw std::bad_alloc();
  };
  t.answer(call, {msg::Token{}});
  t.bus.turn();
  EXPECT_TRUE(call->cancelled);
  EXPECT_EQ(t.sink.heard.size(), 1u);
  t.answer(call, {msg::Token{}});
  t.bus.turn();
  EXPECT_EQ(t.sink.heard.size(), 1u);
  t.answer(call);
  t.bus.turn();
  ASSERT_EQ(t.sink.heard.size(), 2u);
  EXPECT_EQ(t.sink.heard[1], "a:RESOURCE_EXHAUSTED");
  EXPECT_EQ(t.bus.in_flight(), 0u);
}

TEST(Bus, ASinkThatThrowsHearsThatItsCallHasFailedAndTheOthersHearTheirs) {
  Bench t;
  auto *a = t.sent("a"), *b = t.sent("b");
  int left = 1;
  t.sink.then = [&] {
    if (left-- > 0) throw std::runtime_error("a dialect's");
  };
  t.answer(a, {msg::Token{}});
  t.answer(b);
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, (Heard{"a:more", "b:last"}));
  EXPECT_TRUE(a->cancelled);
  EXPECT_EQ(t.bus.in_flight(), 1u);
  t.answer(a);
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, (Heard{"a:more", "b:last", "a:INTERNAL"}));
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

TEST(Bus, AViewOfTheCatalogIsKeptUntilTheNextOne) {
  Bench t;
  const base::ModelScope scope({"dig*"});
  const Catalog& view = t.bus.catalog(&scope);
  EXPECT_EQ(view.models.size(), 1u);
  EXPECT_EQ(&t.bus.catalog(&scope), &view);
  EXPECT_EQ(&t.bus.catalog(nullptr), &t.bus.catalog());
  t.bus.publish(std::make_shared<Catalog>());
  EXPECT_EQ(t.bus.catalog(&scope).models.size(), 0u);
  for (int i = 0; i < 1000; ++i) {
    const base::ModelScope other({"m" + std::to_string(i)});
    EXPECT_EQ(t.bus.catalog(&other).models.size(), 0u);
  }
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

TEST(Bus, AClosedBusRefusesNewCallsAndDeliversTheOldOnes) {
  Bench t;
  auto* call = t.sent("a");
  t.bus.close();
  EXPECT_EQ(t.refused(t.call("b")).code, Code::kUnavailable);
  t.answer(call);
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, Heard{"a:last"});
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

TEST(Bus, AFailureOfTheModelCountsAsTooLateOnlyWhereItSaysSo) {
  Bench t;
  t.answer(t.sent("a"), {msg::Failed{base::failure(Code::kDeadlineExceeded, "late")}});
  t.answer(t.sent("b"), {msg::Failed{base::failure(Code::kUnavailable, "gone")}});
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, (Heard{"a:DEADLINE_EXCEEDED", "b:UNAVAILABLE"}));
  EXPECT_EQ(t.served().stats.expired, 1u);
  EXPECT_EQ(t.served().stats.rejected, 0u) << "its lane counts those";
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
  ASSERT_TRUE(support::submit(t.bus, call).ok());
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
  EXPECT_EQ(t.sink.heard.size(), 8u) << "rounds of one";
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
  ASSERT_TRUE(support::submit(t.bus, call).ok());
  EXPECT_EQ(call->times.queued - call->times.received, 2ms);
  EXPECT_EQ(call->lease, &t.served());
  auto* unstamped = t.sent("b");
  EXPECT_EQ(unstamped->times.received, t.env.now());
  t.answer(call), t.answer(unstamped);
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

TEST(Bus, EnoughEndsACallWithoutAFailure) {
  Bench t;
  auto* call = t.sent("a");
  t.bus.finish(call);
  EXPECT_TRUE(call->cancelled.load());
  EXPECT_TRUE(call->satisfied.load());
  EXPECT_EQ(t.digits().pokes, 1);
  t.answer(call);
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, Heard{});
  EXPECT_EQ(t.served().stats.cancelled.load(), 0u);
  EXPECT_FALSE(t.sent("b")->satisfied.load()) << "the next one is another";
  auto* cancelled = t.sent("c");
  t.bus.cancel(cancelled);
  t.bus.finish(cancelled);
  EXPECT_FALSE(cancelled->satisfied.load()) << "it was given up before";
  EXPECT_EQ(t.digits().pokes, 2);
  t.answer(cancelled);
  t.answer(t.digits().held.at(0));
  t.bus.turn();
}

// An Inbox that has thrown has not taken the Call.
TEST(Bus, ACallThatAnInboxThrowsForIsTheCallersAgainAndCountsNoMore) {
  class Full final : public msg::Inbox {
   public:
    void put(msg::Call*) override { throw std::bad_alloc(); }
  };
  Bench b({.max_in_flight = 4, .share = {.percent = 25}});
  auto catalog = std::make_shared<Catalog>(b.bus.catalog());
  b.add(*catalog, "full", "1", std::make_unique<Full>());
  b.bus.publish(catalog);
  for (int i = 0; i < 10; ++i) {
    auto* call = b.call("c", 5s, "full");
    call->tenant = 7;
    EXPECT_EQ(b.refused(call).code, base::Code::kResourceExhausted);
    EXPECT_EQ(b.bus.in_flight(), 0u);
    EXPECT_TRUE(b.all.back()->idle());
  }
  auto* retried = b.call("r", 5s, "full");
  EXPECT_FALSE(support::submit(b.bus, retried).ok());
  retried->model = "digits";
  EXPECT_TRUE(support::submit(b.bus, retried).ok()) << "it may go elsewhere";
  b.env.advance(6s);  // no deadline is left of those that were not taken
  EXPECT_EQ(b.sink.heard, Heard{"r:DEADLINE_EXCEEDED"});
  b.answer(retried);
  b.bus.turn();
  retried = b.call("s", 5s, "full");
  EXPECT_FALSE(support::submit(b.bus, retried).ok());
  EXPECT_EQ(retried->lease, nullptr);
  retried->model = "digits", retried->deadline = base::kNever;
  EXPECT_TRUE(support::submit(b.bus, retried).ok());
  b.answer(retried);
  b.bus.turn();
  auto* next = b.sent("t");
  EXPECT_EQ(next, retried) << "in its memory";
  b.env.advance(6s);
  EXPECT_EQ(b.sink.heard, (Heard{"r:DEADLINE_EXCEEDED", "s:last"})) << "that deadline was the first attempt's";
  std::vector<msg::Call*> others{next, b.sent("u")};
  others.push_back(b.call("v"));
  others.back()->tenant = 7;
  EXPECT_TRUE(support::submit(b.bus, others.back()).ok()) << "half is out, and it has none of its share";
  for (auto* call : others) b.answer(call);
  b.bus.turn();
  EXPECT_EQ(b.bus.in_flight(), 0u);
}

}  // namespace
}  // namespace weir::bus
