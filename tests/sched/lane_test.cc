#include "sched/lane.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "calls.h"
#include "device/pool.h"
#include "engines.h"
#include "event_recorder.h"
#include "shard_thread.h"
#include "support/submit.h"

namespace weir::sched {
namespace {

using base::Code;

struct NoSlabs final : base::SlabSource {
  base::Slab* take(size_t) override { return nullptr; }
};

struct LaneLab {
  explicit LaneLab(msg::ModelSpec s = spec_of(8), int engines = 1, base::SlabSource& slabs = base::heap())
      : spec(std::move(s)) {
    std::vector<std::unique_ptr<Engine>> made;
    for (int i = 0; i < engines; ++i) made.push_back(std::make_unique<Doubler>(&gate));
    lanes = make_lanes(std::move(made), spec, stats, slabs);
  }
  ~LaneLab() {
    gate.open();
    lanes.reset();
  }
  msg::Call& made(float value, uint32_t rows = 1, EventRecorder* home = nullptr) {
    auto& call = calls.emplace_back();
    fill(call, rows, value);
    call.home = home ? home : &recorder;
    return call;
  }
  msg::Call& put(float value, uint32_t rows = 1, EventRecorder* home = nullptr) {
    auto& call = made(value, rows, home);
    lanes->put(&call);
    return call;
  }
  // Puts calls behind one that holds the engine, so that they wait together.
  msg::Call& hold() {
    auto& call = put(1);
    gate.until_waiting(1);
    return call;
  }

  // The results of a good Call and of one of this value, which share a batch.
  std::string together(float bad, uint32_t rows = 1) {
    hold();
    auto &good = put(5), &other = put(bad, rows);
    gate.open();
    recorder.until(3);
    return recorder.of(good) + " " + recorder.of(other);
  }

