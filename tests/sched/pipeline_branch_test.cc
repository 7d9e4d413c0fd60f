// Nodes that do not depend on each other: they run at the same time, meet again, and end together.
#include <atomic>

#include "pipeline_lab.h"

namespace weir::sched {
namespace {

// Holds a step until so many are inside at once; where the others do not come, it fails.
class Meeting {
 public:
  explicit Meeting(int wanted) : wanted_(wanted) {}
  bool meet() {
    std::unique_lock lock(mutex_);
    ++inside_;
    changed_.notify_all();
    return changed_.wait_for(lock, 20s, [&] { return inside_ >= wanted_; });
  }

 private:
  const int wanted_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int inside_ = 0;
};

// x -> y, once the others are there, too.
class Meeter final : public Engine {
 public:
  explicit Meeter(Meeting& meeting) : meeting_(meeting) {}
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(Batch& batch) override {
    if (!meeting_.meet()) return base::invalid("nobody else came");
    batch.outputs = {floats("y", batch.inputs[0].shape, floats_of(batch.inputs[0]))};
    return {};
  }

 private:
  Meeting& meeting_;
  msg::ModelSpec spec_;
};

// a, b -> y: a + 100 b
class Summer final : public Engine {
 public:
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(Batch& batch) override {
    auto a = floats_of(batch.inputs[0]), b = floats_of(batch.inputs[1]);
    for (size_t i = 0; i < a.size(); ++i) a[i] += 100 * b[i];
    batch.outputs = {floats("y", batch.inputs[0].shape, std::move(a))};
    return {};
  }

