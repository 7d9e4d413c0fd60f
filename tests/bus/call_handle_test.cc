#include "bus/call_handle.h"

#include "bus_fixture.h"
#include "msg/credit.h"

namespace weir::bus {
namespace {

using base::Code;

struct Holder final : msg::Sink {
  explicit Holder(Bus& bus) : handle(bus) {}
  void on(msg::Call&, msg::Event&& event) override {
    ++heard;
    over = handle.on_event(event);
    if (then) then();
  }
  base::Status submit(Served& served) {
    handle.fill().model = served.spec.name;
    return handle.submit(served, *this, {});
  }
  CallHandle handle;
  int heard = 0;
  bool over = false;
  std::function<void()> then;
};

TEST(CallHandle, ACallThatWasNeverSentIsGivenBack) {
  Bench t;
  const msg::Call* made = nullptr;
  {
    Holder holder(t.bus);
    made = &holder.handle.fill();
    EXPECT_EQ(&holder.handle.fill(), made) << "still the same";
  }
  auto* next = t.bus.make_call();
  EXPECT_EQ(next, made);
  t.bus.discard(next);
}

TEST(CallHandle, AfterItsLastEventThereIsNothingToAbandon) {
  Bench t;
  Holder holder(t.bus);
  ASSERT_TRUE(holder.submit(t.served()).ok());
  EXPECT_TRUE(holder.handle.running());
  auto* call = t.digits().held.at(0);
  t.answer(call, {msg::Outputs{{}, {}, false}});
  t.bus.turn();
  EXPECT_FALSE(holder.over);
  t.answer(call);
  t.bus.turn();
  EXPECT_TRUE(holder.over);
  EXPECT_FALSE(holder.handle.running());
  holder.handle.abandon();
  EXPECT_EQ(holder.heard, 2);
  EXPECT_EQ(t.served().stats.cancelled.load(), 0u);
}

TEST(CallHandle, AnAbandonedCallIsCancelledAndItsSinkHearsNoMore) {
  Bench t;
  Holder holder(t.bus);
  ASSERT_TRUE(holder.submit(t.served()).ok());
  auto* call = t.digits().held.at(0);
  holder.handle.abandon();
  EXPECT_TRUE(call->cancelled);
  holder.handle.abandon();
  t.answer(call);
  t.bus.turn();
  EXPECT_EQ(holder.heard, 0);
  EXPECT_EQ(t.bus.in_flight(), 0u);
}

TEST(CallHandle, AFinishedCallIsNoFailure) {
  Bench t;
  Holder holder(t.bus);
  ASSERT_TRUE(holder.submit(t.served()).ok());
  auto* call = t.digits().held.at(0);
  holder.handle.finish();
  EXPECT_TRUE(call->satisfied);
  EXPECT_TRUE(call->cancelled);
  t.answer(call, {msg::Failed{base::failure(Code::kCancelled, "cancelled")}});
  t.bus.turn();
  EXPECT_EQ(t.served().stats.cancelled.load(), 0u);
}

TEST(CallHandle, ARefusedCallCanBeReadUntilItIsAbandoned) {
  Bench t;
  t.bus.close();
  Holder holder(t.bus);
  EXPECT_EQ(holder.submit(t.served()).code, Code::kUnavailable);
  EXPECT_EQ(holder.handle.fill().model, "digits");
  EXPECT_FALSE(holder.handle.running());
}

TEST(CallHandle, ACancelledCallIsHeardUntilItsLastEvent) {
  Bench t;
  Holder holder(t.bus);
  holder.handle.cancel();
  ASSERT_TRUE(holder.submit(t.served()).ok());
  auto* call = t.digits().held.at(0);
  holder.handle.cancel();
  EXPECT_TRUE(call->cancelled);
  EXPECT_TRUE(holder.handle.running());
  t.answer(call, {msg::Failed{base::failure(Code::kCancelled, "cancelled")}});
  t.bus.turn();
  EXPECT_TRUE(holder.over);
  EXPECT_EQ(t.served().stats.cancelled.load(), 1u);
}

TEST(CallHandle, CreditIsRepaidInQuartersOfTheWindow) {
  Bench t;
  Holder holder(t.bus);
  holder.handle.grant(8);
  ASSERT_TRUE(holder.submit(t.served()).ok());
  auto* call = t.digits().held.at(0);
  EXPECT_EQ(call->credit, 8);
  call->credit = 0;
  holder.handle.owe();
  holder.handle.repay();
  EXPECT_EQ(call->credit, 0) << "one of eight";
  holder.handle.owe();
  holder.handle.repay();
  EXPECT_EQ(call->credit, 2);
  EXPECT_EQ(t.digits().pokes, 1) << "the engine had none left";
  holder.handle.repay();
  EXPECT_EQ(call->credit, 2) << "nothing is owed";
  for (int i = 0; i < 6; ++i) holder.handle.owe();
  EXPECT_EQ(call->credit, 2) << "the peer does not read";
  holder.handle.repay();
  EXPECT_EQ(call->credit, 8);
  holder.handle.abandon();
  holder.handle.owe();
  holder.handle.owe();
  holder.handle.repay();
  EXPECT_EQ(call->credit, 8) << "and nothing when it is over";
  t.answer(call);
  t.bus.turn();
}

TEST(CallHandle, AQuarterOfTheWindowIsRoundedDown) {
  Bench t;
  Holder holder(t.bus);
  holder.handle.grant(23);
  ASSERT_TRUE(holder.submit(t.served()).ok());
  auto* call = t.digits().held.at(0);
  for (int i = 0; i < 4; ++i) holder.handle.owe(), holder.handle.repay();
  EXPECT_EQ(call->credit, 23);
  holder.handle.owe(), holder.handle.repay();
  EXPECT_EQ(call->credit, 28);
  holder.handle.finish();
  t.answer(call);
  t.bus.turn();
}

TEST(CallHandle, ALargeAnswerIsRepaidWithWhatItHasCost) {
  Bench t;
  Holder holder(t.bus);
  holder.handle.grant(8);
  ASSERT_TRUE(holder.submit(t.served()).ok());
  auto* call = t.digits().held.at(0);
  auto answer = [&](size_t bytes) {
    msg::Event event{msg::Outputs{.final = false}};
    std::get<msg::Outputs>(event.what).tensors.push_back({"y", msg::DType::kUint8, {int64_t(bytes)}});
    std::get<msg::Outputs>(event.what).tensors.back().data = base::Bytes::copy_of(std::string(bytes, 'x'));
    call->credit -= msg::credit_of(event);
    t.answer(call, std::move(event));
  };
  answer(10 * msg::kCreditBytes);
  answer(0);
  t.bus.turn();
  EXPECT_EQ(call->credit, 8 - 11 - 1);
  holder.handle.repay();
  EXPECT_EQ(call->credit, -4) << "neither has been passed on";
  holder.handle.owe(), holder.handle.repay();
  EXPECT_EQ(call->credit, 7);
  EXPECT_EQ(t.digits().pokes, 1);
  holder.handle.owe(), holder.handle.owe(), holder.handle.repay();
  EXPECT_EQ(call->credit, 9) << "what has not come counts as one";
  holder.handle.finish();
  t.answer(call);
  t.bus.turn();
}

TEST(CallHandle, AWindowOfOneIsRepaidEachTime) {
  Bench t;
  Holder holder(t.bus);
  holder.handle.grant(1);
  ASSERT_TRUE(holder.submit(t.served()).ok());
  auto* call = t.digits().held.at(0);
  holder.handle.owe(), holder.handle.repay();
  EXPECT_EQ(call->credit, 2);
  holder.handle.finish();
  t.answer(call);
  t.bus.turn();
}

TEST(CallHandle, KeepsWhatTheEventsSayOfTheCall) {
  Bench t;
  Holder holder(t.bus);
  ASSERT_TRUE(holder.submit(t.served()).ok());
  auto* call = t.digits().held.at(0);
  t.answer(call, {msg::Token{.prefill = true}});
  t.answer(call, {msg::Token{}});
  t.answer(call, {msg::Token{.moved = true}});
  t.bus.turn();
  EXPECT_EQ(call->progress.generated_tokens, 2u);
  EXPECT_EQ(call->progress.moves, 1u);
  msg::Progress seen;
  holder.then = [&] { seen = call->progress; };
  t.answer(call, {msg::Done{7, 3, 5, msg::Finish::kStopId}});
  t.bus.turn();
  EXPECT_EQ(seen.prompt_tokens, 7u);
  EXPECT_EQ(seen.cached_tokens, 3u);
  EXPECT_EQ(seen.generated_tokens, 5u);
  EXPECT_EQ(seen.finish, msg::Finish::kStopId);
  EXPECT_EQ(seen.code, Code::kOk);
  ASSERT_TRUE(holder.submit(t.served()).ok());
  t.answer(call, {msg::Failed{base::failure(Code::kUnavailable, "gone")}});
  t.bus.turn();
  EXPECT_EQ(seen.code, Code::kUnavailable);
  EXPECT_EQ(seen.generated_tokens, 0u) << "of this Call";
}

TEST(CallHandle, AModelThatGaveNoAnswerIsAnInternalError) { EXPECT_EQ(no_answer().code, Code::kInternal); }

TEST(CallHandle, TheNextCallOwesNothing) {
  Bench t;
  Holder holder(t.bus);
  holder.handle.grant(4);
  ASSERT_TRUE(holder.submit(t.served()).ok());
  t.answer(t.digits().held.at(0));
  t.bus.turn();
  holder.handle.owe();
  ASSERT_TRUE(holder.submit(t.served()).ok());
  auto* call = t.digits().held.at(0);
  const int32_t credit = call->credit;
  EXPECT_GT(credit, 1 << 20) << "no window";
  for (int i = 0; i < 4; ++i) holder.handle.owe();
  holder.handle.repay();
  EXPECT_EQ(call->credit, credit);
  holder.handle.abandon();
  t.answer(call);
  t.bus.turn();
}

}  // namespace
}  // namespace weir::bus
