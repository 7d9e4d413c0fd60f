#include "sched/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "base/fake_env.h"
#include "shard_thread.h"
#include "support/open_home.h"

namespace weir::sched {
namespace {

using base::Code;

TEST(Workers, WorkIsDoneInItsOrderAndAllOfItBeforeTheEnd) {
  std::vector<int> done;
  {
    Workers workers(1);
    for (int i = 0; i < 100; ++i) workers.post([&, i] { done.push_back(i); });
  }
  ASSERT_EQ(done.size(), 100u);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
}

TEST(Workers, AsManyThreadsWorkAsThereMayBe) {
  std::promise<void> both;
  std::atomic<int> inside{0};
  auto future = both.get_future().share();
  Workers workers(2);
  for (int i = 0; i < 2; ++i)
    workers.post([&] {
      if (inside.fetch_add(1) == 1) both.set_value();
      future.wait();
    });
  future.wait();
  EXPECT_EQ(inside.load(), 2);
}

struct Held final : bus::Errand {
  explicit Held(std::shared_future<void> go) : go(std::move(go)) {}
  void run() override {
    go.wait();
    thread = std::this_thread::get_id();
  }
  std::shared_future<void> go;
  std::thread::id thread;
};

struct Errands : testing::Test {
  bus::ErrandCall& call(size_t bytes) {
    auto& c = calls.emplace_back();
    c.home = &box;
    c.errand = std::make_unique<Held>(gate.wait_for());
    c.bytes = bytes;
    return c;
  }
  struct Gate {
    std::promise<void> promise;
    std::shared_future<void> future = promise.get_future().share();
    std::shared_future<void> wait_for() const { return future; }
  } gate;
  std::deque<bus::ErrandCall> calls;
  static Code failure(const msg::Mail& mail) { return std::get<msg::Failed>(mail.event.what).status.code; }
  support::OpenHome box;
};

TEST_F(Errands, ComeBackFromAnotherThread) {
  auto errands = make_errands({1, 100});
  auto& c = call(10);
  errands->put(&c);
  gate.promise.set_value();
  box.until(1);
  EXPECT_TRUE(std::holds_alternative<msg::Done>(box.mail[0].event.what));
  EXPECT_NE(static_cast<Held&>(*c.errand).thread, std::this_thread::get_id());
}

TEST_F(Errands, AreRefusedWhenTooMuchTextWaits) {
  auto errands = make_errands({1, 100});
  errands->put(&call(101));
  ASSERT_EQ(box.mail.size(), 1u);
  EXPECT_EQ(failure(box.mail[0]), Code::kResourceExhausted);
  errands->put(&call(1));
  errands->put(&call(99));
  gate.promise.set_value();
  box.until(3);
}

TEST_F(Errands, ACancelledOneThatWaitsIsAnsweredAtOnceAndItsBytesAreFree) {
  auto errands = make_errands({1, 100});
  errands->put(&call(0));  // the worker's, or about to be
  errands->put(&call(100));
  auto& second = calls[1];
  second.cancelled.store(true);
  errands->poke();
  ASSERT_EQ(box.mail.size(), 1u);
  EXPECT_EQ(box.mail[0].call, &second);
  EXPECT_EQ(failure(box.mail[0]), Code::kCancelled);
  errands->put(&call(100));
  EXPECT_EQ(box.mail.size(), 1u);
  gate.promise.set_value();
  box.until(3);
}

// A shard goes on while its errand is away.
TEST(ErrandsOfAShard, OthersAreServedMeanwhile) {
  auto errands = make_errands({1, 100});
  std::promise<void> go;
  struct Sink final : msg::Sink {
    void on(msg::Call& call, msg::Event&&) override { back = shard->bus.take(call), came.set_value(); }
    ShardThread* shard;
    std::unique_ptr<bus::Errand> back;
    std::promise<void> came;
  } sink;
  bus::Served served;
  ShardThread shard(0);
  sink.shard = &shard;
  std::promise<void> sent, other;
  shard.post([&] {
    shard.bus.employ(*errands);
    EXPECT_TRUE(shard.bus.send(std::make_unique<Held>(go.get_future().share()), 5, served, sink, {}));
    sent.set_value();
  });
  sent.get_future().wait();
  shard.post([&] { other.set_value(); });
  other.get_future().wait();
  go.set_value();
  sink.came.get_future().wait();
  EXPECT_TRUE(sink.back);
}

}  // namespace
}  // namespace weir::sched
