// The layout of steps, what is computed anew, and the events.
#include "generation/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler_harness.h"

namespace weir::generation {
namespace {

using testing::HasSubstr;

TEST(TokenScheduler, APromptIsAnsweredTokenByToken) {
  SchedulerHarness harness(small());
  auto& call = harness.call(numbers(6), 5);
  harness.send(call);
  harness.run();
  EXPECT_EQ(harness.said[&call], harness.expected(call));
  EXPECT_EQ(harness.said[&call].size(), 6u);
  EXPECT_EQ(harness.used(), 0u);
}

TEST(TokenScheduler, ManySequencesShareAStepAndSayWhatTheySayAlone) {
  SchedulerHarness harness(small());
  std::vector<msg::Call*> calls;
  for (uint32_t i = 0; i < 8; ++i) calls.push_back(&harness.call(numbers(3 + i, i), 6 + i));
  for (auto* call : calls) harness.send(*call);
  harness.run();
  for (auto* call : calls) EXPECT_EQ(harness.said[call], harness.expected(*call));
  EXPECT_GE(harness.engine.most_rows, 4u);
}

TEST(TokenScheduler, ALongPromptGoesInChunksBesideDecodes) {
  SchedulerHarness harness(small(4, 10));
  auto& first = harness.call(numbers(3), 12);
  auto& second = harness.call(numbers(60, 40), 3);
  harness.send(first);
  harness.step();
  harness.send(second);
  harness.run();
  EXPECT_EQ(harness.said[&first], harness.expected(first));
  EXPECT_EQ(harness.said[&second], harness.expected(second));
  EXPECT_GE(harness.engine.steps, 12u);
}

TEST(TokenScheduler, DecodingIsLaidOutBeforeTheLastStepIsRead) {
  SchedulerHarness harness(small());
  harness.ahead = true;
  auto &first = harness.call(numbers(3), 12), &second = harness.call(numbers(9, 40), 20);
  auto& stops = harness.call(numbers(5, 70), 30);  // what ran behind its end is not heard
  stops.generation->stop_ids = {harness.sequence(stops).at(9)};
  for (auto* call : {&first, &second, &stops}) harness.send(*call);
  harness.run();
  for (auto* call : {&first, &second, &stops}) EXPECT_EQ(harness.said[call], harness.expected(*call));
  EXPECT_EQ(harness.dones[&stops].finish, msg::Finish::kStopId);
  EXPECT_EQ(harness.steps_ahead, harness.engine.steps - 1);  // all but the first
  EXPECT_EQ(harness.used(), 0u);
}

TEST(TokenScheduler, StepsAreLaidOutAheadThoughCallsWaitForASlot) {
  auto policy = small();
  policy.max_running = 1;
  SchedulerHarness harness(policy);
  harness.ahead = true;
  auto &runs = harness.call(numbers(3), 12), &waits = harness.call(numbers(5, 40), 2);
  harness.send(runs), harness.send(waits);
  ASSERT_TRUE(harness.step());
  EXPECT_TRUE(harness.last[&runs]);
  EXPECT_EQ(harness.steps_ahead, 11u);
  harness.run();
  EXPECT_EQ(harness.said[&waits], harness.expected(waits));
}

TEST(TokenScheduler, TheRestOfAPromptIsLaidOutBeforeTheLastStepIsRead) {
  SchedulerHarness harness(small(4, 10));
  harness.ahead = true;
  auto &brief = harness.call(numbers(3), 12), &lengthy = harness.call(numbers(60, 40), 3);
  for (auto* call : {&brief, &lengthy}) harness.send(*call);
  ASSERT_TRUE(harness.step());
  for (auto* call : {&brief, &lengthy}) EXPECT_EQ(harness.said[call], harness.expected(*call));
  EXPECT_EQ(harness.steps_ahead, harness.engine.steps - 1);
  EXPECT_EQ(harness.used(), 0u);
}

TEST(TokenScheduler, WhoComesWhileAStepRunsIsInTheNextOne) {
  SchedulerHarness harness(small());
  harness.ahead = true;
  std::vector<msg::Call*> calls = {&harness.call(numbers(3), 30)};
  harness.send(*calls.front());
  harness.meanwhile = [&] {
    if (harness.engine.steps % 3 != 0 || calls.size() > 6) return;
    calls.push_back(&harness.call(numbers(uint32_t(5 * calls.size()), uint32_t(11 * calls.size())), 4));
    harness.send(*calls.back());
  };
  ASSERT_TRUE(harness.step());
  EXPECT_EQ(calls.size(), 7u);
  for (auto* call : calls) EXPECT_EQ(harness.said[call], harness.expected(*call));
  EXPECT_EQ(harness.steps_ahead, harness.engine.steps - 1);
  EXPECT_EQ(harness.used(), 0u);
}

// Nobody is preempted while a step runs: a tenant whose slot another one has beyond its share is let in between steps.
TEST(TokenScheduler, WhoMayEnterInAnothersPlaceWaitsForTheStepThatRuns) {
  auto policy = small();
  policy.max_running = 2;
  SchedulerHarness harness(policy);
  harness.ahead = true;
  auto &first = harness.call(numbers(3), 30), &second = harness.call(numbers(5, 40), 30),
       &late = harness.call(numbers(4, 70), 2);
  first.tenant = second.tenant = 1, late.tenant = 2;
  harness.send(first), harness.send(second);
  uint64_t sent = 0, answered = 0;
  harness.meanwhile = [&] {
    if (harness.engine.steps == 8) harness.send(late), sent = harness.engine.steps;
    if (answered == 0 && harness.last[&late]) answered = harness.engine.steps;
  };
  harness.run();
  for (auto* call : {&first, &second, &late}) EXPECT_EQ(harness.said[call], harness.expected(*call));
  EXPECT_GT(sent, 0u);
  EXPECT_LE(answered, sent + 4);
  EXPECT_EQ(harness.stats.tokens->preemptions.value(), 1);
}

// The drawn token is counted by the engine, and read out when it is fed: also the last one, which draws nothing.
TEST(TokenScheduler, PenaltiesAndReadoutsRunAheadToo) {
  for (auto end : {msg::Finish::kLength, msg::Finish::kStopId}) {
    SchedulerHarness harness(small());
    harness.ahead = true;
    auto &penalty = harness.call(numbers(3), 8), &some = harness.call(numbers(5), 8),
         &all = harness.call(numbers(4, 50), 8);
    penalty.generation->sampling.presence_penalty = 1;
    some.generation->readouts = {{6, 9}};
    all.generation->readouts = {{0, 100}}, all.generation->logprobs = {{2, 7}};
    if (end == msg::Finish::kStopId) all.generation->stop_ids = {harness.sequence(all).at(8)};
    for (auto* call : {&penalty, &some, &all}) harness.send(*call);
    harness.run();
    for (auto* call : {&penalty, &some, &all}) EXPECT_EQ(harness.said[call], harness.expected(*call));
    EXPECT_EQ(harness.dones[&all].finish, end);
    EXPECT_EQ(harness.steps_ahead, harness.engine.steps - 1);  // all but the prompts'
    EXPECT_EQ(harness.used(), 0u);
  }
}

TEST(TokenScheduler, AReadoutThatIsToComeCountsAgainstTheCredit) {
  SchedulerHarness harness(small());
  harness.ahead = true;
  auto& call = harness.call(numbers(5), 8);
  call.generation->readouts = {{5, 100}};
  call.credit = 3;
  harness.send(call);
  harness.run();
  EXPECT_EQ(harness.said[&call].size(), 3u);
  EXPECT_EQ(call.credit.load(), 0);
  call.credit = 100;
  harness.run();
  EXPECT_EQ(harness.said[&call], harness.expected(call));
}

TEST(TokenScheduler, TheSamePrefixIsComputedOnce) {
  SchedulerHarness harness(small());
  auto prompt = numbers(18);
  auto& first = harness.call(prompt, 4);
  harness.send(first);
  harness.run();
  auto fed = harness.engine.fed;
  auto& second = harness.call(prompt, 4);
  harness.send(second);
  harness.run();
  EXPECT_EQ(harness.said[&second], harness.expected(second));
  EXPECT_EQ(harness.dones[&second].cached_tokens, 16u);
  EXPECT_EQ(harness.engine.fed - fed, 2u + 3u);
}

TEST(TokenScheduler, APromptOfWholeCachedBlocksIsComputedFromItsLastToken) {
  SchedulerHarness harness(small());
  auto prompt = numbers(16);
  auto& first = harness.call(prompt, 1);
  harness.send(first);
  harness.run();
  auto& second = harness.call(prompt, 4);
  auto& third = harness.call(prompt, 0);
  harness.send(second), harness.send(third);
  harness.run();
  EXPECT_EQ(harness.said[&second], harness.expected(second));
  EXPECT_EQ(harness.dones[&second].cached_tokens, 15u);
  EXPECT_EQ(harness.dones[&third].cached_tokens, 16u);
  EXPECT_EQ(harness.engine.copies, 1u);
}

// Two with the same text lose all of their blocks: one computes it anew, and the other one finds that.
TEST(TokenScheduler, PreemptedSequencesDoNotCountWhatTheyFindAgainAsCached) {
  SchedulerHarness harness(small(), 40);
  harness.spec.batching.priority_levels = harness.spec.batching.default_priority = 0;
  auto &first = harness.call(numbers(18), 50), &second = harness.call(numbers(18), 50);
  auto& urgent = harness.call(numbers(140, 90), 4);
  first.priority = second.priority = 2, urgent.priority = 1;
  harness.send(first), harness.send(second);
  for (int i = 0; i < 30; ++i) harness.step();
  harness.send(urgent);
  harness.run();
  EXPECT_EQ(harness.stats.tokens->preemptions.value(), 2);
  for (auto* call : {&first, &second, &urgent}) EXPECT_EQ(harness.said[call], harness.expected(*call));
  for (auto* call : {&first, &second}) EXPECT_LT(harness.dones[call].cached_tokens, 18u) << "of the prompt";
}

TEST(TokenScheduler, SaltsKeepPrefixesApart) {
  SchedulerHarness harness(small());
  auto& first = harness.call(numbers(18), 1);
  auto& second = harness.call(numbers(18), 1);
  second.generation->cache_salt = 9;
  harness.send(first);
  harness.run();
  harness.send(second);
  harness.run();
  EXPECT_EQ(harness.dones[&second].cached_tokens, 0u);
  for (uint64_t salt : {0, 9}) {
    auto& again = harness.call(numbers(18), 1);
    again.generation->cache_salt = salt;
    harness.send(again);
    harness.run();
    EXPECT_EQ(harness.dones[&again].cached_tokens, 16u) << "each tenant finds its own, salt " << salt;
  }
}

TEST(TokenScheduler, PrefixesAreFoundWithinAScopeAlone) {
  SchedulerHarness harness(small());
  std::vector<uint32_t> cached;
  for (uint64_t scope : {5, 6, 5, 0}) {
    auto& call = harness.call(numbers(18), 1);
    call.cache_scope = scope;
    harness.send(call);
    harness.run();
    EXPECT_EQ(harness.said[&call], harness.expected(call));
    cached.push_back(harness.dones[&call].cached_tokens);
  }
  EXPECT_EQ(cached, (std::vector<uint32_t>{0, 0, 16, 0}));
}

TEST(TokenScheduler, LogprobsAndReadoutsOfPromptAndOfWhatIsGenerated) {
  SchedulerHarness harness(small());
  auto ask = [&](std::vector<msg::PositionRange> scores, std::vector<msg::PositionRange> readouts, uint32_t max) {
    auto& call = harness.call(numbers(18), max);
    call.generation->logprobs = std::move(scores), call.generation->readouts = std::move(readouts);
    call.generation->top_logprobs = 2;
    harness.send(call);
    harness.run();
    EXPECT_EQ(harness.said[&call], harness.expected(call));
    EXPECT_TRUE(harness.last[&call]);
  };
  for (int round = 0; round < 2; ++round) {  // cold, then cached
    ask({{0, 100}}, {}, 4);
    ask({}, {{0, 100}}, 4);
    ask({{0, 3}, {2, 5}, {9, 10}}, {{4, 6}, {12, 13}}, 4);
    ask({{16, 17}}, {}, 2);
    ask({{17, 18}}, {}, 0);
    ask({}, {{17, 18}}, 0);
    ask({{0, 100}}, {{0, 100}}, 0);
    ask({{18, 19}}, {{18, 20}}, 5);
    ask({}, {{21, 22}}, 4);
  }
  EXPECT_EQ(harness.used(), 0u);
}

TEST(TokenScheduler, EndsAtEndOfSequenceStopIdAndLength) {
  SchedulerHarness harness(small());
  auto& eos = harness.call(numbers(4), 1000);
  eos.generation->ignore_eos = false;
  harness.send(eos);
  harness.run();
  EXPECT_EQ(harness.said[&eos], harness.expected(eos));
  EXPECT_EQ(harness.dones[&eos].finish, msg::Finish::kEos);
  EXPECT_EQ(harness.dones[&eos].stop_id, FakeModel::kEos);
  auto& stop = harness.call(numbers(5), 1000);
  stop.generation->stop_ids = {11, 12, 13};
  stop.generation->min_tokens = 30;
  harness.send(stop);
  harness.run();
  EXPECT_EQ(harness.said[&stop], harness.expected(stop));
  EXPECT_EQ(harness.dones[&stop].finish, msg::Finish::kStopId);
  EXPECT_GT(harness.dones[&stop].completion_tokens, 30u);
}

TEST(TokenScheduler, AFullContextEndsASequence) {
  SchedulerHarness harness(small(), 64, 20);
  auto& call = harness.call(numbers(15), 100);
  harness.send(call);
  auto& full = harness.call(numbers(20), 100);
  harness.send(full);
  auto& over = harness.call(numbers(21), 1);
  EXPECT_FALSE(harness.send(over));
  harness.run();
  EXPECT_EQ(harness.said[&call], harness.expected(call));
  EXPECT_EQ(harness.dones[&call].completion_tokens, 5u);
  EXPECT_EQ(harness.dones[&full].completion_tokens, 0u);
  EXPECT_EQ(harness.dones[&full].finish, msg::Finish::kLength);
  EXPECT_THAT(harness.said[&over][0], HasSubstr("OUT_OF_RANGE: the sequence has 21 tokens"));
}

TEST(TokenScheduler, OthersRunWhileAnImageIsLookedAt) {
  SchedulerHarness harness;
  harness.images = SchedulerHarness::Images::kByHand;
  auto& stream = harness.call({1, 2, 3}, 40);
  auto& seer = harness.call({1, 2, 3, 4, 5, 6, 7, 8, 9}, 3);
  seer.generation->images.push_back({base::Bytes::copy_of("abcde"), "image/png", 1, 8});
  harness.send(stream);
  harness.step();
  harness.send(seer);
  ASSERT_TRUE(harness.step());
  auto pending = harness.scheduler->next_image();
  ASSERT_TRUE(pending);
  EXPECT_EQ(pending->image.data.view(), "abcde");
  EXPECT_FALSE(harness.scheduler->next_image()) << "each is given out once";
  for (size_t n = harness.said[&stream].size(), i = 1; i <= 10; ++i) {
    ASSERT_TRUE(harness.step());
    EXPECT_EQ(harness.said[&stream].size(), n + i) << "a token in every step";
  }
  EXPECT_TRUE(harness.said[&seer].empty());
  harness.scheduler->on_image_encoded(pending->id, harness.engine.encode_image(pending->image), harness.now);
  ASSERT_TRUE(harness.step());
  EXPECT_EQ(harness.said[&seer].size(), 1u) << "its prompt runs in the next step";
  harness.run();
  EXPECT_EQ(harness.said[&seer], harness.expected(seer));
  EXPECT_EQ(harness.said[&stream], harness.expected(stream));
}

TEST(TokenScheduler, WhoLeavesWhileItsImageIsLookedAtIsGoneAndNobodyMissesIt) {
  SchedulerHarness harness;
  harness.images = SchedulerHarness::Images::kByHand;
  auto& seer = harness.call({1, 2, 3, 4, 5}, 3);
  seer.generation->images.push_back({base::Bytes::copy_of("abc"), "image/png", 0, 5});
  harness.send(seer);
  EXPECT_FALSE(harness.step());
  auto pending = harness.scheduler->next_image();
  ASSERT_TRUE(pending);
  seer.cancelled.store(true);
  EXPECT_FALSE(harness.step());
  EXPECT_TRUE(harness.last[&seer]);
  seer.generation = nullptr;
  EXPECT_EQ(pending->image.data.view(), "abc") << "it has a copy";
  harness.scheduler->on_image_encoded(pending->id, harness.engine.encode_image(pending->image), harness.now);
  EXPECT_TRUE(harness.scheduler->empty());
  EXPECT_EQ(harness.used(), 0u);
}

TEST(TokenScheduler, AStepHasNoMoreTokensThanItsBudget) {
  auto policy = small(4, 3);
  SchedulerHarness harness(policy);
  std::vector<msg::Call*> calls;
  for (uint32_t i = 0; i < 8; ++i) calls.push_back(&harness.call(numbers(9, 3 * i), 5));
  for (auto* call : calls) harness.send(*call);
  for (;;) {
    auto fed = harness.engine.fed;
    if (!harness.step()) break;
    EXPECT_LE(harness.engine.fed - fed, 3u);
  }
  for (auto* call : calls) EXPECT_EQ(harness.said[call], harness.expected(*call));
}

TEST(TokenScheduler, AnEmbeddingIsTheMeanOverAllPositions) {
  SchedulerHarness harness(small());
  auto& warm = harness.call(numbers(30), 1);
  harness.send(warm);
  harness.run();
  auto& call = harness.call(numbers(30), 1);
  call.generation->aim = msg::Aim::kEmbed;
  harness.send(call);
  harness.run();
  EXPECT_EQ(harness.said[&call], harness.expected(call));
}

TEST(TokenScheduler, SeedsMakeDrawsAndNeighboursDoNot) {
  auto ask = [](SchedulerHarness& harness, uint64_t seed) -> msg::Call& {
    auto& call = harness.call(numbers(6), 10);
    call.generation->sampling.temperature = 1;
    call.generation->sampling.seed = seed;
    harness.send(call);
    return call;
  };
  SchedulerHarness alone(small()), crowd(small());
  auto& one = ask(alone, 5);
  alone.run();
  for (uint64_t i = 0; i < 6; ++i) ask(crowd, 100 + i);
  auto& same = ask(crowd, 5);
  auto& other = ask(crowd, 6);
  crowd.run();
  EXPECT_EQ(alone.said[&one], alone.expected(one));
  EXPECT_EQ(crowd.said[&same], alone.said[&one]);
  EXPECT_NE(crowd.said[&other], alone.said[&one]);
}

}  // namespace
}  // namespace weir::generation