 private:
  msg::ModelSpec spec_;
};

std::shared_ptr<bus::Served> summer() {
  auto served = std::make_shared<bus::Served>();
  served->spec = spec_of(8);
  served->spec.inputs = {{"a", msg::DType::kFp32, {2}, false, {}}, {"b", msg::DType::kFp32, {2}, false, {}}};
  served->spec.batching.max_queue = 0;
  std::vector<std::unique_ptr<Engine>> engines;
  engines.push_back(std::make_unique<Summer>());
  served->inbox = make_lanes(std::move(engines), served->spec, served->stats, base::heap());
  return served;
}

// x -> left, x -> right; both -> sum -> y
PipelinePlan diamond(std::shared_ptr<bus::Served> left, std::shared_ptr<bus::Served> right,
                     std::shared_ptr<bus::Served> sum) {
  PipelinePlan plan;
  plan.slots = 4;
  plan.inputs = {{"x", 0}};
  plan.nodes = {{"left", std::move(left), {{"x", 0}}, {{"y", 1}}},
                {"right", std::move(right), {{"x", 0}}, {{"y", 2}}},
                {"sum", std::move(sum), {{"a", 1}, {"b", 2}}, {{"y", 3}}}};
  plan.outputs = {{"y", 3}};
  return plan;
}

TEST(PipelineBranches, IndependentNodesRunAtTheSameTimeAndMeetAgain) {
  Meeting meeting(2);
  auto sum = summer();
  Lab lab(diamond(served_by(std::make_unique<Meeter>(meeting)), served_by(std::make_unique<Meeter>(meeting)), sum));
  lab.send(3);
  EXPECT_EQ(lab.until(1), std::vector<std::string>{"3=303"});
  lab.idle();
  EXPECT_EQ(sum->stats.execution_count, 1u);
  EXPECT_EQ(lab.served->stats.success.count, 1u);
}

TEST(PipelineBranches, BranchesBehindOneNodeRunAtTheSameTime) {
  Meeting meeting(3);
  auto meeter = [&] { return served_by(std::make_unique<Meeter>(meeting)); };
  PipelinePlan plan;
  plan.slots = 5;
  plan.inputs = {{"x", 0}};
  plan.nodes = {{"first", adder(1), {{"x", 0}}, {{"y", 1}}},
                {"a", meeter(), {{"x", 1}}, {{"y", 2}}},
                {"b", meeter(), {{"x", 1}}, {{"y", 3}}},
                {"c", meeter(), {{"x", 1}}, {{"y", 4}}}};
  plan.outputs = {{"c", 4}, {"b", 3}, {"a", 2}};
  Lab lab(std::move(plan));
  lab.send(1);
  EXPECT_EQ(lab.until(1), std::vector<std::string>{"1=2"});
}

TEST(PipelineBranches, ANodeWaitsForAllThatItReads) {
  Gate gate;
  auto sum = summer();
  auto left = adder(1);
  Lab lab(diamond(left, doubler(&gate), sum));
  lab.send(3);
  gate.until_waiting(1);
  EXPECT_EQ(left->stats.execution_count, 1u);
  EXPECT_EQ(sum->stats.pending, 0);
  EXPECT_EQ(sum->stats.execution_count, 0u);
  gate.open();
  EXPECT_EQ(lab.until(1), std::vector<std::string>{"3=604"});
}

TEST(PipelineBranches, NodesThatAreToRunOneAfterTheOtherDo) {
  Gate gate;
  auto first = doubler(&gate), second = doubler();
  PipelinePlan plan;
  plan.slots = 3;
  plan.inputs = {{"x", 0}};
  plan.nodes = {{"first", first, {{"x", 0}}, {{"y", 1}}, {}}, {"second", second, {{"x", 0}}, {{"y", 2}}, {0}}};
  plan.outputs = {{"y", 2}};
  Lab lab(std::move(plan));
  lab.send(3);
  gate.until_waiting(1);
  EXPECT_EQ(second->stats.pending, 0);
  EXPECT_EQ(second->stats.execution_count, 0u);
  gate.open();
  EXPECT_EQ(lab.until(1), std::vector<std::string>{"3=6"});
  EXPECT_EQ(second->stats.execution_count, 1u);
}

TEST(PipelineBranches, WhenOneFailsWhatWaitsInTheOtherLeavesItsQueue) {
  Gate gate;
  auto held = doubler(&gate);
  auto sum = summer();
  Lab lab(diamond(doubler(), held, sum));
  lab.send(1);
  gate.until_waiting(1);
  lab.send(kPoison);
  EXPECT_EQ(lab.until(1), std::vector<std::string>{"666=INVALID_ARGUMENT: node 'left': poison"});
  gate.open();
  EXPECT_EQ(lab.until(2).back(), "1=202");
  lab.idle();
  EXPECT_EQ(held->stats.inference_count, 1u) << "of the failed call it has run nothing";
  EXPECT_EQ(sum->stats.inference_count, 1u);
  EXPECT_EQ(lab.served->stats.fail.count, 1u);
  EXPECT_EQ(lab.served->stats.pending, 0);
}

// An engine ends what it has begun: until then the Call's tensors are in use. The second Call's answer from 'left'
// comes to the shard behind the failure of the first: 'behind' has run, so the failure has been taken in.
TEST(PipelineBranches, WhenOneFailsTheCallIsAnsweredAfterWhatRuns) {
  Gate first, second;
  auto left = doubler(&first), right = doubler(&second), behind = adder(0);
  auto sum = summer();
  PipelinePlan plan = diamond(left, right, sum);
  plan.nodes.push_back({"behind", behind, {{"x", 1}}, {{"y", plan.slots}}});
  ++plan.slots;
  Lab lab(std::move(plan));
  lab.send(kPoison);
  first.until_waiting(1), second.until_waiting(1);
  lab.send(1);
  first.open();
  while (behind->stats.execution_count == 0) std::this_thread::yield();
  {
    std::lock_guard lock(lab.mutex);
    EXPECT_TRUE(lab.heard.empty());
  }
  second.open();
  EXPECT_EQ(lab.until(2), (std::vector<std::string>{"666=INVALID_ARGUMENT: node 'left': poison", "1=202"}));
  lab.idle();
  EXPECT_EQ(sum->stats.inference_count, 1u) << "of the failed call it has run nothing";
}

TEST(PipelineBranches, WhenAllFailTheFirstFailureIsTheAnswer) {
  Gate first, second;
  Lab lab(diamond(doubler(&first), doubler(&second), summer()));
  lab.send(kPoison);
  first.until_waiting(1), second.until_waiting(1);
  first.open(), second.open();
  auto heard = lab.until(1);
  lab.idle();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_NE(heard[0].find("poison"), std::string::npos);
  EXPECT_EQ(lab.served->stats.fail.count, 1u);
}

TEST(PipelineBranches, WhoLeavesIsCancelledInEveryBranch) {
  Gate gate;
  auto left = doubler(&gate), right = doubler(&gate);
  auto sum = summer();
  Lab lab(diamond(left, right, sum));
  lab.send(1);
  gate.until_waiting(2);
  msg::Call* queued = lab.send(2);
  lab.shard.post([&] { lab.shard.bus.abandon(queued); });
  lab.shard.post([&] { gate.open(); });
  EXPECT_EQ(lab.until(1), std::vector<std::string>{"1=202"});
  lab.idle();
  EXPECT_EQ(left->stats.inference_count, 1u);
  EXPECT_EQ(right->stats.inference_count, 1u);
  EXPECT_EQ(sum->stats.inference_count, 1u);
}

TEST(PipelineBranches, TheDeadlineEndsEveryBranch) {
  Gate gate;
  auto left = doubler(&gate), right = doubler(&gate);
  Lab lab(diamond(left, right, summer()));
  lab.send(1);
  gate.until_waiting(2);
  lab.send(2, [](msg::Call& call) { call.deadline = std::chrono::steady_clock::now() + 5ms; });
  EXPECT_EQ(lab.until(1), std::vector<std::string>{"2=DEADLINE_EXCEEDED: the deadline has passed"});
  gate.open();
  EXPECT_EQ(lab.until(2).back(), "1=202");
  lab.idle();
  EXPECT_EQ(left->stats.inference_count, 1u);
  EXPECT_EQ(right->stats.inference_count, 1u);
}

TEST(PipelineBranches, APipelineInABranchEndsWithIt) {
  Gate gate;
  auto held = doubler(&gate);
  auto inner = std::make_shared<bus::Served>();
  inner->spec = spec_of(8);
  inner->inbox = make_pipeline(chain({adder(0), held}), inner->stats);
  Lab lab(diamond(doubler(), inner, summer()));
  lab.send(1);
  gate.until_waiting(1);
  lab.send(kPoison);
  EXPECT_EQ(lab.until(1), std::vector<std::string>{"666=INVALID_ARGUMENT: node 'left': poison"});
  gate.open();
  lab.until(2);
  lab.idle();
  EXPECT_EQ(held->stats.inference_count, 1u);
  EXPECT_EQ(inner->stats.pending, 0);
}

TEST(PipelineBranches, ManyCallsComeBackOnceAndWhole) {
  Lab lab(diamond(doubler(), adder(1), summer()));
  for (int i = 1; i <= 300; ++i) lab.send(float(i));
  auto heard = lab.until(300);
  lab.idle();
  std::sort(heard.begin(), heard.end());
  EXPECT_EQ(std::unique(heard.begin(), heard.end()), heard.end());
  for (int i = 1; i <= 300; ++i)
    EXPECT_TRUE(std::binary_search(heard.begin(), heard.end(),
                                   std::to_string(i) + "=" + std::to_string(2 * i + 100 * (i + 1))));
  EXPECT_EQ(lab.served->stats.pending, 0);
}

}  // namespace
}  // namespace weir::sched
