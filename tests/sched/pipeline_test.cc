#include <algorithm>
#include <set>

#include "pipeline_lab.h"

namespace weir::sched {
namespace {

TEST(Pipeline, OutputsFeedInputs) {
  Lab lab(chain({doubler(), doubler(), doubler()}));
  lab.send(3);
  EXPECT_EQ(lab.until(1), std::vector<std::string>{"3=24"});
  lab.idle();
  EXPECT_EQ(lab.served->stats.success.count, 1u);
  EXPECT_EQ(lab.served->stats.inference_count, 1u);
}

TEST(Pipeline, InlineNodesDoNotStepIntoEachOther) {
  auto one = adder(1);
  Lab lab(chain({one, one, doubler(), one, adder(10), one}));
  lab.send(3);
  EXPECT_EQ(lab.until(1), std::vector<std::string>{"3=22"});
}

// Hears one Call, and keeps the shape of its first output, or why it failed.
struct ShapeKeeper final : msg::Sink {
  std::promise<std::string> kept;
  void on(msg::Call&, msg::Event&& event) override {
    auto* outputs = std::get_if<msg::Outputs>(&event.what);
    kept.set_value(outputs ? outputs->tensors.at(0).shape.text() : std::get<msg::Failed>(event.what).status.text);
  }
};

// A doubler, which takes batches of rows of two, in a pipeline that takes no batches.
std::string shape_out_of(const msg::Shape& in, PipelinePort::Leading before, PipelinePort::Leading after) {
  PipelinePlan plan = chain({doubler()});
  plan.nodes[0].inputs[0].leading = before;
  plan.outputs[0].leading = after;
  Lab lab(std::move(plan));
  ShapeKeeper keeper;
  lab.send(0, [&](msg::Call& call) {
    call.sink = &keeper;
    call.inputs = {floats("x", in, std::vector<float>(*in.elements()))};
  });
  std::string text = keeper.kept.get_future().get();
  lab.idle();
  return text;
}

TEST(Pipeline, ARowIsABatchForANodeAndItsAnswerARowAgain) {
  using enum PipelinePort::Leading;
  EXPECT_EQ(shape_out_of({2}, kAdded, kAsItIs), "[1,2]");
  EXPECT_EQ(shape_out_of({2}, kAdded, kDropped), "[2]");
  EXPECT_EQ(shape_out_of({1, 1, 2}, kDropped, kAsItIs), "[1,2]");
}

TEST(Pipeline, ABatchOfSeveralRowsIsNoRow) {
  using enum PipelinePort::Leading;
  EXPECT_EQ(shape_out_of({3, 2}, kAsItIs, kDropped), "'y' is [3,2], where one row is taken");
  EXPECT_EQ(shape_out_of({2, 1, 2}, kDropped, kAsItIs), "node 'n0': 'x' is [2,1,2], where one row is taken");
}

TEST(Pipeline, AShapeThatIsFullHasNoRoomForABatch) {
  msg::Shape full;
  while (full.push(1)) continue;
  EXPECT_EQ(shape_out_of(full, PipelinePort::Leading::kAdded, PipelinePort::Leading::kAsItIs),
            "node 'n0': 'x' has too many dimensions for a batch");
}

// Hears one Call, and keeps the names of its outputs, or why it failed.
struct NamesKeeper final : msg::Sink {
  std::promise<std::string> kept;
  void on(msg::Call&, msg::Event&& event) override {
    auto* outputs = std::get_if<msg::Outputs>(&event.what);
    if (!outputs) return kept.set_value(std::get<msg::Failed>(event.what).status.text);
    std::string names;
    for (const auto& tensor : outputs->tensors) names += tensor.name;
    kept.set_value(names);
  }
};

// An adder that may make a "z" beside its "y", and never does; z is an input of the second node.
std::string outputs_without_z(std::vector<std::string> wanted, PipelinePort z_of_second) {
  PipelinePlan plan = chain({adder(1), adder(1)});
  plan.nodes[0].outputs.push_back({"z", 3, true});
  plan.nodes[1].inputs.push_back(z_of_second);
  plan.outputs.push_back({"z", 3});
  plan.slots = 4;
  Lab lab(std::move(plan));
  NamesKeeper keeper;
  lab.send(0, [&](msg::Call& call) { call.sink = &keeper, call.outputs = std::move(wanted); });
  std::string text = keeper.kept.get_future().get();
  lab.idle();
  return text;
}

TEST(Pipeline, AnOutputThatANodeLeavesOutIsAbsentBehindIt) {
  EXPECT_EQ(outputs_without_z({}, {"z", 3, true}), "y");
  EXPECT_EQ(outputs_without_z({"y"}, {"z", 3, true}), "y");
  EXPECT_EQ(outputs_without_z({"z"}, {"z", 3, true}), "no node made 'z'");
  EXPECT_EQ(outputs_without_z({}, {"z", 3, false}), "node 'n1': its input 'z' is missing");
}

// x -> a -> y, a -> b -> z; `after`: b waits for the third node, c, without an input of its.
std::vector<uint64_t> runs_for(std::vector<std::string> wanted, std::vector<uint32_t> after = {}) {
  PipelinePlan plan;
  plan.slots = 4;
  plan.inputs = {{"x", 0}};
  plan.nodes = {{"a", adder(1), {{"x", 0}}, {{"y", 1}}},
                {"c", adder(1), {{"x", 0}}, {{"y", 3}}},
                {"b", adder(1), {{"x", 1}}, {{"y", 2}}, std::move(after)}};
  plan.outputs = {{"y", 1}, {"z", 2}, {"c", 3}};
  const auto nodes = plan.nodes;
  Lab lab(std::move(plan));
  NamesKeeper keeper;
  lab.send(0, [&](msg::Call& call) { call.sink = &keeper, call.outputs = wanted; });
  std::string names;
  for (const auto& name : wanted) names += name;
  if (names.empty()) names = "yzc";
  EXPECT_EQ(keeper.kept.get_future().get(), names);
  lab.idle();
  std::vector<uint64_t> runs;
  for (const auto& node : nodes) runs.push_back(node.served->stats.inference_count.load());
  return runs;
}

TEST(Pipeline, NodesThatNoOutputOfTheCallNeedsDoNotRun) {
  using Runs = std::vector<uint64_t>;
  EXPECT_EQ(runs_for({}), (Runs{1, 1, 1}));
  EXPECT_EQ(runs_for({"y"}), (Runs{1, 0, 0}));
  EXPECT_EQ(runs_for({"z"}), (Runs{1, 0, 1}));
  EXPECT_EQ(runs_for({"c"}), (Runs{0, 1, 0}));
  EXPECT_EQ(runs_for({"y", "z", "c"}), (Runs{1, 1, 1}));
  EXPECT_EQ(runs_for({"y"}, {1}), (Runs{1, 1, 1}));
}

TEST(Pipeline, ANodeMayBeAPipeline) {
  auto inner = std::make_shared<bus::Served>();
  inner->spec = spec_of(8);
  inner->inbox = make_pipeline(chain({adder(1), doubler()}), inner->stats);
  Lab lab(chain({inner, adder(5), inner}));
  lab.send(1);
  EXPECT_EQ(lab.until(1), std::vector<std::string>{"1=20"});
}

// Hears one Call, and keeps what its pipeline has written of its steps.
struct StepsKeeper final : msg::Sink {
  std::promise<msg::PipelineSteps> kept;
  void on(msg::Call& call, msg::Event&&) override {
    kept.set_value(call.steps ? std::move(*call.steps) : msg::PipelineSteps{});
  }
};

msg::PipelineSteps steps_of(Lab& lab, float value, bool traced) {
  StepsKeeper keeper;
  lab.send(value, [&](msg::Call& call) {
    call.sink = &keeper;
    if (traced) call.steps = std::make_unique<msg::PipelineSteps>();
  });
  msg::PipelineSteps steps = keeper.kept.get_future().get();
  lab.idle();
  return steps;
}

TEST(Pipeline, StepsOfATracedCallAreTimedAndTheirPartsStandBehindThem) {
  auto inner = std::make_shared<bus::Served>();
  inner->spec = spec_of(8);
  inner->spec.name = "inner";
  inner->inbox = make_pipeline(chain({adder(1), doubler()}), inner->stats);
  Lab lab(chain({doubler(), inner}));
  const auto steps = steps_of(lab, 3, true).all;
  ASSERT_EQ(steps.size(), 4u);
  std::vector<std::string> names;
  for (const auto& step : steps) names.push_back(step.name + (step.is_pipeline ? "*" : ""));
  EXPECT_EQ(names, (std::vector<std::string>{"n0", "n1*", "n0", "n1"}));
  EXPECT_EQ(steps[1].model, "inner");
  EXPECT_EQ(steps[1].parent, msg::StepTimes::kNone);
  for (size_t part : {2, 3}) {
    EXPECT_EQ(steps[part].parent, 1u);
    EXPECT_LE(steps[1].times.queued, steps[part].times.queued);
    EXPECT_LE(steps[part].times.finished, steps[1].times.finished);
  }
  EXPECT_LE(steps[0].times.finished, steps[1].times.queued);
  EXPECT_LE(steps[2].times.finished, steps[3].times.queued);
}

// Hears one Call, and keeps the parameters of its answer.
struct ParametersReader final : msg::Sink {
  std::promise<msg::Parameters> read;
  void on(msg::Call&, msg::Event&& event) override { read.set_value(std::get<msg::Outputs>(event.what).parameters); }
};

TEST(Pipeline, AnAnswerSaysWhichRequestOfASequenceItIsOf) {
  Lab lab(chain({adder(1), doubler()}));
  auto told = [&](const msg::Parameters& parameters, uint64_t session) {
    ParametersReader reader;
    lab.send(1, [&](msg::Call& call) {
      call.sink = &reader;
      call.parameters = parameters;
      call.session = {0, session};
    });
    auto answer = reader.read.get_future().get();
    lab.idle();
    return answer;
  };
  const msg::Parameters last{{"sequence_id", int64_t(7)}, {"sequence_start", false}, {"sequence_end", true}};
  EXPECT_EQ(told(last, 7), last);
  EXPECT_EQ(told({{"sequence_id", int64_t(0)}}, 0), msg::Parameters{});
  EXPECT_EQ(told({}, 0), msg::Parameters{});
}

TEST(Pipeline, NothingIsKeptOfACallThatIsNotTraced) {
  Lab lab(chain({adder(1), doubler()}));
  EXPECT_TRUE(steps_of(lab, 3, false).all.empty());
}

TEST(Pipeline, AStepThatHasFailedSaysItsCode) {
  Lab lab(chain({adder(1), doubler(), adder(1)}));
  const auto steps = steps_of(lab, kPoison - 1, true).all;
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].code, base::Code::kOk);
  EXPECT_EQ(steps[1].code, base::Code::kInvalidArgument);
}

