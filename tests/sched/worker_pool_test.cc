#include "sched/worker_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "base/extra_work.h"
#include "msg/tenant.h"
#include "shard_thread.h"
#include "support/open_home.h"

namespace weir::sched {
namespace {

using base::Code;

TEST(WaitingBytes, WhoSpeaksForManyMayHaveAllOfThem) {
  WaitingBytes bytes(400);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(bytes.add(msg::kManyClients | 1, 100));
  EXPECT_FALSE(bytes.add(msg::kManyClients | 1, 1));
}

TEST(WaitingBytes, ATenantHasAQuarterOrOnePieceOfAnySize) {
  WaitingBytes bytes(400);
  EXPECT_TRUE(bytes.add(1, 60));
  EXPECT_TRUE(bytes.add(1, 40));
  EXPECT_FALSE(bytes.add(1, 1)) << "101";
  EXPECT_TRUE(bytes.add(2, 300)) << "its only one";
  EXPECT_FALSE(bytes.add(3, 1)) << "401 in all";
  EXPECT_FALSE(bytes.add(2, 1));
  bytes.remove(1, 60);
  EXPECT_TRUE(bytes.add(3, 60));
  bytes.remove(2, 300);
  bytes.remove(1, 40);
  bytes.remove(3, 60);
  EXPECT_TRUE(bytes.add(4, 400));
}

struct Held final : bus::OffloadTask {
  explicit Held(std::shared_future<void> go) : go(std::move(go)) {}
  void run() override {
    go.wait();
    thread = std::this_thread::get_id();
  }
  std::shared_future<void> go;
  std::thread::id thread;
};

struct Offload : testing::Test {
  bus::OffloadCall& call(size_t bytes) {
    auto& c = calls.emplace_back();
    c.home = &box;
    c.task = std::make_unique<Held>(gate.wait_for());
    c.bytes = bytes;
    return c;
  }
  struct Gate {
    std::promise<void> promise;
    std::shared_future<void> future = promise.get_future().share();
    std::shared_future<void> wait_for() const { return future; }
  } gate;
  std::deque<bus::OffloadCall> calls;
  static Code failure(const msg::Mail& mail) { return std::get<msg::Failed>(mail.event.what).status.code; }
  support::OpenHome box;
};

TEST_F(Offload, ComeBackFromAnotherThread) {
  auto offload = make_worker_pool({1, 100});
  auto& c = call(10);
  offload->put(&c);
  gate.promise.set_value();
  box.until(1);
  EXPECT_TRUE(std::holds_alternative<msg::Done>(box.mail[0].event.what));
  EXPECT_NE(static_cast<Held&>(*c.task).thread, std::this_thread::get_id());
}

TEST_F(Offload, AreRefusedWhenTooMuchTextWaits) {
  auto offload = make_worker_pool({1, 100});
  offload->put(&call(101));
  ASSERT_EQ(box.mail.size(), 1u);
  EXPECT_EQ(failure(box.mail[0]), Code::kResourceExhausted);
  offload->put(&call(1));
  auto& other = call(99);
  other.tenant = 2;
  offload->put(&other);
  EXPECT_EQ(box.mail.size(), 1u);
  gate.promise.set_value();
  box.until(3);
}

TEST_F(Offload, WhatIsForAnAdmittedRequestIsTakenHoweverMuchWaits) {
  auto offload = make_worker_pool({1, 100});
  offload->put(&call(0));  // the worker's, or about to be
  offload->put(&call(100));
  auto& answer = call(1000);
  answer.granted = true;
  offload->put(&answer);
  EXPECT_TRUE(box.mail.empty());
  offload->put(&call(1));
  ASSERT_EQ(box.mail.size(), 1u) << "the limit is as it was";
  gate.promise.set_value();
  box.until(4);
}

TEST_F(Offload, ACancelledOneThatWaitsIsAnsweredAtOnceAndItsBytesAreFree) {
  auto offload = make_worker_pool({1, 100});
  offload->put(&call(0));  // the worker's, or about to be
  offload->put(&call(100));
  auto& second = calls[1];
  second.cancelled.store(true);
  offload->poke();
  ASSERT_EQ(box.mail.size(), 1u);
  EXPECT_EQ(box.mail[0].call, &second);
  EXPECT_EQ(failure(box.mail[0]), Code::kCancelled);
  offload->put(&call(100));
  EXPECT_EQ(box.mail.size(), 1u);
  gate.promise.set_value();
  box.until(3);
}

TEST_F(Offload, OneTenantsManyLeaveRoomForOthers) {
  auto offload = make_worker_pool({1, 400});
  offload->put(&call(0));  // the worker's, or about to be
  for (int i = 0; i < 3; ++i) offload->put(&(call(50)));
  ASSERT_EQ(box.mail.size(), 1u) << "100 bytes are its share";
  EXPECT_EQ(failure(box.mail[0]), Code::kResourceExhausted);
  auto& other = call(300);
  other.tenant = 2;
  offload->put(&other);
  EXPECT_EQ(box.mail.size(), 1u);
  gate.promise.set_value();
  box.until(5);
}

// Compiles a form of so much work, once the gate is open.
struct Form final : bus::OffloadTask, base::ExtraWork {
  Form(std::shared_future<void> g, std::string& o, char n, uint64_t w) : go(std::move(g)), order(o), name(n), work(w) {}
  void run() override {
    go.wait();
    order += name;
  }
  uint64_t extra_work() const override { return work; }
  const std::shared_future<void> go;
  std::string& order;
  const char name;
  const uint64_t work;
};

TEST_F(Offload, TenantsShareTheCompilerByTheWorkAndNotByTheBytesAlone) {
  std::string order;
  auto offload = make_worker_pool({1, 1 << 20});
  auto put = [&](uint64_t tenant, char name, size_t bytes, uint64_t work) {
    auto& c = call(bytes);
    c.tenant = tenant;
    c.task = std::make_unique<Form>(gate.wait_for(), order, name, work);
    offload->put(&c);
  };
  put(1, '-', 0, 1);  // the compiler's, or about to be
  for (int i = 0; i < 24; ++i) put(2, 'f', 200, base::kCompileWork);
  for (int i = 0; i < 3; ++i) put(3, 's', 9000, 1);
  gate.promise.set_value();
  box.until(28);
  EXPECT_EQ(order, "-fsss" + std::string(23, 'f')) << "its forms hold up whoever compiles them";
}

TEST_F(Offload, NoTextWaitsForAForm) {
  std::string order;
  auto offload = make_worker_pool({1, 1 << 20});
  for (int i = 0; i < 4; ++i) {
    auto& form = call(1);
    form.task = std::make_unique<Form>(gate.wait_for(), order, 'f', base::kCompileWork);
    offload->put(&form);
  }
  auto& text = call(1);
  text.tenant = 2;
  std::promise<void> open;
  open.set_value();
  text.task = std::make_unique<Held>(open.get_future().share());
  offload->put(&text);
  box.until(1);
  EXPECT_EQ(box.mail[0].call, &text);
  gate.promise.set_value();
  box.until(5);
}

TEST_F(Offload, NoShortTextWaitsForALongOne) {
  struct Short final : bus::OffloadTask {
    void run() override { done.set_value(); }
    std::promise<void> done;
  };
  auto offload = make_worker_pool({1, 1 << 20});
  for (int i = 0; i < 3; ++i) offload->put(&call(kQuickWork + 1));
  auto& text = call(kQuickWork);
  text.tenant = 2;
  auto task = std::make_unique<Short>();
  auto done = task->done.get_future();
  text.task = std::move(task);
  offload->put(&text);
  EXPECT_EQ(done.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  gate.promise.set_value();
  box.until(4);
}

TEST_F(Offload, AsManyFormsAreCompiledAtOnceAsTextsAreRead) {
  struct Compiled final : bus::OffloadTask, base::ExtraWork {
    void run() override { done.set_value(); }
    uint64_t extra_work() const override { return base::kCompileWork; }
    std::promise<void> done;
  };
  std::string order;
  auto offload = make_worker_pool({2, 1 << 20});
  auto& slow = call(1);
  slow.task = std::make_unique<Form>(gate.wait_for(), order, 's', base::kCompileWork);
  offload->put(&slow);
  auto& other = call(1);
  other.tenant = 2;
  auto form = std::make_unique<Compiled>();
  auto done = form->done.get_future();
  other.task = std::move(form);
  offload->put(&other);
  EXPECT_EQ(done.wait_for(std::chrono::seconds(5)), std::future_status::ready) << "it waits for another tenant's form";
  gate.promise.set_value();
  box.until(2);
}

TEST_F(Offload, OneThatRunsSeesThatItsClientHasLeft) {
  struct Endless final : bus::OffloadTask {
    std::promise<void> begun;
    void run() override {
      begun.set_value();
      while (!cancelled()->load()) std::this_thread::yield();
    }
  };
  auto offload = make_worker_pool({1, 100});
  auto& c = call(1);
  auto endless = std::make_unique<Endless>();
  auto begun = endless->begun.get_future();
  c.task = std::move(endless);
  offload->put(&c);
  begun.wait();
  c.cancelled.store(true);
  offload->poke();
  box.until(1);
  EXPECT_EQ(box.mail[0].call, &c);
}

// A shard goes on while its task is away.
TEST(WorkerPool, OthersAreServedMeanwhile) {
  auto offload = make_worker_pool({1, 100});
  std::promise<void> go;
  struct Sink final : msg::Sink {
    void on(msg::Call& call, msg::Event&&) override { back = shard->bus.take(call), came.set_value(); }
    ShardThread* shard;
    std::unique_ptr<bus::OffloadTask> back;
    std::promise<void> came;
  } sink;
  bus::Served served;
  ShardThread shard(0);
  sink.shard = &shard;
  std::promise<void> sent, other;
  shard.post([&] {
    shard.bus.set_worker_pool(*offload);
    EXPECT_TRUE(shard.bus.send(std::make_unique<Held>(go.get_future().share()), 5, served, sink, {}, 0));
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
