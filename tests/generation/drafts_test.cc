// Guesses at the next tokens: what they are made of, how many there are, and that no Call can tell them but by the
// time.
#include "generation/drafts.h"

#include <gtest/gtest.h>

#include "scheduler_harness.h"

namespace weir::generation {
namespace {

std::vector<uint32_t> guesses_of(const std::vector<uint32_t>& tokens, uint32_t most) {
  const Draft draft = find_draft(tokens, most);
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < draft.count; ++i) out.push_back(draft.guess(tokens, i));
  return out;
}

using Tokens = std::vector<uint32_t>;

TEST(Drafts, AreWhatFollowedTheLastPlaceOfTheNewestThreeTokens) {
  EXPECT_EQ(guesses_of({1, 2, 3, 4, 5, 6, 1, 2, 3}, 2), (Tokens{4, 5}));
  EXPECT_EQ(guesses_of({1, 2, 3, 4, 1, 2, 3, 9, 8, 1, 2, 3}, 2), (Tokens{9, 8}));
  EXPECT_EQ(guesses_of({1, 2, 3, 4, 5, 1, 2, 9}, 2), (Tokens{}));
}

TEST(Drafts, OfWhatRepeatsItselfGoOnInTheSameWay) {
  EXPECT_EQ(guesses_of({7, 7, 7, 7}, 5), (Tokens{7, 7, 7, 7, 7}));
  EXPECT_EQ(guesses_of({5, 1, 2, 3, 1, 2, 3}, 7), (Tokens{1, 2, 3, 1, 2, 3, 1}));
}

TEST(Drafts, OfFewTokensOrOfNoneThatAreWantedAreNone) {
  for (uint32_t n = 0; n < 4; ++n) EXPECT_EQ(find_draft(Tokens(n, 1), 8).count, 0u) << n;
  EXPECT_EQ(find_draft(Tokens(9, 1), 0).count, 0u);
}

TEST(Drafts, LookNoFurtherBackThanSixteenThousandTokens) {
  Tokens tokens{1, 2, 3, 4};
  for (uint32_t i = 0; i < 16'370; ++i) tokens.push_back(100 + i);
  tokens.insert(tokens.end(), {1, 2, 3});
  EXPECT_EQ(guesses_of(tokens, 1), (Tokens{4}));
  tokens.insert(tokens.begin() + 10, 20, 50);
  EXPECT_EQ(guesses_of(tokens, 1), (Tokens{}));
}

TEST(DraftLengths, FollowHowManyWereRight) {
  DraftLength length;
  EXPECT_EQ(length.next(64), 2u);
  length.record(2, 2);
  EXPECT_EQ(length.next(64), 4u);
  length.record(4, 4);
  EXPECT_EQ(length.next(5), 5u);
  length.record(5, 3);
  EXPECT_EQ(length.next(64), 3u);
}

TEST(DraftLengths, PauseLongerEachTimeThatNoneIsRight) {
  DraftLength length;
  uint32_t steps = 0;
  for (uint32_t tries = 0; tries < 8; ++steps)
    if (uint32_t n = length.next(8)) length.record(n, 0), ++tries;
  EXPECT_EQ(steps, 8u + 1 + 2 + 4 + 8 + 16 + 32 + 32);
  while (length.next(8) == 0) continue;
  length.record(1, 1);
  EXPECT_EQ(length.next(8), 2u) << "one that was right ends it";
  length.record(2, 0);
  EXPECT_EQ(length.next(8), 0u);
  EXPECT_EQ(length.next(8), 1u) << "and the next pause is short again";
}

// The fake model draws of so few ids that what follows three tokens is often what followed them before.
constexpr uint32_t kFewIds = 1;

class DraftedSteps : public testing::Test {
 protected:
  static TokenPolicy drafting(uint32_t most) {
    auto policy = small(4, 64);
    policy.draft_tokens = most;
    return policy;
  }
  static msg::Call& add(SchedulerHarness& desk, uint32_t tokens) {
    auto& call = desk.call(numbers(5), tokens);
    call.generation->sampling.top_k = kFewIds;
    return call;
  }
};

TEST_F(DraftedSteps, AreFewerAndSayTheSame) {
  SchedulerHarness plain(drafting(0)), drafted(drafting(8));
  for (auto* desk : {&plain, &drafted}) {
    auto& call = add(*desk, 60);
    call.generation->logprobs = {{2, 40}};
    call.generation->top_logprobs = 2;
    desk->send(call);
    desk->run();
    EXPECT_EQ(desk->said[&call], desk->expected(call));
  }
  EXPECT_EQ(plain.engine.steps, 60u);
  EXPECT_LT(drafted.engine.steps, 16u);
  const auto& stats = *drafted.stats.tokens;
  EXPECT_EQ(stats.generated_total.value(), 60u);
  EXPECT_EQ(stats.drafted_right.value(), 60 - drafted.engine.steps);
  EXPECT_GE(stats.drafted.value(), stats.drafted_right.value());
  EXPECT_EQ(plain.stats.tokens->drafted.value(), 0u);
}

TEST_F(DraftedSteps, EndWhereTheTextEnds) {
  SchedulerHarness desk(drafting(16));
  auto& call = add(desk, 200);
  call.generation->sampling.top_k = 5;
  call.generation->ignore_eos = false;
  call.generation->min_tokens = 30;
  desk.send(call);
  desk.run();
  EXPECT_EQ(desk.said[&call], desk.expected(call));
  EXPECT_EQ(desk.used(), 0u);
}

TEST_F(DraftedSteps, HaveNoMoreRowsThanAreAlmostFree) {
  SchedulerHarness desk(drafting(64), 256);
  for (int i = 0; i < 3; ++i) desk.send(add(desk, 120));
  uint64_t most = 0;
  for (uint64_t before = 0; desk.step(); before = desk.engine.fed)
    if (desk.engine.steps > 2) most = std::max(most, desk.engine.fed - before);
  EXPECT_EQ(most, 8u);
}

TEST_F(DraftedSteps, GiveAPeerNoMoreThanItHasCreditFor) {
  SchedulerHarness desk(drafting(8));
  auto& call = add(desk, 40);
  call.credit = 7;
  desk.send(call);
  desk.run();
  EXPECT_EQ(call.credit, 0);
  EXPECT_EQ(desk.said[&call].size(), 7u);
  call.credit += 100;
  desk.run();
  EXPECT_EQ(desk.said[&call], desk.expected(call));
}

TEST_F(DraftedSteps, TakeNoBlocksFromOthers) {
  SchedulerHarness desk(drafting(16), 20);  // two calls of 40 positions fill them
  auto &a = add(desk, 33), &b = add(desk, 33);
  for (auto* call : {&a, &b}) desk.send(*call);
  desk.run();
  for (auto* call : {&a, &b}) EXPECT_EQ(desk.said[call], desk.expected(*call));
  EXPECT_EQ(desk.stats.tokens->preemptions.value(), 0u);
}

TEST_F(DraftedSteps, AreNotForWhatDependsOnMoreThanTheTokens) {
  SchedulerHarness desk(drafting(8), 256);
  std::vector<msg::Call*> calls;
  for (int i = 0; i < 5; ++i) calls.push_back(&add(desk, 20));
  calls[0]->generation->constraint = std::make_unique<FakeConstraint>(20);
  calls[0]->generation->sampling.top_k = 0;  // it wants others
  calls[1]->generation->readouts = {{20, 25}};
  calls[2]->generation->sampling.presence_penalty = 1;
  calls[3]->generation->sampling.frequency_penalty = 1;
  calls[4]->generation->sampling.repetition_penalty = 1.1f;
  for (auto* call : calls) desk.send(*call);
  desk.run();
  EXPECT_EQ(desk.stats.tokens->drafted.value(), 0u);
}

}  // namespace
}  // namespace weir::generation