  msg::ModelSpec spec;
  bus::ModelStats stats;
  Gate gate;
  EventRecorder recorder;
  std::deque<msg::Call> calls;
  std::unique_ptr<msg::Inbox> lanes;
};

TEST(Lane, OneCallIsAnsweredAndTimed) {
  LaneLab t;
  t.gate.open();
  auto& call = t.put(21, 3);
  t.recorder.until(1);
  EXPECT_EQ(t.recorder.of(call), "42x3");
  expect_ascending(call.times);
  EXPECT_EQ(call.times.batch_rows, 3u);
  EXPECT_EQ(t.stats.inference_count, 3u);
  EXPECT_EQ(t.stats.execution_count, 1u);
  EXPECT_EQ(t.stats.success.count, 1u);
  EXPECT_EQ(t.stats.batches().at(3).count, 1u);
}

TEST(Lane, CallsThatArriveWhileTheEngineWorksRunTogether) {
  LaneLab t;
  auto& first = t.hold();
  std::vector<msg::Call*> others;
  for (int i = 2; i <= 6; ++i) others.push_back(&t.put(float(i)));
  EXPECT_EQ(t.stats.pending, 5);
  t.gate.let(2);
  t.recorder.until(6);
  EXPECT_EQ(t.recorder.of(first), "2x1");
  for (int i = 2; i <= 6; ++i) EXPECT_EQ(t.recorder.of(*others[size_t(i - 2)]), std::to_string(2 * i) + "x1");
  EXPECT_EQ(t.stats.execution_count, 2u);
  EXPECT_EQ(t.stats.inference_count, 6u);
  EXPECT_EQ(t.stats.queue.count, 6u);
  EXPECT_EQ(t.stats.batches().at(5).count, 1u);
  EXPECT_EQ(t.stats.pending, 0);
}

TEST(Lane, TheTimelineTellsHowLongTheCallsOfABatchHaveWaited) {
  LaneLab t;
  t.hold();
  msg::Call* const calls[] = {&t.put(0), &t.put(1), &t.put(2)};
  t.gate.open();
  t.recorder.until(4);
  const auto batches = t.stats.timeline.latest();
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[1].calls, 3u);
  EXPECT_EQ(batches[1].queued, calls[0]->times.queued);
  EXPECT_EQ(batches[1].median, calls[1]->times.queued);
  EXPECT_EQ(batches[1].last, calls[2]->times.queued);
  EXPECT_EQ(batches[0].queued, batches[0].last) << "of one call";
}

TEST(Lane, ABatchIsPostedOncePerHomeShard) {
  LaneLab t;
  EventRecorder other;
  t.hold();
  for (int i = 0; i < 3; ++i) t.put(5, 1, &t.recorder), t.put(7, 1, &other);
  t.gate.open();
  t.recorder.until(4), other.until(3);
  EXPECT_EQ(t.recorder.bursts(), 2);
  EXPECT_EQ(other.bursts(), 1);
}

TEST(Lane, ABadRowFailsAloneWhenItFailsTheBatch) {
  LaneLab t;
  t.hold();
  auto& good = t.put(5, 2);
  auto& bad = t.put(kPoison);
  auto& also_good = t.put(7);
  t.gate.open();
  t.recorder.until(4);
  EXPECT_EQ(t.recorder.of(good), "10x2");
  EXPECT_EQ(t.recorder.of(bad), "INVALID_ARGUMENT");
  EXPECT_EQ(t.recorder.of(also_good), "14x1");
  EXPECT_EQ(t.stats.success.count, 3u);
  EXPECT_EQ(t.stats.fail.count, 1u);
  EXPECT_EQ(t.stats.execution_count, 3u) << "the one that failed does not count";
  EXPECT_EQ(t.stats.inference_count, 4u);
}

TEST(Lane, ARowThatTheEngineReportsFailsAlone) {
  LaneLab t;
  EXPECT_EQ(t.together(kAllergic, 2), "10x1 INVALID_ARGUMENT");
  EXPECT_EQ(t.stats.execution_count, 2u);
}

TEST(Lane, OutputsOfTheWrongLengthFailOnlyTheCallThatCausesThem) {
  LaneLab t;
  EXPECT_EQ(t.together(kShort, 2), "10x1 INTERNAL");
}

TEST(Lane, ACallCancelledInABatchThatFailsIsNotRunAgain) {
  LaneLab t;
  t.hold();
  auto &bad = t.put(kPoison), &gone = t.put(5), &stays = t.put(7);
  t.gate.let(1);
  t.recorder.until(1);
  t.gate.until_waiting(1);
  gone.cancelled = true;
  t.gate.open();
  t.recorder.until(4);
  EXPECT_EQ(t.recorder.of(bad) + " " + t.recorder.of(gone), "INVALID_ARGUMENT CANCELLED");
  EXPECT_TRUE(bad.times.started == base::kNever && gone.times.started == base::kNever) << "no step has ended with them";
  EXPECT_EQ(t.recorder.of(stays), "14x1");
}

TEST(Lane, LackOfMemoryInTheEngineEndsTheRequestOnly) {
  LaneLab t;
  t.gate.open();
  auto& bad = t.put(kHungry);
  auto& good = t.put(5);
  t.recorder.until(2);
  EXPECT_EQ(t.recorder.of(bad), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(t.recorder.of(good), "10x1");
}

TEST(Lane, WhatALibraryThrowsEndsTheRequestOnly) {
  LaneLab t;
  t.gate.open();
  auto& bad = t.put(kBroken);
  auto& good = t.put(5);
  t.recorder.until(2);
  EXPECT_EQ(t.recorder.of(bad), "INTERNAL");
  EXPECT_EQ(t.recorder.of(good), "10x1");
}

// The slabs into which calls are laid together are an allocation, too.
TEST(Lane, LackOfMemoryWhileABatchIsGatheredEndsNobodysRequest) {
  struct Throwing final : base::SlabSource {
    base::Slab* take(size_t) override { throw std::bad_alloc(); }
  } throwing;
  LaneLab t(spec_of(8), 1, throwing);
  t.hold();
  auto &a = t.put(5), &b = t.put(6);
  t.gate.open();
  t.recorder.until(3);
  EXPECT_EQ(t.recorder.of(a), "10x1");
  EXPECT_EQ(t.recorder.of(b), "12x1");
}

TEST(Lane, WithoutStagingMemoryCallsRunOneByOne) {
  NoSlabs none;
  LaneLab t(spec_of(8), 1, none);
  EXPECT_EQ(t.together(6), "10x1 12x1");
  EXPECT_EQ(t.stats.execution_count, 3u);
}

TEST(Lane, CallsThatDoNotFitAreRefusedOnTheirShard) {
  LaneLab t;
  auto& call = t.put(5, 9);
  EXPECT_EQ(t.recorder.of(call), "INVALID_ARGUMENT");
  EXPECT_EQ(t.stats.fail.count, 1u);
}

TEST(Lane, AFullQueueRefusesOnTheShard) {
  auto spec = spec_of(1);
  spec.batching.max_queue = 2;
  LaneLab t(spec);
  t.hold();
  t.put(2), t.put(3);
  auto& call = t.put(4);
  EXPECT_EQ(t.recorder.of(call), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(t.stats.rejected, 1u);
}

TEST(Lane, CancelledCallsInTheQueueAreNeverComputed) {
  LaneLab t;
  t.hold();
  auto &gone = t.put(5), &stays = t.put(6);
  gone.cancelled = true;
  t.lanes->poke();
  t.gate.open();
  t.recorder.until(3);
  EXPECT_EQ(t.recorder.of(gone), "CANCELLED");
  EXPECT_EQ(t.recorder.of(stays), "12x1");
  EXPECT_EQ(t.stats.inference_count, 2u);
}

TEST(Lane, ACallThatWasCancelledBeforeItCameLeavesAnIdleLane) {
  LaneLab t;
  auto& call = t.made(5);
  call.cancelled = true;
  t.lanes->put(&call);
  t.recorder.until(1);
  EXPECT_EQ(t.recorder.of(call), "CANCELLED");
  EXPECT_EQ(t.stats.inference_count, 0u);
}

TEST(Lane, ACancelledCallLeavesWhileTheIdleEngineWaitsForCompany) {
  auto spec = spec_of(8);
  spec.batching.max_delay = 1h;
  LaneLab t(spec);
  auto& call = t.put(5);
  call.cancelled = true;
  t.lanes->poke();
  t.recorder.until(1);
  EXPECT_EQ(t.recorder.of(call), "CANCELLED");
}

TEST(Lane, AFullBatchWakesALaneThatWaitsForCompany) {
  auto spec = spec_of(3);
  spec.batching.max_delay = 1h;
  LaneLab t(spec);
  t.gate.open();
  for (int i = 0; i < 30; ++i) t.put(float(i));
  t.recorder.until(30);
  EXPECT_EQ(t.stats.execution_count, 10u);
}

TEST(Lane, ALoneCallRunsAfterTheDelay) {
  auto spec = spec_of(8);
  spec.batching.max_delay = 1ms;
  LaneLab t(spec, 2);
  t.gate.open();
  for (size_t i = 1; i <= 5; ++i) {
    auto& call = t.put(5);
    t.recorder.until(i);
    EXPECT_GE(call.times.started - call.times.queued, 1ms);
  }
}

TEST(Lane, InstancesWorkAtTheSameTime) {
  LaneLab t(spec_of(1), 3);
  for (int i = 0; i < 3; ++i) t.put(float(i));
  t.gate.until_waiting(3);
  t.gate.open();
  t.recorder.until(3);
  EXPECT_EQ(t.stats.execution_count, 3u);
}

TEST(Lane, TheDestructorRunsWhatIsQueued) {
  auto spec = spec_of(4);
  spec.batching.max_delay = 1h;
  EventRecorder recorder;
  {
    LaneLab t(spec);
    t.gate.open();
    for (int i = 0; i < 6; ++i) t.put(float(i), 1, &recorder);
    t.lanes.reset();
    EXPECT_EQ(recorder.ended(), 6u);
    EXPECT_EQ(t.stats.inference_count, 6u);
  }
}

// The requests and answers of one client of the storm below.
struct Client final : msg::Sink {
  void on(msg::Call&, msg::Event&& event) override {
    heard += event.last();
    outcome = text_of(event);
    if (outcome != "ok") return;
    auto& y = std::get<msg::Outputs>(event.what).tensors.at(0);
    for (float v : floats_of(y)) right = right && v == 2 * value;
    right = right && y.shape[0] == int64_t(rows);
  }
  float value = 0;
  uint32_t rows = 1;
  bool abandoned = false;
  int heard = 0;
  bool right = true;
  std::string outcome;
};

// Many calls of several shards, with rows, faults, cancels and deadlines: every client hears exactly once, unless it
// left, and nobody hears another's rows.
TEST(Lane, AStormFromSeveralShardsAnswersEveryCallOnceAndWithItsOwnRows) {
  constexpr int kShards = 3, kCalls = 600;
  device::SlabPool pool(1 << 20);
  auto served = std::make_shared<bus::Served>();
  served->spec = spec_of(8);
  served->spec.batching.max_delay = 100us;
  served->spec.batching.priority_levels = 3;
  std::vector<std::unique_ptr<Engine>> engines;
  for (int i = 0; i < 2; ++i) engines.push_back(std::make_unique<Doubler>());
  served->inbox = make_lanes(std::move(engines), served->spec, served->stats, pool);
  auto catalog = std::make_shared<bus::Catalog>();
  catalog->models["m"] = {{{"1", served}}, served.get()};

  std::deque<Client> clients[kShards];
  {
    std::deque<ShardThread> shards;
    for (uint16_t s = 0; s < kShards; ++s) shards.emplace_back(s);
    for (int s = 0; s < kShards; ++s)
      shards[size_t(s)].post([&bus = shards[size_t(s)].bus, catalog] { bus.publish(catalog); });
    for (int i = 0; i < kCalls; ++i)
      for (int s = 0; s < kShards; ++s)
        shards[size_t(s)].post([&, s, i, &bus = shards[size_t(s)].bus] {
          std::mt19937 random(unsigned(s * kCalls + i));
          auto& client = clients[s].emplace_back();
          client.value = float(1 + s * kCalls + i);
          client.rows = 1 + random() % 3;
          if (random() % 20 == 0) client.value = random() % 2 ? kPoison : kShort;
          auto* call = bus.make_call();
          fill(*call, client.rows, client.value);
          call->model = "m", call->sink = &client, call->priority = random() % 5;
          if (random() % 6 == 0) call->deadline = bus.env().now() + base::Duration(random() % 300'000);
          if (auto status = support::submit(bus, call); !status.ok()) {
            client.outcome = base::name(status.code), ++client.heard;
            return bus.discard(call);
          }
          client.abandoned = random() % 6 == 0;
          if (client.abandoned) bus.abandon(call);
        });
  }
  uint64_t good = 0;
  for (auto& all : clients)
    for (auto& client : all) {
      ASSERT_EQ(client.heard, client.abandoned ? 0 : 1);
      ASSERT_TRUE(client.right) << client.value;
      good += client.outcome == "ok";
    }
  EXPECT_TRUE(served->idle());
  EXPECT_EQ(served->stats.pending, 0);
  EXPECT_GE(served->stats.success.count, good);
  catalog.reset(), served.reset();
  EXPECT_EQ(pool.used(), 0u);
}

TEST(Inline, AnswersOnTheShardBeforePutReturns) {
  bus::ModelStats stats;
  auto spec = spec_of(8);
  auto inbox = make_inline(std::make_unique<Doubler>(), spec, stats);
  Answers home;
  msg::Call calls[3];
  fill(calls[0], 2, 5), fill(calls[1], 1, kPoison), fill(calls[2], 9, 5);
  for (auto& call : calls) call.home = &home, inbox->put(&call);
  ASSERT_EQ(home.mail.size(), 3u);
  EXPECT_EQ(home.bursts, 0);
  EXPECT_EQ(text_of(home.mail[0].event), "ok");
  EXPECT_EQ(text_of(home.mail[1].event), "INVALID_ARGUMENT");
  EXPECT_EQ(text_of(home.mail[2].event), "INVALID_ARGUMENT");
  EXPECT_EQ(stats.inference_count, 2u);
  EXPECT_EQ(stats.success.count, 1u);
  EXPECT_EQ(stats.fail.count, 2u);
}

}  // namespace
}  // namespace weir::sched
