// Engines that read the calls' inputs and answer each call by itself.
#include <gtest/gtest.h>

#include "calls.h"
#include "event_recorder.h"
#include "sched/lane.h"
#include "sched/rate_limiter.h"
#include "support/gate.h"

namespace weir::sched {
namespace {

struct NoStaging final : base::SlabSource {
  base::Slab* take(size_t) override {
    ADD_FAILURE() << "nothing is gathered";
    return nullptr;
  }
};

// y = 2 x for each call, as long as it is; a negative x fails its call.
class PerCall final : public Engine {
 public:
  explicit PerCall(support::Gate& gate) : gate_(gate) {}
  const msg::ModelSpec& spec() const override { return spec_; }
  bool reads_calls() const override { return true; }
  base::Status step(Batch& batch) override {
    gate_.wait();
    EXPECT_TRUE(batch.inputs.empty());
    rows.push_back(batch.rows);
    for (auto* call : batch.calls) {
      if (too_few && !batch.answers.empty()) break;
      auto values = floats_of(call->inputs.at(0));
      if (values.at(0) < 0) {
        batch.answers.emplace_back(base::invalid("negative"));
        continue;
      }
      for (auto& v : values) v *= 2;
      msg::Outputs outputs;
      outputs.tensors.push_back(floats("y", {int64_t(call->rows), 2}, values));
      batch.answers.emplace_back(std::move(outputs));
    }
    return {};
  }
  std::vector<uint32_t> rows;
  bool too_few = false;

 private:
  support::Gate& gate_;
  msg::ModelSpec spec_;
};

struct OwnAnswersTest : testing::Test {
  enum class Limit { kNone, kResources };
  OwnAnswersTest() { open(Limit::kNone); }
  void open(Limit limit) {
    lanes.reset();
    auto made = std::make_unique<PerCall>(gate);
    engine = made.get();
    std::vector<std::unique_ptr<Engine>> engines;
    engines.push_back(std::move(made));
    if (limit == Limit::kResources) {
      auto instance = RateLimiter::join(std::make_shared<RateLimiter>(), {{{"R", false, 1}}}, "cpu");
      engines[0] = make_rate_limited(std::move(engines[0]), std::move(*instance));
    }
    lanes = make_lanes(std::move(engines), spec, stats, slabs);
  }
  ~OwnAnswersTest() override {
    gate.open();
    lanes.reset();
  }
  msg::Call& put(float value, uint32_t rows = 1) {
    auto& call = calls.emplace_back();
    fill(call, rows, value);
    call.home = &recorder;
    lanes->put(&call);
    return call;
  }

  msg::ModelSpec spec = spec_of(8);
  bus::ModelStats stats;
  support::Gate gate;
  NoStaging slabs;
  EventRecorder recorder;
  std::deque<msg::Call> calls;
  PerCall* engine = nullptr;
  std::unique_ptr<msg::Inbox> lanes;
};

TEST_F(OwnAnswersTest, CallsThatShareABatchGetTheirOwn) {
  auto& first = put(1);
  gate.until_waiting(1);
  auto &two = put(2, 2), &bad = put(-1), &three = put(3);
  gate.open();
  recorder.until(4);
  EXPECT_EQ("2x1", recorder.of(first));
  EXPECT_EQ("4x2", recorder.of(two));
  EXPECT_EQ("INVALID_ARGUMENT", recorder.of(bad));
  EXPECT_EQ("6x1", recorder.of(three));
  EXPECT_EQ((std::vector<uint32_t>{1, 4}), engine->rows);
}

TEST_F(OwnAnswersTest, SoDoThoseOfAnEngineThatWaitsForResources) {
  open(Limit::kResources);
  auto& first = put(1);
  gate.until_waiting(1);
  auto &two = put(2, 2), &bad = put(-1);
  gate.open();
  recorder.until(3);
  EXPECT_EQ("2x1 4x2 INVALID_ARGUMENT", recorder.of(first) + " " + recorder.of(two) + " " + recorder.of(bad));
}

TEST_F(OwnAnswersTest, AnEngineThatAnswersTooFewHasFailed) {
  engine->too_few = true;
  auto& first = put(1);
  gate.until_waiting(1);
  auto &two = put(2), &three = put(3);
  gate.open();
  recorder.until(3);
  // The batch fails, and its calls run one by one.
  EXPECT_EQ((std::vector<uint32_t>{1, 2, 1, 1}), engine->rows);
  EXPECT_EQ("2x1 4x1 6x1", recorder.of(first) + " " + recorder.of(two) + " " + recorder.of(three));
}

}  // namespace
}  // namespace weir::sched
