// Pipelines of small models, behind a Bus on a shard of their own.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>

#include "calls.h"
#include "engines.h"
#include "sched/lane.h"
#include "sched/pipeline.h"
#include "shard_thread.h"

namespace weir::sched {

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

inline std::shared_ptr<bus::Served> served_by(std::unique_ptr<Engine> engine) {
  auto served = std::make_shared<bus::Served>();
  served->spec = spec_of(8);
  served->spec.batching.max_queue = 0;  // tests send faster than a busy machine runs
  std::vector<std::unique_ptr<Engine>> engines;
  engines.push_back(std::move(engine));
  served->inbox = make_lanes(std::move(engines), served->spec, served->stats, base::heap());
  return served;
}
inline std::shared_ptr<bus::Served> doubler(Gate* gate = nullptr) { return served_by(std::make_unique<Doubler>(gate)); }
inline std::shared_ptr<bus::Served> adder(float more) {
  auto served = std::make_shared<bus::Served>();
  served->spec = spec_of(8);
  served->inbox = make_inline(std::make_unique<Adder>(more), served->spec, served->stats);
  return served;
}

// x -> node 0 -> … -> y
inline PipelinePlan chain(const std::vector<std::shared_ptr<bus::Served>>& models) {
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

}  // namespace weir::sched
