#include "generation/lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "../sched/shard_thread.h"
#include "lane_lab.h"

namespace weir::generation {
namespace {

using namespace std::chrono_literals;
using sched::expect_ascending;
using sched::ShardThread;
using testing::HasSubstr;

TEST(TokenLane, ACallIsAnsweredAndTimed) {
  Lab t;
  t.gate.open();
  auto& call = t.put(5, 6);
  EXPECT_EQ(t.recorder.until_last(call), t.expected(call));
  expect_ascending(call.times);
  EXPECT_EQ(t.stats.inference_count, 1u);
  EXPECT_EQ(t.stats.execution_count, 6u);
  EXPECT_EQ(t.stats.success.count, 1u);
  EXPECT_EQ(t.stats.tokens->generated_total.value(), 6u);
  EXPECT_EQ(t.stats.tokens->blocks_used.value(), 0);
}

TEST(TokenLane, AStepsEventsArePostedTogether) {
  Lab t;
  auto& holder = t.put(5, 1);
  t.gate.until_waiting(1);
  auto& first = t.put(6, 4);
  auto& second = t.put(7, 4);
  t.gate.open();
  t.recorder.until_last(holder), t.recorder.until_last(first), t.recorder.until_last(second);
  EXPECT_EQ(t.recorder.bursts(), 5);
}

TEST(TokenLane, ACancelledCallLeavesBeforeTheNextStep) {
  Lab t;
  auto& call = t.put(5, 100);
  t.gate.let(2);
  t.recorder.until_said(call, 2);
  t.gate.until_waiting(1);
  call.cancelled = true;
  t.lane->poke();
  t.gate.let(1);
  auto said = t.recorder.until_last(call);
  EXPECT_EQ(said.size(), 4u);
  EXPECT_EQ(said.back(), "CANCELLED: cancelled");
}

TEST(TokenLane, AParkedCallIsCancelledByAPoke) {
  Lab t;
  t.gate.open();
  auto& call = t.parked(5, 100, 2);
  call.cancelled = true;
  t.lane->poke();
  EXPECT_EQ(t.recorder.until_last(call).back(), "CANCELLED: cancelled");
}

TEST(TokenLane, CreditWakesAParkedCall) {
  Lab t;
  t.gate.open();
  auto& call = t.parked(5, 10, 2);
  if (call.credit.fetch_add(100) <= 0) t.lane->poke();
  EXPECT_EQ(t.recorder.until_last(call), t.expected(call));
}

TEST(TokenLane, AFailedStepOrLackOfMemoryEndsItsCallsAndTheLaneLives) {
  Lab t;
  t.gate.open();
  auto& poisoned = t.put(GatedTokens::kPoison, 3);
  EXPECT_EQ(t.recorder.until_last(poisoned).back(), "INTERNAL: poisoned");
  auto& allergic = t.put(GatedTokens::kAllergy, 3);
  EXPECT_THAT(t.recorder.until_last(allergic).back(), HasSubstr("RESOURCE_EXHAUSTED"));
  auto& good = t.put(5, 3);
  EXPECT_EQ(t.recorder.until_last(good), t.expected(good));
  EXPECT_EQ(t.stats.errors, 1u);
}

TEST(TokenLane, ARefusedCallCutsItsSessionToItsHistoryAndARefusedEmbeddingDoesNot) {
  Lab t;
  t.gate.open();
  auto& first = t.make(5, 3, 10);
  first.session = {0, 1};
  t.lane->put(&first);
  t.recorder.until_last(first);
  Reference reference(*first.generation, *t.spec.text, 256);
  reference.says();
  const std::vector<uint32_t> history = reference.tokens();
  auto cached_after = [&](msg::Aim aim, size_t length) {
    auto& refused = t.make(5, 1, 1);
    refused.session = {0, 1};
    refused.generation->aim = aim;
    refused.generation->history = std::span(history).first(length);
    refused.generation->append = {FakeModel::kVocabulary};
    t.lane->put(&refused);
    EXPECT_THAT(t.recorder.until_last(refused).back(), HasSubstr("INVALID_ARGUMENT"));
    auto& next = t.make(5, 1, 1);
    next.session = {0, 1};
    next.generation->history = history;
    t.lane->put(&next);
    EXPECT_EQ(t.recorder.until_last(next), t.expected(next));
    return next.generation->cached_tokens;
  };
  EXPECT_EQ(cached_after(msg::Aim::kEmbed, 2), 12u) << "all but the token that was drawn last";
  EXPECT_EQ(cached_after(msg::Aim::kGenerate, 2), 2u);
}

TEST(TokenLane, AFullQueueRefusesOnTheShard) {
  Lab t;
  t.put(5, 1);
  t.gate.until_waiting(1);
  std::vector<msg::Call*> calls;
  for (uint32_t i = 0; i < 7; ++i) calls.push_back(&t.put(6 + i, 1));  // three slots, three places
  EXPECT_THAT(t.recorder.until_last(*calls.back()).back(),
              HasSubstr("RESOURCE_EXHAUSTED: the queue of model 'talker' is"));
  t.gate.open();
  for (uint32_t i = 0; i < 6; ++i) EXPECT_EQ(t.recorder.until_last(*calls[i]), t.expected(*calls[i]));
}

TEST(TokenLane, AFullQueueHasRoomForWhoHasFewerInIt) {
  Lab t;
  std::vector<msg::Call*> many;
  auto put = [&](uint32_t first, uint64_t tenant) {
    auto& call = t.make(first, 1);
    call.tenant = tenant;
    t.lane->put(&call);
    return &call;
  };
  many.push_back(put(5, 1));
  t.gate.until_waiting(1);
  for (uint32_t i = 1; i < 8; ++i) many.push_back(put(5 + i, 1));
  EXPECT_THAT(t.recorder.until_last(*many[7]).back(), HasSubstr("RESOURCE_EXHAUSTED")) << "refused on the shard";
  auto* other = put(20, 2);
  EXPECT_EQ(t.recorder.said(*other), 0u);
  t.gate.open();
  EXPECT_EQ(t.recorder.until_last(*other), t.expected(*other));
  for (uint32_t i = 0; i < 7; ++i) EXPECT_EQ(t.recorder.until_last(*many[i]), t.expected(*many[i]));
}

TEST(TokenLane, AStreamGoesOnWhileAnImageIsEncoded) {
  Lab t;
  t.gate.open();
  auto& stream = t.parked(5, 30, 1);
  auto& busy = t.make(7, 200);
  busy.credit = 1 << 20;
  auto& with_image = t.make(6, 3, 8);
  with_image.generation->images.push_back({base::Bytes::copy_of("abcd"), "image/png", 1, 7});
  t.lane->put(&busy);
  t.recorder.until_said(busy, 1);
  t.lane->put(&with_image);
  stream.credit += 100;
  t.lane->poke();
  EXPECT_EQ(t.recorder.until_last(stream), t.expected(stream));
  EXPECT_EQ(t.recorder.until_last(busy), t.expected(busy));
  t.encoder_gate.open();
  EXPECT_EQ(t.recorder.until_last(with_image), t.expected(with_image));
}

TEST(TokenLane, ACallOfTensorsIsRefused) {
  Lab t;
  auto& call = t.calls.emplace_back();
  call.home = &t.recorder;
  t.lane->put(&call);
  EXPECT_THAT(t.recorder.until_last(call).back(), HasSubstr("INVALID_ARGUMENT"));
}

TEST(TokenLane, AWaitingCallLeavesAtItsTimeThoughNothingElseHappens) {
  auto policy = Lab::policy();
  policy.max_running = 1;
  Lab t(policy);
  t.gate.open();
  auto& parked = t.make(5, 100, 200);  // holds nearly all blocks; nobody reads it
  parked.credit = 1;
  parked.priority = 1;
  t.lane->put(&parked);
  t.recorder.until_said(parked, 1);
  auto& unread = t.make(6, 3);
  unread.credit = 0;
  unread.queue_timeout = 2ms;
  t.lane->put(&unread);
  EXPECT_THAT(t.recorder.until_last(unread).back(), HasSubstr("UNAVAILABLE: the request waited too long"));
}

TEST(TokenLane, AnEngineThatOverlapsIsGivenTheNextStepBeforeTheLastOneIsRead) {
  Lab t;
  t.gate.open();
  std::atomic<int> ahead = 0;
  t.lane.reset();
  t.lane = make_token_lane(std::make_unique<AheadTokens>(t.spec, ahead), Lab::policy(), t.spec, t.stats);
  std::vector<msg::Call*> calls;
  for (uint32_t i = 0; i < 4; ++i) calls.push_back(&t.put(5 + i, 6 + 5 * i));
  for (auto* call : calls) EXPECT_EQ(t.recorder.until_last(*call), t.expected(*call));
  EXPECT_GT(ahead, 5);
  EXPECT_EQ(t.stats.tokens->blocks_used.value(), 0);
}

TEST(TokenLane, RoomInTheQueueIsSeenWhileStepsAreSubmittedAhead) {
  auto policy = Lab::policy();
  policy.max_running = 2, policy.max_waiting = 2;
  Lab t(policy);
  Gate filled, drained;
  std::atomic<int> ahead = 0, submitted = 0;
  int ahead_before = 0;  // of the 79 steps that are there when the queue is empty
  t.lane = make_token_lane(std::make_unique<AheadTokens>(t.spec, ahead,
                                                         [&] {
                                                           int n = ++submitted;
                                                           if (n == 1) filled.wait();
                                                           if (n == 80) ahead_before = ahead, drained.wait();
                                                         }),
                           policy, t.spec, t.stats);
  auto& lengthy = t.put(5, 200);
  std::vector<msg::Call*> brief;
  for (uint32_t i = 0; i < 12; ++i) brief.push_back(&t.put(6 + i, 4));
  EXPECT_THAT(t.recorder.until_last(*brief.back()).back(), HasSubstr("RESOURCE_EXHAUSTED"));
  filled.open();
  for (auto* call : brief) (void)t.recorder.until_last(*call);
  while (submitted < 80) std::this_thread::yield();
  auto& late = t.put(40, 4);  // the queue is empty, and nothing has come since it was full
  drained.open();
  EXPECT_EQ(t.recorder.until_last(late), t.expected(late));
  EXPECT_EQ(t.recorder.until_last(lengthy), t.expected(lengthy));
  EXPECT_EQ(ahead - ahead_before, submitted - 79) << "the lane was never between two steps";
}

TEST(TokenLane, TheDestructorFailsWhatRuns) {
  Lab t;
  t.gate.open();
  auto& running = t.parked(5, 100, 1);
  auto& waiting = t.make(6, 100);
  waiting.credit = 0;
  t.lane->put(&waiting);
  t.lane.reset();
  EXPECT_THAT(t.recorder.until_last(running).back(), HasSubstr("UNAVAILABLE: model 'talker' is being unloaded"));
  EXPECT_THAT(t.recorder.until_last(waiting).back(), HasSubstr("UNAVAILABLE"));
}

TEST(TokenLane, NoRoomForKeysAndValuesFailsTheLoading) {
  auto spec = token_spec();
  bus::ModelStats stats;
  TokenPolicy policy;
  policy.kv_bytes = 10;
  Gate gate;
  EXPECT_THROW(make_token_lane(std::make_unique<GatedTokens>(spec, gate, gate), policy, spec, stats),
               std::runtime_error);
}

TEST(TokenLane, TwoBlocksAreEnough) {
  auto spec = token_spec();
  bus::ModelStats stats;
  TokenPolicy policy = Lab::policy();
  Gate gate;
  auto make = [&](size_t bytes) {
    policy.kv_bytes = bytes;
    return make_token_lane(std::make_unique<GatedTokens>(spec, gate, gate), policy, spec, stats);
  };
  EXPECT_NE(make(2 * 64), nullptr);  // of four positions, of 16 bytes each
  EXPECT_THROW(make(2 * 64 - 1), std::runtime_error);
}

// A client of the storm: checks what it hears against the reference, leaves or gives credit as it likes.
struct Listener final : msg::Sink {
  void on(msg::Call& call, msg::Event&& event) override {
    auto text = told(event);
    if (at < expected.size() && text == expected[at]) {
      ++at;
    } else if (text.find("RESOURCE_EXHAUSTED") == std::string::npos) {
      ++*wrong;
    }
    if (event.last()) return finished();
    if (leaves_after > 0 && --leaves_after == 0) {
      shard->bus.abandon(&call);
      return finished();
    }
    shard->bus.add_credit(&call, 1);
  }
  void finished() { --*open; }

