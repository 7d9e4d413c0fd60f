#include "sched/deadline_timer.h"

#include <gtest/gtest.h>

#include <deque>

#include "calls.h"
#include "engines.h"
#include "event_recorder.h"
#include "fake_deadline_timer.h"
#include "sched/concurrency_limiter.h"
#include "sched/lane.h"

namespace weir::sched {
namespace {

struct CountingListener final : DeadlineTimer::Listener {
  void on_deadline() override {
    std::lock_guard lock(mutex);
    ++times;
    changed.notify_all();
  }
  void until(int n) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return times >= n; });
  }
  std::mutex mutex;
  std::condition_variable changed;
  int times = 0;
};

TEST(TimerThread, CallsEachListenerOnceAtItsTime) {
  CountingListener a, b;
  TimerThread clock;
  auto start = clock.now();
  clock.set(b, start + 2ms);
  clock.set(a, start + 1h);
  clock.set(a, start + 1ms);
  a.until(1), b.until(1);
  EXPECT_GE(clock.now(), start + 2ms);
  clock.set(a, start);
  a.until(2);
  clock.remove(a), clock.remove(b);
  EXPECT_EQ(a.times, 2);
  EXPECT_EQ(b.times, 1);
}

TEST(TimerThread, AListenerThatWasRemovedIsNotCalled) {
  CountingListener gone, stays;
  TimerThread clock;
  auto start = clock.now();
  clock.set(gone, start + 1ms);
  clock.remove(gone);
  clock.set(stays, start + 2ms);
  stays.until(1);
  EXPECT_EQ(gone.times, 0);
  clock.remove(stays);
}

// One engine that is held in its step, and the calls behind it.
struct BusyTimer {
  explicit BusyTimer(msg::ModelSpec s = spec_of(8)) : spec(std::move(s)) {
    std::vector<std::unique_ptr<Engine>> engines;
    engines.push_back(std::make_unique<Doubler>(&gate));
    lanes = make_lanes(std::move(engines), spec, stats, base::heap(), deadline_timer);
    put();
    gate.until_waiting(1);
  }
  ~BusyTimer() {
    gate.open();
    lanes.reset();
  }
  msg::Call& put(base::Duration queue_timeout = {}, base::Duration deadline = {}) {
    auto& call = calls.emplace_back();
    fill(call, 1, 5);
    call.home = &recorder, call.queue_timeout = queue_timeout;
    if (deadline.count() > 0) call.deadline = deadline_timer->now() + deadline;
    lanes->put(&call);
    return call;
  }
  msg::ModelSpec spec;
  bus::ModelStats stats;
  Gate gate;
  EventRecorder recorder;
  std::deque<msg::Call> calls;
  std::shared_ptr<FakeDeadlineTimer> deadline_timer = std::make_shared<FakeDeadlineTimer>();
  std::unique_ptr<msg::Inbox> lanes;
};

TEST(LaneTimer, AQueueTimeoutIsAnsweredOnTimeWhileTheEngineIsBusy) {
  BusyTimer t;
  auto &soon = t.put(5ms), &later = t.put(9ms), &patient = t.put();
  t.deadline_timer->advance(4ms);
  EXPECT_EQ(t.recorder.of(soon), "nothing");
  t.deadline_timer->advance(1ms);
  EXPECT_EQ(t.recorder.of(soon), "UNAVAILABLE");
  EXPECT_EQ(t.recorder.of(later), "nothing");
  t.deadline_timer->advance(4ms);
  EXPECT_EQ(t.recorder.of(later), "UNAVAILABLE");
  EXPECT_EQ(t.recorder.of(patient), "nothing");
  EXPECT_EQ(t.stats.pending, 1);
  EXPECT_EQ(t.stats.rejected, 2u);
}

TEST(LaneTimer, ACallThatComesLaterMayLeaveEarlier) {
  BusyTimer t;
  auto& later = t.put(9ms);
  auto& soon = t.put(2ms);
  t.deadline_timer->advance(2ms);
  EXPECT_EQ(t.recorder.of(soon), "UNAVAILABLE");
  EXPECT_EQ(t.recorder.of(later), "nothing");
}

TEST(LaneTimer, ADeadlineFreesItsCallWhileTheEngineIsBusy) {
  BusyTimer t;
  auto& call = t.put({}, 3ms);
  t.deadline_timer->advance(3ms);
  EXPECT_EQ(t.recorder.of(call), "DEADLINE_EXCEEDED");
}

