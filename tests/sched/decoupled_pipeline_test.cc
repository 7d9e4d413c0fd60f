#include "sched/decoupled_pipeline.h"

#include "bus/response_stats.h"
#include "pipeline_lab.h"
#include "sched/deadline_timer.h"
#include "sched/decoupled_inbox.h"
#include "sched/pipeline_cut.h"

namespace weir::sched {
namespace {

using base::Code;

// x -> y: answers with x, x - 1, … down to 1, as fast as it is asked; below 0 it fails.
class Countdown final : public DecoupledEngine {
 public:
  explicit Countdown(int fails_at) : fails_at_(fails_at) {}
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Result<std::unique_ptr<AnswerSeries>> begin(const msg::Call& call) override {
    return std::unique_ptr<AnswerSeries>(std::make_unique<Numbers>(int(floats_of(call.inputs.at(0)).at(0)), fails_at_));
  }

 private:
  struct Numbers final : AnswerSeries {
    Numbers(int first, int fails) : left(first), fails_at(fails) {}
    std::optional<base::Duration> next_in() const override {
      return left > 0 ? std::optional<base::Duration>(0ms) : std::nullopt;
    }
    base::Result<msg::Event> next() override {
      if (left == fails_at) return base::failure(Code::kNotFound, "no such number");
      return msg::Event{msg::Outputs{.tensors = {floats("y", {1, 2}, {float(left--), 0})}, .final = false}};
    }
    int left;
    const int fails_at;
  };
  const int fails_at_;
  msg::ModelSpec spec_ = spec_of(8);
};

// x -> y, as long as x is at least 2.
class Fussy final : public Engine {
 public:
  const msg::ModelSpec& spec() const override { return spec_; }
  bool is_inline() const override { return true; }
  base::Status step(Batch& batch) override {
    auto values = floats_of(batch.inputs[0]);
    if (values.at(0) < 2) return base::invalid("too small");
    batch.outputs = {floats("y", batch.inputs[0].shape, std::move(values))};
    return {};
  }

 private:
  msg::ModelSpec spec_;
};

std::shared_ptr<bus::Served> fussy() {
  auto served = std::make_shared<bus::Served>();
  served->spec = spec_of(8);
  served->inbox = make_inline(std::make_unique<Fussy>(), served->spec, served->stats);
  return served;
}

std::shared_ptr<bus::Served> countdown(int fails_at = -1) {
  auto served = std::make_shared<bus::Served>();
  served->spec = spec_of(8);
  served->spec.decoupled = true;
  served->inbox = make_decoupled(std::make_unique<Countdown>(fails_at), served->spec, served->stats, {100, 1},
                                 std::make_shared<TimerThread>());
  return served;
}

// Hears one Call: the first value of each answer, "end", or the text of the failure.
struct Words final : msg::Sink {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> all;
  bool over = false;

  void on(msg::Call&, msg::Event&& event) override {
    std::lock_guard lock(mutex);
    if (auto* failed = std::get_if<msg::Failed>(&event.what)) all.push_back(failed->status.text);
    if (auto* outputs = std::get_if<msg::Outputs>(&event.what); outputs && !outputs->tensors.empty())
      all.push_back(std::to_string(int(floats_of(outputs->tensors.at(0)).at(0))));
    if (event.last()) over = true, all.push_back("end");
    changed.notify_all();
  }
  bool until(size_t n) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(10), [&] { return all.size() >= n; });
  }
  size_t size() {
    std::lock_guard lock(mutex);
    return all.size();
  }
  std::vector<std::string> to_the_end() {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(10), [&] { return over; }));
    return all;
  }
};

std::vector<std::string> answers_of(PipelinePlan plan, float value) {
  Lab lab(std::move(plan));
  Words words;
  lab.send(value, [&](msg::Call& call) { call.sink = &words; });
  auto all = words.to_the_end();
  lab.idle();
  return all;
}

using Heard = std::vector<std::string>;

TEST(DecoupledPipeline, NodesBehindRunForEachAnswerInOrder) {
  EXPECT_EQ(answers_of(chain({adder(1), countdown(), doubler()}), 3), (Heard{"8", "6", "4", "2", "end"}));
}

TEST(DecoupledPipeline, TheNodeMayBeTheOnlyOneTheFirstOrTheLast) {
  EXPECT_EQ(answers_of(chain({countdown()}), 2), (Heard{"2", "1", "end"}));
  EXPECT_EQ(answers_of(chain({countdown(), adder(10), doubler()}), 2), (Heard{"24", "22", "end"}));
  EXPECT_EQ(answers_of(chain({doubler(), adder(-1), countdown()}), 2), (Heard{"3", "2", "1", "end"}));
}