  ShardThread* shard = nullptr;
  std::vector<std::string> expected;
  size_t at = 0;
  uint32_t leaves_after = 0;
  std::atomic<int>*open, *wrong;
};

TEST(TokenLane, AStormFromSeveralShardsTellsEveryoneHisOwn) {
  constexpr int kShards = 3, kCalls = 150;
  auto served = std::make_shared<bus::Served>();
  served->spec = token_spec();
  auto policy = Lab::policy();
  policy.max_waiting = 100'000;
  Gate gate;
  gate.open();
  served->inbox =
      make_token_lane(std::make_unique<GatedTokens>(served->spec, gate, gate), policy, served->spec, served->stats);
  auto catalog = std::make_shared<bus::Catalog>();
  catalog->models["talker"] = {{{"1", served}}, served.get()};
  std::atomic<int> open{0}, wrong{0};
  std::deque<Listener> listeners;
  {
    std::deque<ShardThread> shards;
    for (uint16_t i = 0; i < kShards; ++i) shards.emplace_back(i);
    std::mt19937 random(7);
    for (int i = 0; i < kShards * kCalls; ++i) {
      auto& listener = listeners.emplace_back();
      auto& shard = shards[size_t(i % kShards)];
      listener.shard = &shard, listener.open = &open, listener.wrong = &wrong;
      if (random() % 4 == 0) listener.leaves_after = 1 + random() % 8;
      uint32_t length = 1 + random() % 40, first = random() % 4, max = random() % 12, credit = 1 + random() % 3;
      ++open;
      shard.post([&, length, first, max, credit, catalog] {
        shard.bus.publish(catalog);
        auto* call = shard.bus.make_call();
        call->model = "talker";
        call->sink = &listener;
        call->credit = int32_t(credit);
        call->generation = std::make_unique<msg::Generation>();
        for (uint32_t k = 0; k < length; ++k) call->generation->append.push_back(5 + (first + k) % 80);
        call->generation->max_tokens = max;
        call->generation->sampling.temperature = 0;
        call->generation->ignore_eos = true;
        listener.expected = Reference(*call->generation, *served->spec.text, 256).says();
        ASSERT_TRUE(shard.bus.submit(call, *served).ok());
      });
    }
  }  // shards end when nothing is in flight
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(open, 0);
  EXPECT_EQ(served->stats.tokens->blocks_used.value(), 0);
  EXPECT_EQ(served->stats.tokens->running.value() + served->stats.tokens->waiting.value(), 0);
}

}  // namespace
}  // namespace weir::generation
