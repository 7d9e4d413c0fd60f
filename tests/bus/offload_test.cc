#include "bus/offload_handle.h"

#include "bus_fixture.h"

namespace weir::bus {
namespace {

using base::Code;

struct Sum final : OffloadTask {
  explicit Sum(int& out) : out(out) {}
  ~Sum() override { out += 100; }
  void run() override { out += 1; }
  int& out;
};

struct Keeper final : msg::Sink {
  explicit Keeper(Bus& bus) : bus(bus) {}
  void on(msg::Call& call, msg::Event&& event) override {
    if (std::holds_alternative<msg::Failed>(event.what)) return failed();
    task = bus.take(call);
  }
  std::function<void()> failed;
  Bus& bus;
  std::unique_ptr<OffloadTask> task;
};

TEST(Bus, AnOffloadTaskIsRunAtOnceWhereThereAreNoWorkersAndComesBackInATurn) {
  Bench t;
  int ran = 0;
  Keeper keeper(t.bus);
  ASSERT_TRUE(t.bus.send(std::make_unique<Sum>(ran), 9, t.served(), keeper, {}, 0));
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(keeper.task);
  EXPECT_FALSE(t.served().idle()) << "the version stays";
  t.bus.turn();
  EXPECT_TRUE(keeper.task);
  EXPECT_EQ(ran, 1) << "and it is not destroyed before its Sink lets go";
  EXPECT_TRUE(t.served().idle());
  EXPECT_EQ(t.bus.in_flight(), 0u);
}

TEST(Bus, AnOffloadTaskIsTheWorkersUntilTheyPostAndMayBeAbandoned) {
  Bench t;
  HeldInbox workers;
  t.bus.set_worker_pool(workers);
  int ran = 0;
  Keeper keeper(t.bus);
  auto call = t.bus.send(std::make_unique<Sum>(ran), 9, t.served(), keeper, {}, 0);
  ASSERT_TRUE(call);
  ASSERT_EQ(workers.held.size(), 1u);
  EXPECT_EQ(static_cast<OffloadCall*>(workers.held[0])->bytes, 9u);
  EXPECT_TRUE(t.digits().held.empty()) << "no model hears of it";
  t.bus.abandon(*call);
  EXPECT_EQ(workers.pokes, 1);
  EXPECT_EQ(t.digits().pokes, 0);
  EXPECT_EQ(ran, 0) << "a worker may be at it";
  t.answer(*call, {msg::Done{}});
  t.bus.turn();
  EXPECT_FALSE(keeper.task);
  EXPECT_EQ(ran, 100);
  EXPECT_EQ(t.bus.in_flight(), 0u);
  EXPECT_EQ(t.served().stats.cancelled.load(), 1u);
}

TEST(Bus, OffloadTasksAreAdmittedLikeCallsAndARefusalOfTheWorkersCounts) {
  Bench t({1});
  HeldInbox workers;
  t.bus.set_worker_pool(workers);
  Keeper keeper(t.bus);
  int ran = 0, failures = 0;
  keeper.failed = [&] { ++failures; };
  auto call = t.bus.send(std::make_unique<Sum>(ran), 9, t.served(), keeper, {}, 0);
  ASSERT_TRUE(call);
  auto second = t.bus.send(std::make_unique<Sum>(ran), 9, t.served(), keeper, {}, 0);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kResourceExhausted);
  EXPECT_EQ(ran, 100) << "the refused one is destroyed";
  EXPECT_EQ(t.served().stats.rejected.load(), 1u);
  t.answer(*call, {msg::Failed{base::try_again(Code::kResourceExhausted, "full")}});
  t.bus.turn();
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(t.served().stats.rejected.load(), 2u);
}

struct Ender final : OffloadListener {
  explicit Ender(Bus& bus) : handle(bus, *this) {}
  base::Status send(Served& served, int& ran) { return handle.send(std::make_unique<Sum>(ran), 1, served, {}, 0); }
  void on_task(base::Status status, std::unique_ptr<OffloadTask> ended) override {
    ++heard;
    code = status.code;
    task = std::move(ended);
    EXPECT_FALSE(handle.running());
  }
  OffloadHandle handle;
  int heard = 0;
  Code code = Code::kOk;
  std::unique_ptr<OffloadTask> task;
};

TEST(OffloadHandle, TheListenerHasTheTaskBackWhenItHasRun) {
  Bench t;
  int ran = 0;
  Ender ender(t.bus);
  ASSERT_TRUE(ender.send(t.served(), ran).ok());
  EXPECT_TRUE(ender.handle.running());
  EXPECT_EQ(ender.heard, 0);
  t.bus.turn();
  EXPECT_TRUE(ender.task);
  EXPECT_EQ(ran, 1);
  ASSERT_TRUE(ender.send(t.served(), ran).ok()) << "and may send the next";
  t.bus.turn();
  EXPECT_EQ(ender.heard, 2);
}

TEST(OffloadHandle, AFailureBringsNoTask) {
  Bench t({1});
  HeldInbox workers;
  t.bus.set_worker_pool(workers);
  int ran = 0;
  Ender ender(t.bus), second(t.bus);
  ASSERT_TRUE(ender.send(t.served(), ran).ok());
  EXPECT_EQ(second.send(t.served(), ran).code, Code::kResourceExhausted);
  EXPECT_FALSE(second.handle.running());
  t.answer(workers.held.at(0), {msg::Failed{base::try_again(Code::kUnavailable, "full")}});
  t.bus.turn();
  EXPECT_EQ(ender.code, Code::kUnavailable);
  EXPECT_FALSE(ender.task);
  EXPECT_EQ(second.heard, 0);
}

TEST(OffloadHandle, AnAbandonedTaskIsNotHeard) {
  Bench t;
  HeldInbox workers;
  t.bus.set_worker_pool(workers);
  int ran = 0;
  Ender ender(t.bus);
  ASSERT_TRUE(ender.send(t.served(), ran).ok());
  auto* call = workers.held.at(0);
  ender.handle.abandon();
  EXPECT_TRUE(call->cancelled);
  t.answer(call, {msg::Done{}});
  t.bus.turn();
  EXPECT_EQ(ender.heard, 0);
  EXPECT_EQ(t.bus.in_flight(), 0u);
}

}  // namespace
}  // namespace weir::bus