TEST(DecoupledPipeline, NoAnswerOfTheNodeIsNoAnswer) {
  EXPECT_EQ(answers_of(chain({countdown(), doubler()}), 0), (Heard{"end"}));
}

TEST(DecoupledPipeline, AFailureOfTheNodeOrBehindItIsTheEnd) {
  EXPECT_EQ(answers_of(chain({countdown(2), doubler()}), 3), (Heard{"6", "node 'n0': no such number", "end"}));
  EXPECT_EQ(answers_of(chain({countdown(), fussy(), doubler()}), 3), (Heard{"6", "4", "node 'n1': too small", "end"}));
}

TEST(DecoupledPipeline, ADecoupledPipelineMayBeANode) {
  auto inner = std::make_shared<bus::Served>();
  inner->spec = spec_of(8);
  inner->spec.decoupled = true;
  inner->inbox = make_pipeline(chain({countdown(), doubler()}), inner->stats);
  EXPECT_EQ(answers_of(chain({adder(1), inner, adder(1)}), 1), (Heard{"5", "3", "end"}));
  EXPECT_EQ(inner->stats.success.count, 1u);
}

TEST(DecoupledPipeline, EachAnswerMayBeSeveralBehindIt) {
  const Heard all{"3", "2", "1", "2", "1", "1", "end"};
  EXPECT_EQ(answers_of(chain({countdown(), countdown()}), 3), all);
  EXPECT_EQ(answers_of(chain({adder(0), countdown(), adder(0), countdown(), adder(0)}), 3), all);
  EXPECT_EQ(answers_of(chain({countdown(), countdown(), countdown()}), 2), (Heard{"2", "1", "1", "1", "end"}));
  EXPECT_EQ(answers_of(chain({countdown(), countdown(2), doubler()}), 3),
            (Heard{"6", "node 'n1': no such number", "end"}));
}

TEST(DecoupledPipeline, WithoutCreditNodesBehindWait) {
  Lab lab(chain({countdown(), countdown()}));
  Words words;
  msg::Call* call = lab.send(3, [&](msg::Call& c) { c.sink = &words, c.credit = 2; });
  for (size_t heard : {2, 4, 6}) {
    ASSERT_TRUE(words.until(heard));
    std::this_thread::sleep_for(20ms);
    EXPECT_FALSE(heard < 6 && words.size() > heard);
    lab.shard.post([&] {
      call->credit += 2;
      lab.served->inbox->poke();
    });
  }
  EXPECT_EQ(words.to_the_end(), (Heard{"3", "2", "1", "2", "1", "1", "end"}));
  lab.idle();
}

TEST(DecoupledPipeline, WithoutCreditTheNodeWaits) {
  Lab lab(chain({countdown(), doubler()}));
  Words words;
  msg::Call* call = lab.send(4, [&](msg::Call& c) { c.sink = &words, c.credit = 2; });
  ASSERT_TRUE(words.until(2));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(words.all, (Heard{"8", "6"}));
  lab.shard.post([&] {
    call->credit += 10;
    lab.served->inbox->poke();
  });
  EXPECT_EQ(words.to_the_end(), (Heard{"8", "6", "4", "2", "end"}));
  lab.idle();
}

TEST(DecoupledPipeline, AClientThatLeavesEndsIt) {
  Lab lab(chain({countdown(), doubler()}));
  Words words;
  msg::Call* call = lab.send(1'000'000, [&](msg::Call& c) { c.sink = &words, c.credit = 3; });
  ASSERT_TRUE(words.until(3));
  lab.shard.post([&] {
    call->cancelled = true;
    lab.served->inbox->poke();
  });
  EXPECT_EQ(words.to_the_end().back(), "end");
  lab.idle();
}

TEST(DecoupledPipeline, ManyCallsGoBesideEachOther) {
  Lab lab(chain({adder(0), countdown(), doubler()}));
  std::deque<Words> words(20);
  for (auto& one : words) lab.send(50, [&](msg::Call& c) { c.sink = &one; });
  for (auto& one : words) EXPECT_EQ(one.to_the_end().size(), 51u);
  lab.idle();
  EXPECT_EQ(lab.served->stats.success.count, 20u);
  EXPECT_EQ(lab.served->stats.batches().at(1).count, 20u);
}