TEST(Pipeline, StepsBeyondTheMostAreCounted) {
  msg::PipelineSteps all;
  for (size_t i = 0; i < msg::PipelineSteps::kMost / 2; ++i) {
    msg::PipelineSteps parts;
    parts.add({}, {});
    parts.add({}, {});
    all.add({}, std::move(parts));
  }
  EXPECT_EQ(all.all.size(), msg::PipelineSteps::kMost);
  EXPECT_EQ(all.left_out, msg::PipelineSteps::kMost / 2);
  for (size_t i = 0; i < all.all.size(); ++i)
    if (all.all[i].parent != msg::StepTimes::kNone) {
      EXPECT_TRUE(all.all[i].parent < i && all.all[all.all[i].parent].is_pipeline) << i;
    }
}

TEST(Pipeline, EachNodeBatchesWhatMeetsInItsLane) {
  Gate gate;
  auto second = doubler(&gate);
  Lab lab(chain({adder(0), second}));
  lab.send(1);
  gate.until_waiting(1);
  for (int i = 2; i <= 5; ++i) lab.send(float(i));
  gate.open();
  EXPECT_EQ(lab.until(5).size(), 5u);
  EXPECT_EQ(second->stats.execution_count, 2u);
  EXPECT_EQ(second->stats.inference_count, 5u);
  lab.idle();
}

