#include "bus/offload_task.h"

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

TEST(Bus, AnErrandIsRunAtOnceWhereThereAreNoWorkersAndComesBackInATurn) {
  Bench t;
  Keeper keeper(t.bus);
  int ran = 0;
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

TEST(Bus, AnErrandIsTheWorkersUntilTheyPostAndMayBeAbandoned) {
  Bench t;
  HeldInbox workers;
  t.bus.set_worker_pool(workers);
  Keeper keeper(t.bus);
  int ran = 0;
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

TEST(Bus, ErrandsAreAdmittedLikeCallsAndARefusalOfTheWorkersCounts) {
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
  EXPECT_EQ(t.served().stats.rejected.load(), 1u);
  t.answer(*call, {msg::Failed{base::try_again(Code::kResourceExhausted, "full")}});
  t.bus.turn();
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(t.served().stats.rejected.load(), 2u);
}

}  // namespace
}  // namespace weir::bus