// Keeps what the pipeline has written of its steps, when the Call ends.
struct StepsReader final : msg::Sink {
  std::promise<msg::PipelineSteps> read;
  void on(msg::Call& call, msg::Event&& event) override {
    if (event.last()) read.set_value(std::move(*call.steps));
  }
};

msg::PipelineSteps traced(PipelinePlan plan, float value) {
  Lab lab(std::move(plan));
  StepsReader reader;
  lab.send(value, [&](msg::Call& call) {
    call.sink = &reader;
    call.steps = std::make_unique<msg::PipelineSteps>();
  });
  auto steps = reader.read.get_future().get();
  lab.idle();
  return steps;
}

std::vector<std::string> names_of(const msg::PipelineSteps& steps) {
  std::vector<std::string> names;
  for (const auto& step : steps.all)
    names.push_back((step.parent == msg::StepTimes::kNone ? "" : steps.all.at(step.parent).name + "/") + step.name);
  return names;
}

TEST(DecoupledPipeline, ATraceHasAStepForEachRunOfANode) {
  auto steps = traced(chain({adder(1), countdown(), doubler()}), 1);
  EXPECT_EQ(steps.all.size(), 4u);
  auto names = names_of(steps);
  EXPECT_EQ(names.at(0), "n0");
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (Heard{"n0", "n1", "n2", "n2"}));
  steps = traced(chain({countdown(2), doubler()}), 3);
  ASSERT_FALSE(steps.all.empty());
  for (const auto& step : steps.all) EXPECT_EQ(step.code, step.name == "n0" ? Code::kNotFound : Code::kOk);
}

TEST(DecoupledPipeline, StepsInsideOfStepsKnowTheirParents) {
  auto inner = std::make_shared<bus::Served>();
  inner->spec = spec_of(8);
  inner->inbox = make_pipeline(chain({adder(1), adder(1)}), inner->stats);
  auto names = names_of(traced(chain({countdown(), inner}), 2));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (Heard{"n0", "n1", "n1", "n1/n0", "n1/n0", "n1/n1", "n1/n1"}));
}

TEST(DecoupledPipeline, ATraceOfManyAnswersEndsSomewhere) {
  const auto steps = traced(chain({countdown(), adder(1)}), 1000);
  EXPECT_EQ(steps.all.size(), msg::PipelineSteps::kMost);
  EXPECT_EQ(steps.all.size() + steps.left_out, 1001u);
}

TEST(DecoupledPipeline, EachAnswerCountsByItsPlace) {
  Lab lab(chain({countdown(2), doubler()}));
  for (float value : {1, 1, 0, 3}) {
    Words words;
    lab.send(value, [&](msg::Call& call) { call.sink = &words; });
    (void)words.to_the_end();
  }
  lab.idle();
  const auto* counted = bus::response_stats(*lab.served);
  ASSERT_TRUE(counted);
  const auto& rows = counted->rows();
  EXPECT_EQ(rows[0].success.count, 3u);  // 1, 1 and 3
  EXPECT_EQ(rows[0].empty.count, 1u);    // 0
  EXPECT_EQ(rows[1].fail.count, 1u);     // behind 3
  EXPECT_EQ(rows[1].success.count, 0u);
  EXPECT_LE(rows[1].empty.count, 2u);  // an end comes with the answer, or behind it
  const auto& first = bus::counts_responses(*lab.served)->first_responses();
  EXPECT_EQ(first.count(0) + first.count(1) + first.count(2) + first.count(3) + first.count(4), 3u);
}

// x -> a, x -> unread; a -> n, decoupled; n, a -> b; n -> d; the outputs are those of b, d, unread and a. `after`: b
// waits for such nodes, too.
std::vector<uint64_t> successes_for(std::vector<std::string> wanted, std::shared_ptr<bus::Served> d,
                                    std::vector<uint32_t> after = {}) {
  PipelinePlan plan;
  plan.slots = 6;
  plan.inputs = {{"x", 0}};
  plan.nodes = {{"a", adder(1), {{"x", 0}}, {{"y", 1}}},
                {"unread", adder(1), {{"x", 0}}, {{"y", 2}}},
                {"n", countdown(), {{"x", 1}}, {{"y", 3}}},
                {"b", adder(1), {{"x", 3}}, {{"y", 4}}, std::move(after)},
                {"d", std::move(d), {{"x", 3}}, {{"y", 5}}}};
  plan.outputs = {{"b", 4}, {"d", 5}, {"unread", 2}, {"a", 1}};
  const auto nodes = plan.nodes;
  Lab lab(std::move(plan));
  Words words;
  lab.send(0, [&](msg::Call& call) { call.sink = &words, call.outputs = std::move(wanted); });
  EXPECT_EQ(words.to_the_end().size(), 2u);
  lab.idle();
  std::vector<uint64_t> runs;
  for (const auto& node : nodes) runs.push_back(node.served->stats.success.count);
  return runs;
}

