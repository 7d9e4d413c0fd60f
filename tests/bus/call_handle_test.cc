#include "bus/call_handle.h"

#include "bus_fixture.h"

namespace weir::bus {
namespace {

using base::Code;

struct Holder final : msg::Sink {
  explicit Holder(Bus& bus) : owned(bus) {}
  void on(msg::Call&, msg::Event&& event) override {
    ++heard;
    over = owned.ended(event);
  }
  base::Status submit(Served& served) {
    owned.fill().model = served.spec.name;
    return owned.submit(served, *this, {});
  }
  CallHandle owned;
  int heard = 0;
  bool over = false;
};

TEST(CallHandle, OneThatWasNeverSentIsGivenBack) {
  Bench t;
  const msg::Call* made = nullptr;
  {
    Holder holder(t.bus);
    made = &holder.owned.fill();
    EXPECT_EQ(&holder.owned.fill(), made) << "still the same";
  }
  auto* next = t.bus.make_call();
  EXPECT_EQ(next, made);
  t.bus.discard(next);
}

TEST(CallHandle, AfterItsLastEventThereIsNothingToLeave) {
  Bench t;
  Holder holder(t.bus);
  ASSERT_TRUE(holder.submit(t.served()).ok());
  EXPECT_TRUE(holder.owned.running());
  auto* call = t.digits().held.at(0);
  t.answer(call, {msg::Outputs{{}, {}, false}});
  t.bus.turn();
  EXPECT_FALSE(holder.over);
  t.answer(call);
  t.bus.turn();
  EXPECT_TRUE(holder.over);
  EXPECT_FALSE(holder.owned.running());
  holder.owned.leave();
  EXPECT_EQ(holder.heard, 2);
  EXPECT_EQ(t.served().stats.cancelled.load(), 0u);
}

TEST(CallHandle, WhoLeavesAbandonsItAndHearsNoMore) {
  Bench t;
  Holder holder(t.bus);
  ASSERT_TRUE(holder.submit(t.served()).ok());
  auto* call = t.digits().held.at(0);
  holder.owned.leave();
  EXPECT_TRUE(call->cancelled);
  holder.owned.leave();
  holder.owned.add_credit(1);
  t.answer(call);
  t.bus.turn();
  EXPECT_EQ(holder.heard, 0);
  EXPECT_EQ(t.bus.in_flight(), 0u);
}

TEST(CallHandle, EnoughIsNoFailure) {
  Bench t;
  Holder holder(t.bus);
  ASSERT_TRUE(holder.submit(t.served()).ok());
  auto* call = t.digits().held.at(0);
  holder.owned.enough();
  EXPECT_TRUE(call->satisfied);
  EXPECT_TRUE(call->cancelled);
  t.answer(call, {msg::Failed{base::failure(Code::kCancelled, "cancelled")}});
  t.bus.turn();
  EXPECT_EQ(t.served().stats.cancelled.load(), 0u);
}

TEST(CallHandle, OneThatIsRefusedMayBeLookedAtUntilItIsLeft) {
  Bench t;
  t.bus.close();
  Holder holder(t.bus);
  EXPECT_EQ(holder.submit(t.served()).code, Code::kUnavailable);
  EXPECT_EQ(holder.owned.fill().model, "digits");
  EXPECT_FALSE(holder.owned.running());
}

struct Nothing final : OffloadTask {
  void run() override {}
};

TEST(CallHandle, AnErrandIsOneToo) {
  Bench t;
  HeldInbox workers;
  t.bus.set_worker_pool(workers);
  Holder holder(t.bus);
  ASSERT_TRUE(holder.owned.send(std::make_unique<Nothing>(), 1, t.served(), holder, {}, 0).ok());
  EXPECT_TRUE(holder.owned.running());
  auto* task = workers.held.at(0);
  t.answer(task, {msg::Done{}});
  t.bus.turn();
  EXPECT_TRUE(holder.over);
  EXPECT_TRUE(holder.submit(t.served()).ok()) << "and then the Call";
  holder.owned.leave();
  t.answer(t.digits().held.at(0));
  t.bus.turn();
}

}  // namespace
}  // namespace weir::bus
