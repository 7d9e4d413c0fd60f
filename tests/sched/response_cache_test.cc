#include "sched/response_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "bus/cache_stats.h"
#include "calls.h"
#include "engines.h"
#include "sched/lane.h"

namespace weir::sched {
namespace {

// A model behind a cache: y = 2 x, with a count of its executions.
struct CachedModel {
  explicit CachedModel(uint64_t bytes = 1 << 20, base::MemoryLedger* ledger = nullptr)
      : cache(std::make_shared<ResponseCache>(bytes, ledger)), spec(spec_of(0)) {
    spec.any_tensors = true;
    served.inbox = cached(cache, make_inline(std::make_unique<Doubler>(), spec, served.stats), served.stats);
  }
  // Asks, and returns the answer.
  msg::Event ask(float value, const std::function<void(msg::Call&)>& change = {}) {
    msg::Call call;
    call.home = &answers;
    fill(call, 1, value);
    if (change) change(call);
    served.inbox->put(&call);
    EXPECT_EQ(answers.mail.size(), 1u);
    EXPECT_EQ(call.home, &answers);
    msg::Event event = std::move(answers.mail.at(0).event);
    answers.mail.clear();
    return event;
  }
  float first(const msg::Event& event) { return floats_of(std::get<msg::Outputs>(event.what).tensors.at(0))[0]; }
  uint64_t executions() const { return served.stats.execution_count.load(); }
  uint64_t hits() const { return bus::cache_stats(served)->hit.count.load(); }
  uint64_t misses() const { return bus::cache_stats(served)->miss.count.load(); }

