// Answers that leave in the order in which the queue gave the calls out.
#include "sched/response_order.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "engines.h"
#include "event_recorder.h"
#include "sched/lane.h"

namespace weir::sched {
namespace {

struct Order {
  Order() {
    for (int i = 0; i < 6; ++i) calls.emplace_back().id = std::to_string(i);
  }
  ResponseOrder::Mails of(std::initializer_list<size_t> ids) {
    ResponseOrder::Mails mails;
    for (size_t id : ids) {
      auto& burst = mails.emplace_back(&home, std::vector<msg::Mail>{}).second;
      burst.push_back({&calls[id], {msg::Outputs{}}});
    }
    return mails;
  }
  void emit(uint64_t batch, std::initializer_list<size_t> ids) {
    auto mails = of(ids);
    order.post(batch, mails);
    for (auto& [to, burst] : mails) EXPECT_TRUE(burst.empty());
  }
  std::string heard() {
    std::string out;
    for (auto& mail : home.mail) out += mail.call->id;
    return out;
  }
  ResponseOrder order;
  Answers home;
  std::deque<msg::Call> calls;
};

TEST(ResponseOrder, HoldsWhatIsAheadOfItsTurn) {
  Order t;
  for (uint64_t batch = 0; batch < 3; ++batch) EXPECT_EQ(t.order.begin(), batch);
  t.emit(2, {4}), t.order.end(2);
  t.emit(1, {2, 3});
  EXPECT_EQ(t.heard(), "");
  t.emit(0, {0});
  EXPECT_EQ(t.heard(), "0") << "what is first need not be over to be said";
  t.emit(0, {1}), t.order.end(0);
  EXPECT_EQ(t.heard(), "0123");
  t.order.end(1);
  EXPECT_EQ(t.heard(), "01234");
  EXPECT_EQ(t.order.begin(), 3u);
  t.emit(3, {5}), t.order.end(3);
  EXPECT_EQ(t.heard(), "012345");
}

TEST(ResponseOrder, ABatchThatSaysNothingIsPassedOver) {
  Order t;
  for (uint64_t batch = 0; batch < 3; ++batch) t.order.begin();
  t.order.end(1);
  t.emit(2, {1}), t.order.end(2);
  t.order.end(0);
  EXPECT_EQ(t.heard(), "1");
}

// A Home that has another batch answered while it is told of one.
struct Nested final : msg::Home {
  void post(std::vector<msg::Mail>& burst) override {
    for (auto& mail : burst) said += mail.call->id;
    burst.clear();
    if (std::exchange(again, false)) inner();
  }
  void post_here(msg::Mail&&) override {}
  std::function<void()> inner;
  std::string said;
  bool again = true;
};

TEST(ResponseOrder, AHomeMayLeadBackHere) {
  Order t;
  Nested home;
  for (uint64_t batch = 0; batch < 2; ++batch) t.order.begin();
  auto emit = [&](uint64_t batch, size_t id) {
    ResponseOrder::Mails mails;
    mails.emplace_back(&home, std::vector<msg::Mail>{}).second.push_back({&t.calls[id], {msg::Outputs{}}});
    t.order.post(batch, mails);
    t.order.end(batch);
  };
  home.inner = [&] { emit(1, 1); };
  emit(0, 0);
  EXPECT_EQ(home.said, "01");
}

// Keeps the order in which answers come.
struct InOrder final : msg::Home {
  void post(std::vector<msg::Mail>& burst) override {
    std::lock_guard lock(mutex);
    for (auto& mail : burst) said += mail.call->id;
    burst.clear();
    changed.notify_all();
  }
  void post_here(msg::Mail&&) override {}
  std::string until(size_t calls) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return said.size() >= calls; });
    return said;
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::string said;
};

// One of two engines is held up; the other goes on, and is ahead.
std::string two_engines(bool preserve) {
  Gate slow, fast;
  InOrder home;
  bus::ModelStats stats;
  auto spec = spec_of(1);
  spec.batching.preserve_ordering = preserve;
  struct Picky final : Engine {
    Picky(Gate& one, Gate& other) : slow(one), fast(other) {}
    const msg::ModelSpec& spec() const override { return spec_; }
    base::Status step(Batch& batch) override {
      (batch.calls[0]->id == "a" ? slow : fast).wait();
      batch.outputs = {floats("y", batch.inputs[0].shape, floats_of(batch.inputs[0]))};
      return {};
    }
    Gate &slow, &fast;
    msg::ModelSpec spec_;
  };
  std::vector<std::unique_ptr<Engine>> engines;
  for (int i = 0; i < 2; ++i) engines.push_back(std::make_unique<Picky>(slow, fast));
  auto lanes = make_lanes(std::move(engines), spec, stats, base::heap());
  std::deque<msg::Call> calls;
  auto put = [&](const char* id) {
    auto& call = calls.emplace_back();
    call.id = id, call.home = &home;
    fill(call, 1);
    lanes->put(&call);
  };
  put("a"), slow.until_waiting(1);
  for (auto* id : {"b", "c", "d"}) put(id);
  fast.let(2);
  while (stats.success.count < 2) std::this_thread::yield();  // b and c have run
  if (!preserve) home.until(2);
  slow.open();
  if (preserve) home.until(3);
  fast.open();
  return home.until(4);
}

TEST(ResponseOrder, WithoutPreserveOrderingAFastEngineIsAheadOfASlowOne) {
  EXPECT_NE(two_engines(false).substr(0, 1), "a");
}

TEST(ResponseOrder, WithPreserveOrderingEnginesAnswerInTheOrderOfTheQueue) { EXPECT_EQ(two_engines(true), "abcd"); }

// Failures, batches that run again call by call, refusals: all of them come once.
TEST(ResponseOrder, EveryCallOfManyEnginesIsAnsweredOnceAndInOrder) {
  InOrder home;
  bus::ModelStats stats;
  auto spec = spec_of(4);
  spec.batching.preserve_ordering = true, spec.batching.max_queue = 0;
  std::vector<std::unique_ptr<Engine>> engines;
  for (int i = 0; i < 3; ++i) engines.push_back(std::make_unique<Doubler>());
  std::deque<msg::Call> calls;
  auto lanes = make_lanes(std::move(engines), spec, stats, base::heap());
  std::string wanted;
  for (int i = 0; i < 3000; ++i) {
    auto& call = calls.emplace_back();
    call.id = char('a' + i % 26), call.home = &home;
    wanted += call.id;
    fill(call, 1, i % 7 == 0 ? kPoison : i % 11 == 0 ? kAllergic : 1);
    lanes->put(&call);
  }
  EXPECT_EQ(home.until(calls.size()), wanted);
}

}  // namespace
}  // namespace weir::sched