TEST(Pipeline, AFailureNamesItsNodeAndKeepsItsCode) {
  Lab lab(chain({adder(1), doubler(), adder(1)}));
  lab.send(kPoison - 1);
  lab.send(4);
  auto heard = lab.until(2);
  std::sort(heard.begin(), heard.end());
  EXPECT_EQ(heard[0], "4=11");
  EXPECT_EQ(heard[1], "665=INVALID_ARGUMENT: node 'n1': poison");
  lab.idle();
  EXPECT_EQ(lab.served->stats.fail.count, 1u);
}

TEST(Pipeline, WhoLeavesIsCancelledInTheNodeThatHasTheCall) {
  Gate gate;
  auto held = doubler(&gate);
  auto after = doubler();
  Lab lab(chain({adder(1), held, after}));
  lab.send(1);
  gate.until_waiting(1);
  msg::Call* queued = lab.send(2);
  lab.shard.post([&] { lab.shard.bus.abandon(queued); });
  lab.shard.post([&] { gate.open(); });
  EXPECT_EQ(lab.until(1), std::vector<std::string>{"1=8"});
  lab.idle();
  EXPECT_EQ(held->stats.inference_count, 1u);  // the second row never ran
  EXPECT_EQ(after->stats.inference_count, 1u);
}

TEST(Pipeline, WhoLeavesEndsWhatIsNestedToo) {
  Gate gate;
  auto held = doubler(&gate);
  auto after = doubler();
  std::shared_ptr<bus::Served> inner;
  for (int level = 0; level < 4; ++level) {
    auto outer = std::make_shared<bus::Served>();
    outer->spec = spec_of(8);
    outer->inbox = make_pipeline(level == 0 ? chain({held, after}) : chain({inner, inner, inner}), outer->stats);
    inner = outer;
  }
  Lab lab(chain({inner, after}));
  msg::Call* call = lab.send(1);
  gate.until_waiting(1);
  lab.shard.post([&] { lab.shard.bus.abandon(call); });
  lab.shard.post([&] { gate.open(); });
  lab.idle();
  EXPECT_LE(held->stats.inference_count, 1u) << "of 27";
  EXPECT_EQ(after->stats.inference_count, 0u) << "of 28";
}