  std::shared_ptr<ResponseCache> cache;
  msg::ModelSpec spec;
  bus::Served served;
  Answers answers;
};

TEST(ResponseCache, TheSameQuestionIsAnsweredOnceByTheModel) {
  CachedModel model;
  EXPECT_EQ(model.first(model.ask(3)), 6);
  EXPECT_EQ(model.first(model.ask(3)), 6);
  EXPECT_EQ(model.first(model.ask(4)), 8);
  EXPECT_EQ(model.executions(), 2u);
  EXPECT_EQ(model.hits(), 1u);
  EXPECT_EQ(model.misses(), 2u);
  EXPECT_EQ(model.served.stats.success.count.load(), 3u);
  EXPECT_EQ(model.served.stats.queue.count.load(), 3u);
  EXPECT_EQ(model.served.stats.inference_count.load(), 2u);
  EXPECT_EQ(model.cache->answers(), 2u);
}

TEST(ResponseCache, WhateverMayChangeTheAnswerIsAnotherQuestion) {
  CachedModel model;
  model.ask(3);
  model.ask(3, [](auto& c) { c.cache_scope = 7; });
  model.ask(3, [](auto& c) { c.adapter = 1; });
  model.ask(3, [](auto& c) { c.inputs[0].name = "z"; });
  model.ask(3, [](auto& c) { c.inputs[0].shape = {2, 1}; });
  model.ask(3, [](auto& c) { c.outputs = {"y"}; });
  model.ask(3, [](auto& c) { c.parameters = {{"temperature", 0.5}}; });
  model.ask(3, [](auto& c) { c.parameters = {{"temperature", int64_t(1)}}; });
  EXPECT_EQ(model.hits(), 0u);
  model.ask(3, [](auto& c) { c.parameters = {{"priority", int64_t(1)}, {"timeout", int64_t(9)}}, c.id = "other"; });
  EXPECT_EQ(model.hits(), 1u);
}

TEST(ResponseCache, SessionsLongInputsAndFailuresAreNotCached) {
  CachedModel model(uint64_t(1) << 30);
  for (int i = 0; i < 2; ++i) model.ask(3, [](auto& c) { c.session = {0, 5}; });
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(std::holds_alternative<msg::Failed>(model.ask(kPoison).what));
  for (int i = 0; i < 2; ++i)
    model.ask(3, [](auto& c) { fill(c, 1, 3, int64_t(ResponseCache::kLargestInputs / 4 + 1)); });
  EXPECT_EQ(model.hits(), 0u);
  EXPECT_EQ(model.misses(), 2u);  // the failures
  EXPECT_EQ(model.cache->answers(), 0u);
}

TEST(ResponseCache, TheLeastRecentlyUsedGoWhenItIsFullAndLargeAnswersAreNotKept) {
  CachedModel model(8 << 10);
  for (float f = 0; f < 100; ++f) model.ask(f), model.ask(0);
  EXPECT_LE(model.cache->bytes(), 8u << 10);
  EXPECT_EQ(model.executions(), 100u);  // 0 stayed
  const size_t before = model.cache->answers();
  model.ask(1000, [](auto& c) { fill(c, 1, 1000, 400); });
  EXPECT_EQ(model.cache->answers(), before);
}

TEST(ResponseCache, AnswersAreChargedAndGoWhenMemoryIsShort) {
  base::MemoryLedger ledger(1 << 20, 0, base::OverloadShares{50, 85, 92, 97});
  {
    CachedModel model(1 << 20, &ledger);
    model.ask(1, [](auto& c) { fill(c, 1, 1, 2000); });
    EXPECT_GE(ledger.held(), 8000u);
    EXPECT_EQ(model.cache->answers(), 1u);
    ASSERT_TRUE(ledger.take(base::MemoryKind::kInput, 900 << 10));
    ledger.update_overload();
    model.ask(2);
    EXPECT_EQ(model.cache->answers(), 0u);
    ledger.give(base::MemoryKind::kInput, 900 << 10);
    EXPECT_EQ(ledger.held(), 0u);
    ledger.update_overload();
    model.ask(3);
    EXPECT_EQ(model.cache->answers(), 1u);
  }
  EXPECT_EQ(ledger.held(), 0u);
}

TEST(ResponseCache, AVersionThatGoesTakesItsAnswersAlongAndVersionsShareNone) {
  auto cache = std::make_shared<ResponseCache>(1 << 20, nullptr);
  auto make = [&] {
    auto model = std::make_unique<CachedModel>();
    model->served.inbox =
        cached(cache, make_inline(std::make_unique<Doubler>(), model->spec, model->served.stats), model->served.stats);
    return model;
  };
  auto a = make(), b = make();
  a->ask(1), b->ask(1);
  EXPECT_EQ(a->hits() + b->hits(), 0u);
  EXPECT_EQ(cache->answers(), 2u);
  a.reset();
  EXPECT_EQ(cache->answers(), 1u);
  b->ask(1);
  EXPECT_EQ(b->hits(), 1u);
}

TEST(ResponseCache, ManyThreadsAskLanesAndEachAnswerIsRight) {
  auto cache = std::make_shared<ResponseCache>(16 << 10, nullptr);
  auto spec = spec_of(8);
  spec.batching.max_queue = 0;
  bus::Served served;
  std::vector<std::unique_ptr<Engine>> engines;
  for (int i = 0; i < 2; ++i) engines.push_back(std::make_unique<Doubler>());
  served.inbox = cached(cache, make_lanes(std::move(engines), spec, served.stats, base::heap()), served.stats);
  struct Counter final : msg::Home {
    void take(msg::Mail& mail) {
      const float asked = floats_of(mail.call->inputs[0])[0];
      const auto* outputs = std::get_if<msg::Outputs>(&mail.event.what);
      if (!outputs || floats_of(outputs->tensors.at(0))[0] != 2 * asked) ++wrong;
      ++answered;
    }
    void post(std::vector<msg::Mail>& burst) override {
      for (auto& mail : burst) take(mail);
      burst.clear();
    }
    void post_here(msg::Mail&& mail) override { take(mail); }
    std::atomic<int> answered{0}, wrong{0};
  } home;
  constexpr int kEach = 2000;
  std::deque<msg::Call> calls(4 * kEach);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        msg::Call& call = calls[size_t(t * kEach + i)];
        call.home = &home;
        fill(call, 1, float((i * 7 + t) % 50));
        served.inbox->put(&call);
      }
    });
  for (auto& thread : threads) thread.join();
  while (home.answered.load() < 4 * kEach) std::this_thread::yield();
  served.inbox.reset();
  EXPECT_EQ(home.wrong.load(), 0);
}

}  // namespace
}  // namespace weir::sched
