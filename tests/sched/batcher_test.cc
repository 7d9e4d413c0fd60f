// Which calls run together, and when.
#include "sched/batcher.h"

#include "line.h"

namespace weir::sched {
namespace {

TEST(Batcher, WithoutADelayWhatIsThereRunsAtOnce) {
  Line t(spec_of(4));
  EXPECT_EQ(t.next(), "");
  EXPECT_EQ(t.batcher.ready_at(t.now), base::kNever);
  t.put("a"), t.put("b");
  EXPECT_LE(t.batcher.ready_at(t.now), t.now);
  EXPECT_EQ(t.next(), "ab");
  EXPECT_TRUE(t.batcher.empty());
}

TEST(Batcher, ABatchIsNeverLargerThanTheModelTakes) {
  Line t(spec_of(4));
  for (auto* id : {"a", "b", "c", "d", "e", "f"}) t.put(id);
  EXPECT_EQ(t.next(), "abcd");
  EXPECT_EQ(t.next(), "ef");
}

TEST(Batcher, CallsBringTheirOwnRowsAndStayInOrder) {
  Line t(spec_of(4));
  t.put("a", 2), t.put("b", 3), t.put("c", 1), t.put("d", 4);
  EXPECT_EQ(t.next(), "a") << "b does not fit, and c does not overtake it";
  EXPECT_EQ(t.next(), "bc");
  EXPECT_EQ(t.next(), "d");
}

TEST(Batcher, TheOldestCallWaitsAtMostTheDelay) {
  auto spec = spec_of(4);
  spec.batching.max_delay = 10ms;
  Line t(spec);
  t.put("a");
  t.now += 6ms;
  t.put("b");
  EXPECT_EQ(t.next(), "");
  EXPECT_EQ(t.batcher.ready_at(t.now), t.now + 4ms);
  t.now += 4ms;
  EXPECT_EQ(t.next(), "ab");
}

TEST(Batcher, AFullBatchDoesNotWait) {
  auto spec = spec_of(3);
  spec.batching.max_delay = 10ms;
  Line t(spec);
  t.put("a"), t.put("b");
  EXPECT_EQ(t.next(), "");
  t.put("c"), t.put("d");
  EXPECT_EQ(t.next(), "abc");
  EXPECT_EQ(t.next(), "");
}

TEST(Batcher, ACallThatCannotJoinClosesTheBatchBeforeIt) {
  auto spec = spec_of(4, -1);
  spec.batching.max_delay = 10ms;
  Line t(spec);
  t.put("a", 1, 2), t.put("b", 1, 2), t.put("c", 1, 3);
  EXPECT_EQ(t.next(), "ab");
  EXPECT_EQ(t.next(), "");
  t.now += 10ms;
  EXPECT_EQ(t.next(), "c");
}

TEST(Batcher, CallsWithOtherOptionalInputsStayApart) {
  auto spec = spec_of(4);
  spec.inputs.push_back({"mask", msg::DType::kFp32, {1}, true, {}});
  Line t(spec);
  t.put("a");
  auto& call = t.calls.emplace_back();
  call.id = "b";
  fill(call, 1);
  call.inputs.push_back(floats("mask", {1, 1}, {1}));
  t.queue(call);
  EXPECT_EQ(t.next(), "a");
  EXPECT_EQ(t.next(), "b");
}

TEST(Batcher, RaggedModelsTakeRowsOfAnyShapeTogether) {
  auto spec = spec_of(8, -1);
  spec.inputs.push_back({"mask", msg::DType::kFp32, {-1}, true, {}});
  spec.ragged = true;
  msg::Call calls[3];
  for (uint32_t i = 0; i < 3; ++i) fill(calls[i], 1, 0, i + 1);
  calls[1].inputs.push_back(floats("mask", {1, 2}, {1, 1}));
  EXPECT_TRUE(same_rows(calls[0], calls[1], spec));
  EXPECT_EQ(row_key(calls[0], spec), row_key(calls[1], spec));
  Batcher batcher(spec);
  std::vector<Dropped> dropped;
  std::vector<msg::Call*> batch;
  for (auto& call : calls) ASSERT_TRUE(batcher.add(&call, base::Time(1s), dropped).ok());
  batcher.next(base::Time(1s), batch, dropped);
  EXPECT_EQ(batch.size(), 3u);
  Batch staged;
  staged.calls = batch;
  ASSERT_TRUE(stage(staged, spec, base::heap()));
  EXPECT_EQ(staged.rows, 3u);
  EXPECT_TRUE(staged.inputs.empty());
}

TEST(Batcher, RowsOfTwoTypesStayApart) {
  auto spec = spec_of(8);
  spec.inputs[0].second_dtype = msg::DType::kInt32;
  msg::Call a, b;
  fill(a, 1), fill(b, 1);
  b.inputs[0].dtype = msg::DType::kInt32;
  EXPECT_TRUE(tensors_fit(b, spec).ok());
  EXPECT_FALSE(same_rows(a, b, spec));
  b.inputs[0].dtype = msg::DType::kUint32;
  EXPECT_FALSE(tensors_fit(b, spec).ok());
}

TEST(Batcher, InputsInAnotherOrderAreTheSameInputs) {
  auto spec = spec_of(4, -1);
  spec.inputs.push_back({"z", msg::DType::kFp32, {-1}, false, {}});
  Line t(spec);
  for (auto* id : {"a", "b"}) {
    auto& call = t.calls.emplace_back();
    call.id = id;
    call.inputs.push_back(floats("x", {1, 2}, {1, 1}));
    call.inputs.push_back(floats("z", {1, 3}, {1, 1, 1}));
    if (call.id == "b") std::swap(call.inputs[0], call.inputs[1]);
    t.queue(call);
  }
  EXPECT_EQ(t.next(), "ab");
}

TEST(Batcher, APreferredSizeRunsBeforeTheDelay) {
  auto spec = spec_of(8);
  spec.batching.max_delay = 10ms;
  spec.batching.preferred = {2, 4};
  Line t(spec);
  t.put("a");
  EXPECT_EQ(t.next(), "");
  t.put("b"), t.put("c");
  EXPECT_EQ(t.next(), "ab") << "the largest preferred size that is there";
  EXPECT_EQ(t.next(), "");
  t.put("d"), t.put("e"), t.put("f"), t.put("g");
  EXPECT_EQ(t.next(), "cdef");
  t.now += 10ms;
  EXPECT_EQ(t.next(), "g");
}

TEST(Batcher, AfterTheDelayEverythingRunsWhateverIsPreferred) {
  auto spec = spec_of(8);
  spec.batching.max_delay = 10ms;
  spec.batching.preferred = {4};
  Line t(spec);
  t.put("a"), t.put("b");
  t.now += 10ms;
  t.put("c"), t.put("d"), t.put("e");
  EXPECT_EQ(t.next(), "abcde");
}

TEST(Batcher, CallsThatJumpOverThePreferredSizeRunBelowIt) {
  auto spec = spec_of(16);
  spec.batching.max_delay = 10ms;
  spec.batching.preferred = {4};
  Line t(spec);
  t.put("a", 3), t.put("b", 3);
  EXPECT_EQ(t.next(), "a");
}

TEST(Batcher, WithoutADelayAPreferredSizeStillWins) {
  auto spec = spec_of(8);
  spec.batching.preferred = {4};
  Line t(spec);
  for (auto* id : {"a", "b", "c", "d", "e"}) t.put(id);
  EXPECT_EQ(t.next(), "abcd");
  EXPECT_EQ(t.next(), "e");
}

TEST(Batcher, ModelsThatAreNotDynamicRunOneCallAtATime) {
  auto spec = spec_of(8);
  spec.batching.dynamic = false;
  spec.batching.max_delay = 10ms;
  Line t(spec);
  t.put("a", 3), t.put("b");
  EXPECT_EQ(t.next(), "a");
  EXPECT_EQ(t.next(), "b");
}

TEST(Batcher, ModelsWithoutABatchDimensionRunOneCallAtATime) {
  Line t(spec_of(0));
  t.put("a"), t.put("b");
  EXPECT_EQ(t.next(), "a");
  EXPECT_EQ(t.next(), "b");
}

TEST(Batcher, UrgentCallsGoFirstAndCallsOfOneLevelKeepTheirOrder) {
  auto spec = spec_of(2);
  spec.batching.priority_levels = 3;
  spec.batching.default_priority = 2;
  Line t(spec);
  t.put("a", 3, 0ms), t.put("b", 0, 0ms), t.put("c", 1, 0ms), t.put("d", 3, 0ms), t.put("e", 1, 0ms),
      t.put("f", 99, 0ms);
  EXPECT_EQ(t.next(), "ce");
  EXPECT_EQ(t.next(), "bf") << "no priority, and one that does not exist, mean the default";
  EXPECT_EQ(t.next(), "ad");
}

TEST(Batcher, ABatchReachesDownTheLevels) {
  auto spec = spec_of(4);
  spec.batching.priority_levels = 2;
  Line t(spec);
  t.put("a", 2, 0ms), t.put("b", 1, 0ms), t.put("c", 2, 0ms);
  EXPECT_EQ(t.next(), "bac");
}

TEST(Batcher, ALevelThatTheModelDoesNotHaveIsIgnored) {
  Line t(spec_of(4));
  t.put("a", 5, 0ms), t.put("b", 1, 0ms);
  EXPECT_EQ(t.next(), "ab");
}

// Whatever is put, in whatever order: batches are within the limit, of one shape, in order of priority and arrival, and
// every call leaves exactly once.
TEST(Batcher, AnySequenceLeavesEveryCallOnceAndInOrder) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    uint64_t state = seed * 0x9e3779b97f4a7c15;
    auto random = [&](uint32_t n) {
      state = state * 6364136223846793005 + 1442695040888963407;
      return uint32_t(state >> 33) % n;
    };
    auto spec = spec_of(1 + random(6), -1);
    spec.batching.priority_levels = random(3);
    spec.batching.max_delay = base::Duration(random(3) * 1ms);
    if (random(2)) spec.batching.preferred = {1 + random(3), 4};
    Line t(spec);
    std::vector<size_t> seen;
    size_t made = 0;
    auto take = [&] {
      std::vector<msg::Call*> batch;
      t.batcher.next(t.now, batch, t.dropped);
      uint32_t rows = 0;
      for (auto* call : batch) {
        rows += call->rows;
        ASSERT_EQ(call->inputs[0].shape[1], batch[0]->inputs[0].shape[1]);
        seen.push_back(std::stoul(call->id));
      }
      ASSERT_LE(rows, spec.max_batch);
      for (auto& [call, why] : t.dropped) seen.push_back(std::stoul(call->id));
      t.dropped.clear();
      if (spec.batching.priority_levels < 2) {
        ASSERT_TRUE(std::is_sorted(batch.begin(), batch.end(),
                                   [](auto* a, auto* b) { return std::stoul(a->id) < std::stoul(b->id); }));
      }
    };
    while (made < 100) {
      auto& call = t.put(std::to_string(made++), 1 + random(spec.max_batch), 1 + random(2));
      call.cancelled = random(8) == 0;
      if (random(3) == 0) take();
      t.now += base::Duration(random(1'000'000));
    }
    t.batcher.hurry();
    while (!t.batcher.empty()) take();
    std::sort(seen.begin(), seen.end());
    ASSERT_EQ(seen.size(), made);
    for (size_t i = 0; i < made; ++i) ASSERT_EQ(seen[i], i);
  }
}

}  // namespace
}  // namespace weir::sched
