// The layout of steps, what is computed anew, and the events.
#include "generation/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler_harness.h"

namespace weir::generation {
namespace {

using testing::HasSubstr;

TEST(TokenScheduler, APromptIsAnsweredTokenByToken) {
  SchedulerHarness desk(small());
  auto& call = desk.call(numbers(6), 5);
  desk.send(call);
  desk.run();
  EXPECT_EQ(desk.said[&call], desk.expected(call));
  EXPECT_EQ(desk.said[&call].size(), 6u);
  EXPECT_EQ(desk.used(), 0u);
}

TEST(TokenScheduler, ManySequencesShareAStepAndSayWhatTheySayAlone) {
  SchedulerHarness desk(small());
  std::vector<msg::Call*> calls;
  for (uint32_t i = 0; i < 8; ++i) calls.push_back(&desk.call(numbers(3 + i, i), 6 + i));
  for (auto* call : calls) desk.send(*call);
  desk.run();
  for (auto* call : calls) EXPECT_EQ(desk.said[call], desk.expected(*call));
  EXPECT_GE(desk.engine.most_rows, 4u);
}

TEST(TokenScheduler, ALongPromptGoesInChunksBesideDecodes) {
  SchedulerHarness desk(small(4, 10));
  auto& first = desk.call(numbers(3), 12);
  auto& second = desk.call(numbers(60, 40), 3);
  desk.send(first);
  desk.step();
  desk.send(second);
  desk.run();
  EXPECT_EQ(desk.said[&first], desk.expected(first));
  EXPECT_EQ(desk.said[&second], desk.expected(second));
  EXPECT_GE(desk.engine.steps, 12u);
}

TEST(TokenScheduler, DecodingIsLaidOutBeforeTheLastStepIsRead) {
  SchedulerHarness desk(small());
  desk.ahead = true;
  auto &first = desk.call(numbers(3), 12), &second = desk.call(numbers(9, 40), 20);
  auto& stops = desk.call(numbers(5, 70), 30);  // what ran behind its end is not heard
  stops.generation->stop_ids = {desk.sequence(stops).at(9)};
  for (auto* call : {&first, &second, &stops}) desk.send(*call);
  desk.run();
  for (auto* call : {&first, &second, &stops}) EXPECT_EQ(desk.said[call], desk.expected(*call));
  EXPECT_EQ(desk.dones[&stops].finish, msg::Finish::kStopId);
  EXPECT_EQ(desk.steps_ahead, 18u);  // all but the two of the prompts
  EXPECT_EQ(desk.used(), 0u);
}

// The drawn token is counted by the engine, and read out when it is fed: also the last one, which draws nothing.
TEST(TokenScheduler, PenaltiesAndReadoutsRunAheadToo) {
  for (auto end : {msg::Finish::kLength, msg::Finish::kStopId}) {
    SchedulerHarness desk(small());
    desk.ahead = true;
    auto &penalty = desk.call(numbers(3), 8), &some = desk.call(numbers(5), 8), &all = desk.call(numbers(4, 50), 8);
    penalty.generation->sampling.presence_penalty = 1;
    some.generation->readouts = {{6, 9}};
    all.generation->readouts = {{0, 100}}, all.generation->logprobs = {{2, 7}};
    if (end == msg::Finish::kStopId) all.generation->stop_ids = {desk.sequence(all).at(8)};
    for (auto* call : {&penalty, &some, &all}) desk.send(*call);
    desk.run();
    for (auto* call : {&penalty, &some, &all}) EXPECT_EQ(desk.said[call], desk.expected(*call));
    EXPECT_EQ(desk.dones[&all].finish, end);
    EXPECT_EQ(desk.steps_ahead, desk.engine.steps - 1);  // all but the prompts'
    EXPECT_EQ(desk.used(), 0u);
  }
}

TEST(TokenScheduler, AReadoutThatIsToComeCountsAgainstTheCredit) {
  SchedulerHarness desk(small());
  desk.ahead = true;
  auto& call = desk.call(numbers(5), 8);
  call.generation->readouts = {{5, 100}};
  call.credit = 3;
  desk.send(call);
  desk.run();
  EXPECT_EQ(desk.said[&call].size(), 3u);
  EXPECT_EQ(call.credit.load(), 0);
  call.credit = 100;
  desk.run();
  EXPECT_EQ(desk.said[&call], desk.expected(call));
}

TEST(TokenScheduler, TheSamePrefixIsComputedOnce) {
  SchedulerHarness desk(small());
  auto prompt = numbers(18);
  auto& first = desk.call(prompt, 4);
  desk.send(first);
  desk.run();
  auto fed = desk.engine.fed;
  auto& second = desk.call(prompt, 4);
  desk.send(second);
  desk.run();
  EXPECT_EQ(desk.said[&second], desk.expected(second));
  EXPECT_EQ(desk.dones[&second].cached_tokens, 16u);
  EXPECT_EQ(desk.engine.fed - fed, 2u + 3u);
}

TEST(TokenScheduler, APromptOfWholeCachedBlocksIsComputedFromItsLastToken) {
  SchedulerHarness desk(small());
  auto prompt = numbers(16);
  auto& first = desk.call(prompt, 1);
  desk.send(first);
  desk.run();
  auto& second = desk.call(prompt, 4);
  auto& third = desk.call(prompt, 0);
  desk.send(second), desk.send(third);
  desk.run();
  EXPECT_EQ(desk.said[&second], desk.expected(second));
  EXPECT_EQ(desk.dones[&second].cached_tokens, 15u);
  EXPECT_EQ(desk.dones[&third].cached_tokens, 16u);
  EXPECT_EQ(desk.engine.copies, 1u);
}

TEST(TokenScheduler, SaltsKeepPrefixesApart) {
  SchedulerHarness desk(small());
  auto& first = desk.call(numbers(18), 1);
  auto& second = desk.call(numbers(18), 1);
  second.generation->cache_salt = 9;
  desk.send(first);
  desk.run();
  desk.send(second);
  desk.run();
  EXPECT_EQ(desk.dones[&second].cached_tokens, 0u);
  for (uint64_t salt : {0, 9}) {
    auto& again = desk.call(numbers(18), 1);
    again.generation->cache_salt = salt;
    desk.send(again);
    desk.run();
    EXPECT_EQ(desk.dones[&again].cached_tokens, 16u) << "each tenant finds its own, salt " << salt;
  }
}

TEST(TokenScheduler, PrefixesAreFoundWithinAScopeAlone) {
  SchedulerHarness desk(small());
  std::vector<uint32_t> cached;
  for (uint64_t scope : {5, 6, 5, 0}) {
    auto& call = desk.call(numbers(18), 1);
    call.cache_scope = scope;
    desk.send(call);
    desk.run();
    EXPECT_EQ(desk.said[&call], desk.expected(call));
    cached.push_back(desk.dones[&call].cached_tokens);
  }
  EXPECT_EQ(cached, (std::vector<uint32_t>{0, 0, 16, 0}));
}

TEST(TokenScheduler, LogprobsAndReadoutsOfPromptAndOfWhatIsGenerated) {
  SchedulerHarness desk(small());
  auto ask = [&](std::vector<msg::PositionRange> scores, std::vector<msg::PositionRange> readouts, uint32_t max) {
    auto& call = desk.call(numbers(18), max);
    call.generation->logprobs = std::move(scores), call.generation->readouts = std::move(readouts);
    call.generation->top_logprobs = 2;
    desk.send(call);
    desk.run();
    EXPECT_EQ(desk.said[&call], desk.expected(call));
    EXPECT_TRUE(desk.last[&call]);
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
  EXPECT_EQ(desk.used(), 0u);
}

TEST(TokenScheduler, EndsAtEndOfSequenceStopIdAndLength) {
  SchedulerHarness desk(small());
  auto& eos = desk.call(numbers(4), 1000);
  eos.generation->ignore_eos = false;
  desk.send(eos);
  desk.run();
  EXPECT_EQ(desk.said[&eos], desk.expected(eos));
  EXPECT_EQ(desk.dones[&eos].finish, msg::Finish::kEos);
  EXPECT_EQ(desk.dones[&eos].stop_id, FakeModel::kEos);
  auto& stop = desk.call(numbers(5), 1000);
  stop.generation->stop_ids = {11, 12, 13};
  stop.generation->min_tokens = 30;
  desk.send(stop);
  desk.run();
  EXPECT_EQ(desk.said[&stop], desk.expected(stop));
  EXPECT_EQ(desk.dones[&stop].finish, msg::Finish::kStopId);
  EXPECT_GT(desk.dones[&stop].completion_tokens, 30u);
}

TEST(TokenScheduler, AFullContextEndsASequence) {
  SchedulerHarness desk(small(), 64, 20);
  auto& call = desk.call(numbers(15), 100);
  desk.send(call);
  auto& full = desk.call(numbers(20), 100);
  desk.send(full);
  auto& over = desk.call(numbers(21), 1);
  EXPECT_FALSE(desk.send(over));
  desk.run();
  EXPECT_EQ(desk.said[&call], desk.expected(call));
  EXPECT_EQ(desk.dones[&call].completion_tokens, 5u);
  EXPECT_EQ(desk.dones[&full].completion_tokens, 0u);
  EXPECT_EQ(desk.dones[&full].finish, msg::Finish::kLength);
  EXPECT_THAT(desk.said[&over][0], HasSubstr("OUT_OF_RANGE: the sequence has 21 tokens"));
}

TEST(TokenScheduler, OthersRunWhileAnImageIsLookedAt) {
  SchedulerHarness desk;
  desk.images = SchedulerHarness::Images::kByHand;
  auto& stream = desk.call({1, 2, 3}, 40);
  auto& seer = desk.call({1, 2, 3, 4, 5, 6, 7, 8, 9}, 3);
  seer.generation->images.push_back({base::Bytes::copy_of("abcde"), "image/png", 1, 8});
  desk.send(stream);
  desk.step();
  desk.send(seer);
  ASSERT_TRUE(desk.step());
  auto pending = desk.scheduler->next_image();
  ASSERT_TRUE(pending);
  EXPECT_EQ(pending->image.data.view(), "abcde");
  EXPECT_FALSE(desk.scheduler->next_image()) << "each is given out once";
  for (size_t n = desk.said[&stream].size(), i = 1; i <= 10; ++i) {
    ASSERT_TRUE(desk.step());
    EXPECT_EQ(desk.said[&stream].size(), n + i) << "a token in every step";
  }
  EXPECT_TRUE(desk.said[&seer].empty());
  desk.scheduler->on_image_encoded(pending->id, desk.engine.encode_image(pending->image), desk.now);
  ASSERT_TRUE(desk.step());
  EXPECT_EQ(desk.said[&seer].size(), 1u) << "its prompt runs in the next step";
  desk.run();
  EXPECT_EQ(desk.said[&seer], desk.expected(seer));
  EXPECT_EQ(desk.said[&stream], desk.expected(stream));
}

TEST(TokenScheduler, WhoLeavesWhileItsImageIsLookedAtIsGoneAndNobodyMissesIt) {
  SchedulerHarness desk;
  desk.images = SchedulerHarness::Images::kByHand;
  auto& seer = desk.call({1, 2, 3, 4, 5}, 3);
  seer.generation->images.push_back({base::Bytes::copy_of("abc"), "image/png", 0, 5});
  desk.send(seer);
  EXPECT_FALSE(desk.step());
  auto pending = desk.scheduler->next_image();
  ASSERT_TRUE(pending);
  seer.cancelled.store(true);
  EXPECT_FALSE(desk.step());
  EXPECT_TRUE(desk.last[&seer]);
  seer.generation = nullptr;
  EXPECT_EQ(pending->image.data.view(), "abc") << "it has a copy";
  desk.scheduler->on_image_encoded(pending->id, desk.engine.encode_image(pending->image), desk.now);
  EXPECT_TRUE(desk.scheduler->empty());
  EXPECT_EQ(desk.used(), 0u);
}

TEST(TokenScheduler, AStepHasNoMoreTokensThanItsBudget) {
  auto policy = small(4, 3);
  SchedulerHarness desk(policy);
  std::vector<msg::Call*> calls;
  for (uint32_t i = 0; i < 8; ++i) calls.push_back(&desk.call(numbers(9, 3 * i), 5));
  for (auto* call : calls) desk.send(*call);
  for (;;) {
    auto fed = desk.engine.fed;
    if (!desk.step()) break;
    EXPECT_LE(desk.engine.fed - fed, 3u);
  }
  for (auto* call : calls) EXPECT_EQ(desk.said[call], desk.expected(*call));
}

TEST(TokenScheduler, AnEmbeddingIsTheMeanOverAllPositions) {
  SchedulerHarness desk(small());
  auto& warm = desk.call(numbers(30), 1);
  desk.send(warm);
  desk.run();
  auto& call = desk.call(numbers(30), 1);
  call.generation->aim = msg::Aim::kEmbed;
  desk.send(call);
  desk.run();
  EXPECT_EQ(desk.said[&call], desk.expected(call));
}

TEST(TokenScheduler, SeedsMakeDrawsAndNeighboursDoNot) {
  auto ask = [](SchedulerHarness& desk, uint64_t seed) -> msg::Call& {
    auto& call = desk.call(numbers(6), 10);
    call.generation->sampling.temperature = 1;
    call.generation->sampling.seed = seed;
    desk.send(call);
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