TEST(LaneTimer, ACancelledCallLeavesWhileTheEngineIsBusy) {
  BusyTimer t;
  auto &gone = t.put(), &stays = t.put();
  gone.cancelled = true;
  t.lanes->poke();
  t.deadline_timer->advance(1ms);
  EXPECT_EQ(t.recorder.of(gone), "CANCELLED");
  EXPECT_EQ(t.recorder.of(stays), "nothing");
}

TEST(LaneTimer, ManyCallsWithOneTimeoutSetTheTimerOnce) {
  auto spec = spec_of(8);
  spec.batching.queue_timeout = 10s;
  spec.batching.max_queue = 0;
  BusyTimer t(spec);
  int before = t.deadline_timer->sets();
  for (int i = 0; i < 1000; ++i) {
    t.deadline_timer->advance(1us);
    t.put();
  }
  EXPECT_LE(t.deadline_timer->sets() - before, 1);
}

TEST(LaneTimer, ATimerThatCouldNotBeSetIsSetWithTheNextCall) {
  BusyTimer t;
  t.deadline_timer->shatter();
  auto& soon = t.put(5ms);
  t.deadline_timer->mend();
  auto& later = t.put(9ms);
  t.deadline_timer->advance(5ms);
  EXPECT_EQ(t.recorder.of(soon), "UNAVAILABLE");
  EXPECT_EQ(t.recorder.of(later), "nothing");
}

TEST(LaneTimer, CallsWithoutATimeNeverSetIt) {
  BusyTimer t;
  for (int i = 0; i < 10; ++i) t.put();
  EXPECT_EQ(t.deadline_timer->sets(), 0);
}

struct HeldBack final : msg::Inbox {
  void put(msg::Call* call) override { calls.push_back(call); }
  std::vector<msg::Call*> calls;
};

// Three calls, four milliseconds apart; the first is inside and stays there.
struct Queue {
  Queue() {
    spec.batching.queue_timeout = 10ms;
    auto inner = std::make_unique<HeldBack>();
    held = inner.get();
    inbox = behind(limiter, std::move(inner), spec, stats, deadline_timer);
  }
  void put(msg::Call& call) {
    call.home = &recorder, call.times.queued = deadline_timer->now();
    inbox->put(&call);
    deadline_timer->advance(4ms);
  }
  void leave() {
    std::vector<msg::Mail> last;
    last.push_back({&calls[0], {msg::Outputs{}}});
    held->calls[0]->home->post(last);
  }
  msg::ModelSpec spec = spec_of(8);
  bus::ModelStats stats;
  EventRecorder recorder{[](const msg::Mail& mail) { return text_of(mail.event); }};
  std::shared_ptr<FakeDeadlineTimer> deadline_timer = std::make_shared<FakeDeadlineTimer>();
  std::shared_ptr<ConcurrencyLimiter> limiter = std::make_shared<ConcurrencyLimiter>(1);
  HeldBack* held = nullptr;
  std::unique_ptr<msg::Inbox> inbox;
  msg::Call calls[3];
};

TEST(LimiterTimer, ATimerThatCouldNotBeSetIsSetWithTheNextCall) {
  Queue q;
  q.put(q.calls[0]);
  q.deadline_timer->shatter();
  q.put(q.calls[1]);
  q.deadline_timer->mend();
  q.put(q.calls[2]);
  q.deadline_timer->advance(6ms);
  EXPECT_EQ(q.recorder.of(q.calls[1]), "UNAVAILABLE");
  EXPECT_EQ(q.recorder.of(q.calls[2]), "UNAVAILABLE");
  q.leave();
}

TEST(LimiterTimer, AQueueTimeoutIsAnsweredOnTimeThoughNobodyLeaves) {
  Queue q;
  auto& calls = q.calls;
  auto& recorder = q.recorder;
  for (auto& call : calls) q.put(call);
  EXPECT_EQ(q.limiter->waiting(), 2u);
  q.deadline_timer->advance(2ms);
  EXPECT_EQ(recorder.of(calls[1]), "UNAVAILABLE");
  EXPECT_EQ(recorder.of(calls[2]), "nothing");
  q.deadline_timer->advance(4ms);
  EXPECT_EQ(recorder.of(calls[2]), "UNAVAILABLE");
  EXPECT_EQ(q.limiter->waiting(), 0u);
  EXPECT_EQ(q.stats.waiting(), 0u);
  q.leave();
  EXPECT_EQ(recorder.of(calls[0]), "ok");
}

}  // namespace
}  // namespace weir::sched
