// Lanes that a shard wakes at the end of its turn.
#include "sched/turn_wakes.h"

#include <gtest/gtest.h>

#include <deque>
#include <thread>
#include <utility>

#include "engines.h"
#include "event_recorder.h"
#include "fake_deadline_timer.h"
#include "sched/lane.h"

namespace weir::sched {
namespace {

struct TurnLab {
  explicit TurnLab(int engines = 1, msg::ModelSpec of = spec_of(8)) : spec(std::move(of)) {
    std::vector<std::unique_ptr<Engine>> made;
    for (int i = 0; i < engines; ++i) made.push_back(std::make_unique<Doubler>());
    lanes = make_lanes(std::move(made), spec, stats, base::heap(), timer);
    wakes.use();
  }
  void put(uint32_t rows = 1) {
    auto& call = calls.emplace_back();
    fill(call, rows, 1);
    call.home = &recorder;
    lanes->put(&call);
  }
  // Puts calls until one finds the lane asleep, which it is some time after it has started or answered. Returns how
  // many ran before.
  size_t put_to_sleeping_lane() {
    for (;;) {
      const size_t before = calls.size();
      put();
      if (!wakes.empty()) return before;
      recorder.until(calls.size());
    }
  }

  msg::ModelSpec spec;
  // A turn takes no time, however long the thread that puts has to wait for its core.
  std::shared_ptr<FakeDeadlineTimer> timer = std::make_shared<FakeDeadlineTimer>();
  bus::ModelStats stats;
  EventRecorder recorder;
  std::deque<msg::Call> calls;
  TurnWakes wakes;
  std::unique_ptr<msg::Inbox> lanes;
};

TEST(TurnWakes, CallsOfOneTurnRunTogether) {
  TurnLab t;
  const size_t before = t.put_to_sleeping_lane();
  for (int i = 0; i < 4; ++i) t.put();
  EXPECT_EQ(t.recorder.ended(), before);
  t.wakes.flush();
  t.recorder.until(before + 5);
  t.lanes.reset();
  EXPECT_EQ(t.stats.batches().at(5).count, 1u);
}

TEST(TurnWakes, FullBatchDoesNotWaitForTheEndOfTheTurn) {
  TurnLab t;
  const size_t before = t.put_to_sleeping_lane();
  for (int i = 0; i < 7; ++i) t.put();
  t.recorder.until(before + 8);
  EXPECT_EQ(t.stats.batches().at(8).count, 1u);
  t.lanes.reset();  // in the turn that has the lane still on its list
  EXPECT_TRUE(t.wakes.empty());
  t.wakes.flush();
}

TEST(TurnWakes, NorDoesOneThatIsFullOfRowsOrOfTheLargestPreferredSize) {
  auto preferring = spec_of(8);
  preferring.batching.preferred = {2, 4};
  for (auto [spec, rows] : {std::pair(spec_of(8), 7u), std::pair(preferring, 3u)}) {
    TurnLab t(1, spec);
    const size_t before = t.put_to_sleeping_lane();
    t.put(rows);
    t.recorder.until(before + 2);
    EXPECT_EQ(t.stats.batches().at(rows + 1).count, 1u);
    for (int i = 0; i < 20; ++i) {
      t.wakes.flush();
      t.put(rows + 1);
      t.recorder.until(t.calls.size());
      EXPECT_TRUE(t.wakes.empty());
    }
  }
}

TEST(TurnWakes, CallOfAnotherThreadDoesNotWaitForTheTurnOfThisOne) {
  TurnLab t;
  const size_t before = t.put_to_sleeping_lane();
  for (size_t more = 2; more < 10; ++more) {
    std::thread([&] {
      TurnWakes others;
      if (more % 2 == 0) others.use();  // another shard, or a lane
      t.put();
      t.recorder.until(before + more);
      others.flush();
    }).join();
  }
  t.wakes.flush();
}

TEST(TurnWakes, LongTurnDoesNotKeepTheLaneAsleep) {
  TurnLab t;
  const size_t before = t.put_to_sleeping_lane();
  t.put();
  EXPECT_EQ(t.recorder.ended(), before);
  t.timer->advance(1ms);
  t.put();
  t.recorder.until(before + 3);
  EXPECT_EQ(t.stats.batches().at(3).count, 1u);
  t.wakes.flush();
}

TEST(TurnWakes, LaneThatHasTakenTheCallsIsNotifiedForNothing) {
  TurnLab t;
  const size_t before = t.put_to_sleeping_lane();
  t.lanes->poke();  // does nothing: the lane is going to be woken
  t.wakes.flush();
  t.wakes.flush();
  t.recorder.until(before + 1);
  const size_t more = t.put_to_sleeping_lane();  // is listed again
  t.wakes.flush();
  t.recorder.until(more + 1);
}

TEST(TurnWakes, SeveralLanesAndModelsThatDoNotBatchAreWokenAtOnce) {
  auto alone = spec_of(8);
  alone.batching.dynamic = false;
  TurnLab two(2), unbatched(1, alone);
  unbatched.wakes.use();
  for (auto* t : {&two, &unbatched})
    for (size_t i = 1; i <= 20; ++i) {
      t->put();
      t->recorder.until(i);
      EXPECT_TRUE(unbatched.wakes.empty());
    }
}

TEST(TurnWakes, ThreadWithoutThemHasNone) {
  {
    TurnLab t;
    EXPECT_EQ(TurnWakes::of_this_thread(), &t.wakes);
  }
  EXPECT_EQ(TurnWakes::of_this_thread(), nullptr);
}

}  // namespace
}  // namespace weir::sched
