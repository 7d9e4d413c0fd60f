// How many tokens of prompts a step has time for, and whose they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "generation/prefill_shares.h"
#include "generation/step_budget.h"
#include "scheduler_harness.h"

namespace weir::generation {
namespace {

using base::Duration;

// A machine whose steps take as long as its memory or its arithmetic needs, whichever is longer.
struct Machine {
  Duration weights = 20ms, token = 1ms;
  Duration context = 0ms;  // per token and 1024 positions that it looks at
  Duration time(const StepLoad& load) const {
    return std::max(weights, (load.decodes + load.prefill) * token) + load.prefill * context * load.context / 1024;
  }
};

// A step of these decodes and as many tokens of prompts as the budget has for it.
StepLoad ask(StepBudget& budget, uint32_t decodes, uint32_t context = 0) {
  StepLoad load{decodes, 0, context};
  load.prefill = budget.prefill_tokens(load);
  return load;
}

// Runs steps of prompts until the budget has settled; the load of the last one.
StepLoad settle(StepBudget& budget, const Machine& machine, uint32_t decodes, uint32_t context = 0) {
  StepLoad load;
  for (int i = 0; i < 40; ++i) {
    load = ask(budget, decodes, context);
    budget.record(load, machine.time(load));
  }
  return load;
}

TEST(StepBudget, WithoutATargetAStepHasAllThatItMayHave) {
  StepBudget budget(0ms, 512);
  EXPECT_EQ(ask(budget, 0).prefill, 512u);
  EXPECT_EQ(ask(budget, 12, 9000).prefill, 500u);
}

TEST(StepBudget, BesideAFastModelsDecodesAStepHasAQuarterOfTheTarget) {
  for (auto token : {Duration(25us), Duration(250us), Duration(1ms)}) {
    Machine machine{1ms, token};
    StepBudget budget(40ms, 512);
    auto load = settle(budget, machine, 2);
    EXPECT_GT(machine.time(load), 8500us) << load.prefill;
    EXPECT_LE(machine.time(load), 10500us) << load.prefill;
  }
}

TEST(StepBudget, NoPromptMakesRunningSequencesThreeTimesSlower) {
  for (auto weights : {4ms, 9ms, 16ms, 26ms, 100ms}) {
    Machine machine{weights, 1ms};
    StepBudget budget(40ms, 512);
    auto took = machine.time(settle(budget, machine, 4));
    auto wanted = std::max<Duration>(2 * machine.weights, 10ms);  // a machine's noise does not make it three times
    EXPECT_LE(took, wanted);
    EXPECT_GT(took, wanted - 5ms) << "the prompt gets on";
  }
}

TEST(StepBudget, PromptsAloneHaveFiveTimesAsLong) {
  StepBudget budget(40ms, 512);
  EXPECT_EQ(settle(budget, {1ms, 1ms}, 0).prefill, 200u);
  EXPECT_EQ(settle(budget, {1ms, 10us}, 0).prefill, 512u) << "no more than a step may have";
}

TEST(StepBudget, ASlowModelsPromptsGetOnBesideItsDecodes) {
  Machine slow{100ms, 1ms};
  StepBudget budget(40ms, 512);
  auto load = settle(budget, slow, 4);
  EXPECT_GT(load.prefill, 190u) << "twice a step of decodes";
  EXPECT_LE(slow.time(load), 2 * slow.weights);
}

TEST(StepBudget, AStepWithoutPromptsIsMeasuredFirstAndNowAndThen) {
  Machine machine;
  StepBudget budget(40ms, 512);
  EXPECT_EQ(ask(budget, 4).prefill, 0u);
  int without = 0;
  for (int i = 0; i < 1100; ++i) {
    StepLoad load = ask(budget, 4);
    without += load.prefill == 0;
    budget.record(load, machine.time(load));
  }
  EXPECT_EQ(without, 3);
}

TEST(StepBudget, AChunkGrowsByTwoAtMost) {
  StepBudget budget(40ms, 4096);
  Machine machine{1us, 1us};
  for (uint32_t last = 0, i = 0; i < 10; ++i) {
    StepLoad load = ask(budget, 0);
    EXPECT_LE(load.prefill, std::max(16u, 2 * last));
    last = load.prefill;
    budget.record(load, machine.time(load));
  }
}

TEST(StepBudget, OneSlowStepChangesNothing) {
  Machine machine;
  StepBudget budget(40ms, 512);
  auto usual = settle(budget, machine, 4);
  budget.record(usual, 4s);
  EXPECT_EQ(ask(budget, 4).prefill, usual.prefill);
}

TEST(StepBudget, TheEndOfAPromptSaysNothingOfLargerChunks) {
  Machine machine;
  StepBudget budget(40ms, 512);
  auto usual = settle(budget, machine, 4);
  for (int i = 0; i < 5; ++i) {
    StepLoad load = ask(budget, 4);
    EXPECT_EQ(load.prefill, usual.prefill);
    load.prefill = 1;
    budget.record(load, machine.time(load));
  }
}

TEST(StepBudget, LongContextsHaveSpeedsOfTheirOwn) {
  Machine machine{1ms, 1ms, 1ms};
  StepBudget budget(160ms, 512);
  auto brief = settle(budget, machine, 1);
  auto deep = settle(budget, machine, 1, 8192);
  EXPECT_LT(deep.prefill, brief.prefill / 4);
  EXPECT_LE(machine.time(deep), 42ms);
  EXPECT_EQ(ask(budget, 1).prefill, brief.prefill);
  EXPECT_EQ(ask(budget, 1, 30'000).prefill, deep.prefill) << "the nearest that is known";
  StepBudget other(160ms, 512);
  auto first = settle(other, machine, 1, 8192);
  EXPECT_EQ(ask(other, 1).prefill, first.prefill) << "a longer one where no shorter one is";
}

// --- whose they are --------------------------------------------------------------------------------------------------

class Shares : public testing::Test {
 protected:
  PrefillShares::Prompt prompt(uint64_t tenant, uint64_t left, uint32_t level = 0) {
    auto& call = calls_.emplace_back();
    call.generation = std::make_unique<msg::Generation>();
    call.tenant = tenant;
    sequences_.push_back(std::make_unique<Sequence>(&call, level, sequences_.size()));
    return {sequences_.back().get(), left};
  }
  // Returns the tokens that each of them is given, in the order of their coming.
  std::vector<uint32_t> share(std::vector<PrefillShares::Prompt> prompts, uint32_t budget) {
    shares_.share(prompts, budget);
    std::sort(prompts.begin(), prompts.end(),
              [](const auto& a, const auto& b) { return a.sequence->arrival < b.sequence->arrival; });
    std::vector<uint32_t> out;
    for (auto& p : prompts) out.push_back(p.given);
    return out;
  }
  PrefillShares shares_;

 private:
  std::deque<msg::Call> calls_;
  std::deque<std::unique_ptr<Sequence>> sequences_;
};
using Given = std::vector<uint32_t>;

TEST_F(Shares, OneHasAll) {
  auto only = prompt(1, 4000);
  EXPECT_EQ(share({only}, 100), Given{100});
  EXPECT_EQ(share({prompt(1, 7)}, 100), Given{7});
}

TEST_F(Shares, TheShortestHasWhatTheOldestLeaves) {
  EXPECT_EQ(share({prompt(1, 4000), prompt(1, 300), prompt(1, 16)}, 40), (Given{10, 14, 16}));
  EXPECT_EQ(share({prompt(1, 4000), prompt(1, 300)}, 3), (Given{1, 2})) << "the oldest has one at least";
}

TEST_F(Shares, TenantsTakeTurns) {
  auto one = prompt(1, 4000), other = prompt(2, 4000), third = prompt(3, 4000);
  Given all(3);
  for (int i = 0; i < 30; ++i) {
    auto given = share({one, other, third}, 40);
    for (size_t k = 0; k < 3; ++k) all[k] += given[k];
  }
  EXPECT_EQ(all[0] + all[1] + all[2], 1200u);
  EXPECT_NEAR(all[0], 300 + 300, 32) << "its turns and the oldest one's quarter";
  EXPECT_NEAR(all[1], 300, 32);
  EXPECT_NEAR(all[2], 300, 32);
}

TEST_F(Shares, ManyPromptsOfATenantAreOneTurn) {
  std::vector<PrefillShares::Prompt> prompts{prompt(1, 5000)};
  for (int i = 0; i < 50; ++i) prompts.push_back(prompt(1, 100));
  prompts.push_back(prompt(2, 100));
  uint32_t second = 0;
  for (int i = 0; i < 4; ++i) {
    auto given = share(prompts, 64);
    second += given.back();
    prompts.back().left -= given.back();
  }
  EXPECT_GE(second, 4 * 48 / 2 - 16u);
}

TEST_F(Shares, WhoComesIsServedAtOnceAndDoesNotMakeUpForItsAbsence) {
  auto one = prompt(1, 100'000), other = prompt(2, 100'000);
  for (int i = 0; i < 100; ++i) share({one, other}, 16);
  auto brief = prompt(3, 12);
  EXPECT_EQ(share({one, other, brief}, 16)[2], 12u);
  for (int i = 0; i < 100; ++i) share({one, other}, 16);
  auto late = prompt(3, 100'000);
  uint32_t sum = 0;
  for (int i = 0; i < 30; ++i) sum += share({one, other, late}, 16)[2];
  EXPECT_LE(sum, 30 * 12 / 3 + 32u);
}

TEST_F(Shares, AMoreUrgentLevelComesFirst) {
  EXPECT_EQ(share({prompt(1, 4000, 1), prompt(2, 100, 0), prompt(3, 16, 2)}, 120), (Given{20, 100, 0}));
}

// --- in the scheduler ------------------------------------------------------------------------------------------------

// Steps that take as long as a machine needs for them.
class Prefill : public testing::Test {
 protected:
  explicit Prefill() { build(40ms); }
  void build(Duration target, uint32_t step_tokens = 512) {
    TokenPolicy policy;
    policy.step_time = target, policy.step_tokens = step_tokens;
    harness_ = std::make_unique<SchedulerHarness>(policy, 4096, 8192);
    harness_->ticks = [this](const TokenStep& step) {
      StepLoad load;
      for (auto& row : step.rows)
        if (row.count == 1)
          ++load.decodes;
        else
          load.prefill += row.count, load.context = std::max(load.context, row.length);
      prefilled_ += load.prefill;
      auto took = machine_.time(load);
      if (noise_) took += took * int64_t((*noise_)() % 30) / 100;
      longest_ = std::max(longest_, took);
      return took;
    };
  }
  msg::Call& send(uint32_t prompt, uint32_t tokens, uint64_t tenant = 1) {
    auto& call = harness_->call(numbers(prompt, uint32_t(++sent_)), tokens);
    call.tenant = tenant;
    harness_->send(call);
    return call;
  }
  void streams(size_t n) {
    for (size_t i = 0; i < n; ++i) send(5, 100'000, i);
    for (int i = 0; i < 20; ++i) harness_->step();
    longest_ = {};
  }
  // Steps until it has been answered, with a first token.
  size_t steps_until_answer(msg::Call& call, size_t most) {
    for (size_t steps = 1; steps <= most; ++steps) {
      harness_->step();
      if (!harness_->said[&call].empty()) return steps;
    }
    return most + 1;
  }

  Machine machine_{20ms, 1ms, 200us};
  std::optional<std::mt19937_64> noise_;
  std::unique_ptr<SchedulerHarness> harness_;
  Duration longest_{};
  uint64_t prefilled_ = 0;
  size_t sent_ = 0;
};

TEST_F(Prefill, StreamsWaitThreeTimesAsLongAtMostWhileALongPromptIsRead) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    noise_.emplace(seed);
    build(40ms);
    streams(4);
    prefilled_ = 0;
    auto begin = harness_->now;
    auto& reader = send(4000, 1, 9);
    ASSERT_LT(steps_until_answer(reader, 1000), 1000u);
    EXPECT_LE(longest_, 3 * machine_.weights * 140 / 100) << "seed " << seed;
    auto in_chunks = harness_->now - begin;
    build(0ms);
    streams(4);
    begin = harness_->now;
    auto& whole = send(4000, 1, 9);
    ASSERT_LT(steps_until_answer(whole, 1000), 1000u);
    EXPECT_LE(in_chunks * 85 / 100, harness_->now - begin) << "seed " << seed;
    EXPECT_EQ(harness_->said[&whole], harness_->expected(whole));
  }
}

TEST_F(Prefill, AShortPromptBehindALongOneAnswersInFiveSteps) {
  for (size_t running : {0, 4, 30})
    for (uint64_t tenant : {1, 2}) {
      build(40ms);
      streams(running);
      send(4000, 4, 1);
      for (int i = 0; i < 10; ++i) harness_->step();
      auto& brief = send(16, 4, tenant);
      EXPECT_LE(steps_until_answer(brief, 100), 5u) << running << " streams, tenant " << tenant;
    }
}

TEST_F(Prefill, ABacklogOfLongPromptsDoesNotStopAdmission) {
  std::vector<msg::Call*> readers;
  for (uint32_t i = 0; i < 10; ++i) readers.push_back(&send(4000, 2, 1));
  harness_->step();
  auto& brief = send(16, 2, 1);
  EXPECT_LE(steps_until_answer(brief, 100), 5u);
  harness_->run();
  for (auto* call : readers) EXPECT_EQ(harness_->said[call], harness_->expected(*call));
}

TEST_F(Prefill, TheOldestPromptGetsOnThoughShorterOnesKeepComing) {
  auto& reader = send(2000, 2, 1);
  size_t steps = 0;
  for (; harness_->said[&reader].empty() && steps < 2000; ++steps) {
    for (int i = 0; i < 8; ++i) send(100, 1, 1);
    harness_->step();
  }
  EXPECT_LT(steps, 2000u);
}

TEST_F(Prefill, ACancelWhileAPromptIsReadFreesItsSlotWithTheNextStep) {
  streams(2);
  auto& reader = send(4000, 4);
  for (int i = 0; i < 10; ++i) harness_->step();
  auto held = harness_->used();
  ASSERT_EQ(harness_->scheduler->active(), 3u);
  reader.cancelled = true;
  harness_->step();
  EXPECT_EQ(harness_->scheduler->active(), 2u);
  EXPECT_LT(harness_->used(), held / 2);
  EXPECT_TRUE(harness_->last[&reader]);
  EXPECT_LE(longest_, 3 * machine_.weights);
}

TEST_F(Prefill, WhatOthersHaveReadMeanwhileIsNotReadAgain) {
  auto prompt = numbers(2000);
  auto send_same = [&] {
    auto& call = harness_->call(prompt, 2);
    harness_->send(call);
    return &call;
  };
  std::vector<msg::Call*> calls;
  for (int i = 0; i < 6; ++i) calls.push_back(send_same());
  harness_->run();
  EXPECT_LT(harness_->engine.fed, 2 * 2000u) << "all of them were let in at once";
  for (auto* call : calls) {
    EXPECT_EQ(harness_->said[call], harness_->expected(*call));
    EXPECT_EQ(harness_->dones[call].prompt_tokens, 2000u);
  }
  EXPECT_GE(harness_->dones[calls.back()].cached_tokens, 1900u);
  EXPECT_EQ(harness_->used(), 0u);
}

}  // namespace
}  // namespace weir::generation
