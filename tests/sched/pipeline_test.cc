#include "sched/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <set>

#include "calls.h"
#include "engines.h"
#include "sched/lane.h"
#include "shard_thread.h"

namespace weir::sched {
namespace {

using base::Code;

// x -> y: adds `more` on the caller's own thread.
class Adder final : public Engine {
 public:
  explicit Adder(float more) : more_(more) {}
  const msg::ModelSpec& spec() const override { return spec_; }
  bool is_inline() const override { return true; }
  base::Status step(Batch& batch) override {
    auto values = floats_of(batch.inputs[0]);
    for (auto& v : values) v += more_;
    batch.outputs = {floats("y", batch.inputs[0].shape, std::move(values))};
    return {};
  }

 private:
  float more_;
  msg::ModelSpec spec_;
};

std::shared_ptr<bus::Served> doubler(Gate* gate = nullptr) {
  auto served = std::make_shared<bus::Served>();
  served->spec = spec_of(8);
  served->spec.batching.max_queue = 0;  // tests send faster than a busy machine runs
  std::vector<std::unique_ptr<Engine>> engines;
  engines.push_back(std::make_unique<Doubler>(gate));
  served->inbox = make_lanes(std::move(engines), served->spec, served->stats, base::heap());
  return served;
}
std::shared_ptr<bus::Served> adder(float more) {
  auto served = std::make_shared<bus::Served>();
  served->spec = spec_of(8);
  served->inbox = make_inline(std::make_unique<Adder>(more), served->spec, served->stats);
  return served;
}

// x -> node 0 -> … -> y
PipelinePlan chain(const std::vector<std::shared_ptr<bus::Served>>& models) {
  PipelinePlan plan;
  plan.inputs = {{"x", 0}};
  for (const auto& model : models) {
    plan.nodes.push_back({"n" + std::to_string(plan.slots), model, {{"x", plan.slots}}, {{"y", plan.slots + 1}}});
    ++plan.slots;
  }
  plan.outputs = {{"y", plan.slots}};
  ++plan.slots;
  return plan;
}

// The pipeline as a served model, on a shard with a Bus.
struct Lab final : msg::Sink {
  explicit Lab(PipelinePlan plan) : served(std::make_shared<bus::Served>()) {
    served->spec = spec_of(8);
    served->spec.name = "pipe";
    served->inbox = make_pipeline(std::move(plan), served->stats);
  }
  void on(msg::Call& call, msg::Event&& event) override {
    std::lock_guard lock(mutex);
    std::string text = text_of(event);
    if (auto* failed = std::get_if<msg::Failed>(&event.what)) text += ": " + failed->status.text;
    if (auto* outputs = std::get_if<msg::Outputs>(&event.what))
      text = std::to_string(int(floats_of(outputs->tensors.at(0)).at(0)));
    heard.push_back(call.id + "=" + text);
    changed.notify_all();
  }
  // Returns the Call, once it is on its way.
  msg::Call* send(float value, std::function<void(msg::Call&)> change = {}) {
    std::promise<msg::Call*> sent;
    shard.post([&] {
      msg::Call* call = shard.bus.make_call();
      fill(*call, 1, value);
      call->id = std::to_string(int(value));
      call->sink = this;
      if (change) change(*call);
      EXPECT_TRUE(shard.bus.submit(call, *served).ok());
      sent.set_value(call);
    });
    return sent.get_future().get();
  }
  std::vector<std::string> until(size_t n) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return heard.size() >= n; });
    return heard;
  }
  void idle() {
    for (uint32_t left = 1; left > 0;) {
      std::promise<uint32_t> now;
      shard.post([&] { now.set_value(shard.bus.in_flight()); });
      left = now.get_future().get();
    }
  }

  std::shared_ptr<bus::Served> served;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> heard;
  ShardThread shard{0};  // ends first
};

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