TEST(DecoupledPipeline, NodesThatNoOutputOfTheCallNeedsDoNotRun) {
  using Runs = std::vector<uint64_t>;
  EXPECT_EQ(successes_for({}, doubler()), (Runs{1, 1, 1, 1, 1}));
  EXPECT_EQ(successes_for({"b"}, doubler()), (Runs{1, 0, 1, 1, 0}));
  EXPECT_EQ(successes_for({"unread"}, doubler()), (Runs{1, 1, 1, 0, 0}));
  EXPECT_EQ(successes_for({"a"}, doubler()), (Runs{1, 0, 1, 0, 0}));
  EXPECT_EQ(successes_for({"b", "d"}, doubler()), (Runs{1, 0, 1, 1, 1}));
}

TEST(DecoupledPipeline, NodesRunThatWaitForOthersThanTheirInputs) {
  using Runs = std::vector<uint64_t>;
  EXPECT_EQ(successes_for({"d"}, doubler(), {1}), (Runs{1, 1, 1, 1, 1}));
}

TEST(DecoupledPipeline, EachOfItsDecoupledNodesRuns) {
  using Runs = std::vector<uint64_t>;
  EXPECT_EQ(successes_for({"b"}, countdown()), (Runs{1, 0, 1, 1, 1}));
}

// x -> a -> b; x -> c; the outputs are those of b and c.
TEST(PipelineCut, ANodeWithoutInputsMayNeedNothingBeforeTheCut) {
  PipelinePlan plan;
  plan.slots = 4;
  plan.inputs = {{"x", 0}};
  plan.nodes = {{"a", countdown(), {}, {{"y", 1}}},
                {"b", adder(1), {{"x", 1}}, {{"y", 2}}},
                {"c", adder(1), {{"x", 0}}, {{"y", 3}}}};
  plan.outputs = {{"b", 2}, {"c", 3}};
  const CutPlan parts = cut(plan, 0);
  EXPECT_TRUE(needed_before(parts, {"b"}).empty());
  EXPECT_EQ(needed_before(parts, {"c"}), std::vector{slot_name(3)});
}

// x -> a -> b, x -> c; the outputs are those of b and c.
TEST(PipelineCut, NodesThatDoNotWaitForTheDecoupledOneAreBeforeTheCut) {
  PipelinePlan plan;
  plan.slots = 4;
  plan.inputs = {{"x", 0}};
  plan.nodes = {{"a", countdown(), {{"x", 0}}, {{"y", 1}}},
                {"b", adder(1), {{"x", 1}}, {{"y", 2}}},
                {"c", adder(1), {{"x", 0}}, {{"y", 3}}}};
  plan.outputs = {{"b", 2}, {"c", 3}};
  ASSERT_EQ(decoupled_node(plan), 0u);
  CutPlan parts = cut(plan, 0);
  ASSERT_EQ(parts.before.nodes.size(), 1u);
  EXPECT_EQ(parts.before.nodes[0].name, "c");
  ASSERT_EQ(parts.after.nodes.size(), 1u);
  EXPECT_EQ(parts.after.nodes[0].name, "b");
  ASSERT_EQ(parts.after.inputs.size(), 2u);
  EXPECT_EQ(parts.after.inputs[0].tensor, slot_name(1));
  EXPECT_EQ(slot_of(parts.after.inputs[1].tensor), 3u);
}

TEST(PipelineCut, DecoupledNodesBesideEachOtherAreNoChain) {
  EXPECT_TRUE(chained(chain({adder(1), doubler()})));
  EXPECT_TRUE(chained(chain({countdown(), doubler(), countdown(), countdown()})));
  PipelinePlan plan = chain({countdown(), doubler(), countdown()});
  plan.nodes[2].inputs[0].slot = 0;
  EXPECT_FALSE(chained(plan));
}

}  // namespace
}  // namespace weir::sched
