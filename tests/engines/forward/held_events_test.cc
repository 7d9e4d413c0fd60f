// Events that wait for a slow client are in the one account of all memory.
#include "engines/forward/held_events.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/overload.h"

namespace weir::forward {
namespace {

using base::MemoryKind;

msg::Event token(uint32_t position, size_t readouts = 0) {
  msg::Token out{.id = 7, .position = position};
  if (readouts > 0) {
    auto details = std::make_shared<msg::TokenDetails>();
    details->readout.resize(readouts);
    out.details = std::move(details);
  }
  return {std::move(out)};
}

TEST(ForwardHeldEvents, TokensAndTheirReadoutsAreChargedUntilTheClientHasThem) {
  base::MemoryLedger ledger(1 << 20);
  HeldEvents held(&ledger);
  for (uint32_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(held.take_room(token(i, 256)).ok());
    held.push(token(i, 256));
  }
  EXPECT_GE(ledger.held(MemoryKind::kAnswers), 100 * 256 * sizeof(float));
  EXPECT_EQ(held.charged(), ledger.held(MemoryKind::kAnswers));
  for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(i, std::get<msg::Token>(held.pop().what).position);
  EXPECT_TRUE(held.empty());
  EXPECT_EQ(0u, ledger.held(MemoryKind::kAnswers));
}

TEST(ForwardHeldEvents, TokensWithoutAnythingBesideThemAreChargedToo) {
  base::MemoryLedger ledger(64 << 20);
  HeldEvents held(&ledger);
  for (uint32_t i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(held.take_room(token(i)).ok());
    held.push(token(i));
  }
  EXPECT_GE(ledger.held(MemoryKind::kAnswers) + HeldEvents::kStep, 10'000 * sizeof(msg::Event));
}

TEST(ForwardHeldEvents, OneForWhichThereIsNoRoomIsRefusedAndTheOthersStay) {
  base::MemoryLedger ledger(64 << 10);
  HeldEvents held(&ledger);
  uint32_t taken = 0;
  while (taken < 1000 && held.take_room(token(taken, 1024)).ok()) held.push(token(taken++, 1024));
  EXPECT_GT(taken, 8u);
  EXPECT_LT(taken, 17u);
  const auto refused = held.take_room(token(taken, 1024));
  EXPECT_EQ(base::Code::kResourceExhausted, refused.code);
  EXPECT_TRUE(base::worth_trying_again(refused));
  EXPECT_EQ(503, base::http_status(refused)) << "the lack is the server's";
  for (uint32_t i = 0; i < taken; ++i) EXPECT_EQ(i, std::get<msg::Token>(held.pop().what).position);
  EXPECT_EQ(0u, ledger.held(MemoryKind::kAnswers));
}

TEST(ForwardHeldEvents, WhatIsLeftWhenTheCallEndsIsGivenBack) {
  base::MemoryLedger ledger(1 << 20);
  {
    HeldEvents held(&ledger);
    ASSERT_TRUE(held.take_room(token(0, 4096)).ok());
    held.push(token(0, 4096));
    EXPECT_GT(ledger.held(MemoryKind::kAnswers), 0u);
  }
  EXPECT_EQ(0u, ledger.held(MemoryKind::kAnswers));
}

// As nearly all are: a token waits for nobody, and is gone at once.
TEST(ForwardHeldEvents, WhatIsTakenAtOnceTouchesNoAccount) {
  base::MemoryLedger ledger(1);
  HeldEvents held(&ledger);
  for (uint32_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(held.take_room(token(i)).ok());
    held.push(token(i));
    (void)held.pop();
  }
}

}  // namespace
}  // namespace weir::forward
