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

TEST(Pipeline, ANodeMayBeAPipeline) {
  auto inner = std::make_shared<bus::Served>();
  inner->spec = spec_of(8);
  inner->inbox = make_pipeline(chain({adder(1), doubler()}), inner->stats);
  Lab lab(chain({inner, adder(5), inner}));
  lab.send(1);
  EXPECT_EQ(lab.until(1), std::vector<std::string>{"1=20"});
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
