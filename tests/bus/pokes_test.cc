// Pokes of an Inbox in one turn.
#include "bus_fixture.h"

namespace weir::bus {
namespace {

// An Inbox looks at all of its Calls when it is poked.
TEST(Bus, CallsThatAreCancelledInOneTurnPokeTheirInboxTwiceAtMost) {
  Bench t;
  std::vector<msg::Call*> calls;
  for (int i = 0; i < 100; ++i) calls.push_back(t.sent(std::to_string(i)));
  t.bus.turn();
  const int wakes = t.wakes;
  for (auto* call : calls) t.bus.abandon(call);
  EXPECT_EQ(t.digits().pokes, 1) << "the first is not late";
  EXPECT_EQ(t.wakes, wakes + 1) << "a turn follows";
  t.bus.turn();
  EXPECT_EQ(t.digits().pokes, 2) << "after the last of them";
  t.bus.turn();
  EXPECT_EQ(t.digits().pokes, 2);
  auto* next = t.sent("next");
  t.bus.cancel(next);
  EXPECT_EQ(t.digits().pokes, 3);
  t.bus.turn();
  EXPECT_EQ(t.digits().pokes, 3);
  calls.push_back(next);
  for (auto* call : calls) t.answer(call);
  t.bus.turn();
}

// As an engine on the shard does for a Call that is cancelled: without another turn nobody would look at that.
TEST(Bus, WhatAPokeAtTheTurnsEndAnswersHasATurn) {
  Bench t;
  auto* first = t.sent("a");
  auto* second = t.sent("b");
  t.bus.cancel(first), t.bus.cancel(second);
  t.digits().on_poke = [&] {
    for (auto* call : {first, second}) call->home->post_here({call, {msg::Outputs{}}});
  };
  const int wakes = t.wakes;
  t.bus.turn();
  EXPECT_EQ(t.digits().pokes, 2);
  EXPECT_EQ(t.wakes, wakes + 1);
  t.bus.turn();
  EXPECT_TRUE(t.served().idle());
}

TEST(Bus, AnInboxThatMayBeGoneIsNotPoked) {
  Bench t;
  auto* first = t.sent("a");
  auto* second = t.sent("b");
  t.bus.cancel(first), t.bus.cancel(second);
  t.answer(first), t.answer(second);
  t.bus.turn();
  EXPECT_TRUE(t.served().idle());
  EXPECT_EQ(t.digits().pokes, 1) << "none of its Calls is left to look at";
}

// Its destructor answers what it has; the Calls come back when it is gone.
TEST(Bus, AnInboxThatItsOwnerHasLetGoOfIsNotPoked) {
  Bench t;
  auto* first = t.sent("a");
  auto* second = t.sent("b");
  t.bus.cancel(first), t.bus.cancel(second);
  t.answer(first), t.answer(second);
  const auto gone = std::move(t.all[0]->inbox);  // kept, so that a poke is counted
  t.bus.turn();
  EXPECT_TRUE(t.served().idle());
  EXPECT_EQ(static_cast<HeldInbox&>(*gone).pokes, 1);
}

}  // namespace
}  // namespace weir::bus