TEST(Pipeline, TheDeadlineGoesWithTheCall) {
  Gate gate;
  auto held = doubler(&gate);
  Lab lab(chain({held, doubler()}));
  lab.send(1);
  gate.until_waiting(1);
  lab.send(2, [](msg::Call& call) { call.deadline = std::chrono::steady_clock::now() + 5ms; });
  EXPECT_EQ(lab.until(1), std::vector<std::string>{"2=DEADLINE_EXCEEDED: the deadline has passed"});
  gate.open();
  EXPECT_EQ(lab.until(2).back(), "1=4");
  lab.idle();
  EXPECT_EQ(held->stats.inference_count, 1u);
}

TEST(Pipeline, ManyCallsFromManyThreadsComeBackOnce) {
  auto one = doubler(), two = adder(1);
  Lab lab(chain({one, two, one, two}));
  for (int i = 1; i <= 300; ++i) lab.send(float(i));
  auto heard = lab.until(300);
  lab.idle();
  EXPECT_EQ(std::set<std::string>(heard.begin(), heard.end()).size(), 300u);
  EXPECT_TRUE(std::count(heard.begin(), heard.end(), "300=1203"));
  EXPECT_EQ(lab.served->stats.pending, 0);
}

TEST(Pipeline, OutputsAskedForAreAllThatComes) {
  auto first = doubler();
  PipelinePlan plan;
  plan.slots = 3;
  plan.inputs = {{"x", 0}};
  plan.nodes = {{"a", first, {{"x", 0}}, {{"y", 1}}}, {"b", first, {{"x", 1}}, {{"y", 2}}}};
  plan.outputs = {{"once", 1}, {"twice", 2}};
  Lab lab(std::move(plan));
  lab.send(1, [](msg::Call& call) { call.outputs = {"twice"}; });
  lab.send(2);
  auto heard = lab.until(2);
  std::sort(heard.begin(), heard.end());
  EXPECT_EQ(heard, (std::vector<std::string>{"1=4", "2=4"}));  // the second hears `once` first
}

}  // namespace
}  // namespace weir::sched
