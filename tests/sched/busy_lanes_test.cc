// Which batches lanes form of the calls that came while every engine worked.
#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "base/clock.h"
#include "engines.h"
#include "event_recorder.h"
#include "queue_rules.h"
#include "sched/lane.h"
#include "sched/runner.h"

namespace weir::sched {
namespace {

// Calls that come while every engine works, and the number of executions that they are once the engines are free.
struct Busy {
  const char* rule;
  QueueRules policy;
  int instances;
  uint32_t calls, rows;
  uint64_t executions;  // beside the first, one per instance
  uint32_t largest;     // batch
};

const Busy kBusy[] = {
    {"17 slow ones: one, and the 16 that waited together", {.max_batch = 16}, 1, 16, 1, 1, 16},
    {"17 slow ones with max_batch_size 8", {.max_batch = 8}, 1, 16, 1, 2, 8},
    {"17 slow ones with preferred sizes", {.max_batch = 8, .preferred = {4}}, 1, 16, 1, 4, 4},
    {"17 slow ones that waited longer than the delay",
     {.max_batch = 16, .preferred = {4}, .delay_ms = 1},
     1,
     16,
     1,
     1,
     16},
    {"17 slow ones without dynamic_batching",
     {.max_batch = 16, .batching = QueueRules::Batching::kOff},
     1,
     16,
     1,
     16,
     1},
    {"64 without dynamic_batching on four instances",
     {.max_batch = 16, .batching = QueueRules::Batching::kOff},
     4,
     64,
     1,
     64,
     1},
    {"two instances share what waits", {.max_batch = 8}, 2, 16, 1, 2, 8},
    {"requests of three rows", {.max_batch = 8}, 1, 6, 3, 3, 6},
};

TEST(BusyLanes, SlowEnginesTakeAllThatHasWaited) {
  for (const auto& b : kBusy) {
    SCOPED_TRACE(b.rule);
    Gate gate;
    EventRecorder recorder;
    bus::ModelStats stats;
    auto spec = b.policy.spec();
    std::vector<std::unique_ptr<Engine>> engines;
    for (int i = 0; i < b.instances; ++i) engines.push_back(std::make_unique<Doubler>(&gate));
    std::deque<msg::Call> calls;
    auto lanes = make_lanes(std::move(engines), spec, stats, base::heap());
    auto put = [&](uint32_t rows) {
      auto& call = calls.emplace_back();
      fill(call, rows, 1);
      call.home = &recorder;
      lanes->put(&call);
    };
    for (int i = 0; i < b.instances; ++i) put(1), gate.until_waiting(i + 1);
    for (uint32_t i = 0; i < b.calls; ++i) put(b.rows);
    auto waited = base::steady_now() + 5ms;  // longer than any delay above
    while (base::steady_now() < waited) std::this_thread::yield();
    gate.open();
    recorder.until(calls.size());
    lanes.reset();
    EXPECT_EQ(stats.execution_count, uint64_t(b.instances) + b.executions);
    EXPECT_EQ(stats.inference_count, uint64_t(b.instances) + b.calls * b.rows);
    EXPECT_EQ(stats.batches().rbegin()->first, b.largest);
  }
}

// Any tensors, returned: what the identity engine does.
class Echo final : public Engine {
 public:
  explicit Echo(Gate& gate) : gate_(gate) {}
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(Batch& batch) override {
    gate_.wait();
    batch.outputs = batch.inputs;
    return {};
  }

 private:
  Gate& gate_;
  msg::ModelSpec spec_;
};

std::string echoed(const msg::Mail& mail) {
  if (auto text = text_of(mail.event); text != "ok") return text;
  std::string out;
  for (const auto& t : std::get<msg::Outputs>(mail.event.what).tensors) {
    out += t.name + t.shape.text() + "=";
    if (t.dtype == msg::DType::kFp32)
      for (float v : floats_of(t)) out += std::to_string(int(v)) + " ";
    else
      msg::for_each_string(t.data.view(), [&](std::string_view s) { (out += s) += ' '; });
  }
  return out;
}

TEST(BusyLanes, ModelsThatTakeAnyTensorsShareBatchesOfCallsWithTheSameOnes) {
  Gate gate;
  EventRecorder recorder(echoed);
  bus::ModelStats stats;
  auto spec = spec_of(16);
  spec.any_tensors = true, spec.inputs.clear(), spec.outputs.clear();
  std::vector<std::unique_ptr<Engine>> engines;
  engines.push_back(std::make_unique<Echo>(gate));
  std::deque<msg::Call> calls;
  auto lanes = make_lanes(std::move(engines), spec, stats, base::heap());
  auto put = [&](uint32_t rows, std::vector<msg::Tensor> inputs) -> msg::Call& {
    auto& call = calls.emplace_back();
    call.rows = rows, call.inputs = std::move(inputs), call.home = &recorder;
    lanes->put(&call);
    return call;
  };
  put(1, {floats("x", {1, 1}, {0})});
  gate.until_waiting(1);
  auto& a = put(1, {floats("x", {1, 1}, {1}), strings("s", {1}, {"one"})});
  auto& b = put(2, {floats("x", {2, 1}, {2, 3}), strings("s", {2}, {"two", "three"})});
  b.outputs = {"s"};
  auto& other_name = put(1, {floats("y", {1, 1}, {4})});
  auto& no_rows = put(1, {floats("y", {3}, {5, 6, 7})});
  auto& no_rows_too = put(1, {floats("y", {3}, {5, 6, 7})});
  gate.open();
  recorder.until(calls.size());
  EXPECT_EQ(recorder.of(a), "x[1,1]=1 s[1]=one ");
  EXPECT_EQ(recorder.of(b), "s[2]=two three ");
  EXPECT_EQ(recorder.of(other_name), "y[1,1]=4 ");
  EXPECT_EQ(recorder.of(no_rows), "y[3]=5 6 7 ");
  EXPECT_EQ(recorder.of(no_rows_too), "y[3]=5 6 7 ");
  lanes.reset();
  EXPECT_EQ(stats.execution_count, 5u);
  EXPECT_EQ(stats.inference_count, 7u);
}

}  // namespace
}  // namespace weir::sched
