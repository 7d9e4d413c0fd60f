// A lane whose engine has broken leaves the calls to the others.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>

#include "calls.h"
#include "event_recorder.h"
#include "sched/lane.h"

namespace weir::sched {
namespace {

class Mortal final : public Engine {
 public:
  explicit Mortal(std::atomic<bool>& lost) : lost_(lost) {}
  const msg::ModelSpec& spec() const override { return spec_; }
  Health health() const override { return lost_ ? Health::kLost : Health::kAlive; }
  base::Status step(Batch& batch) override {
    if (lost_) return base::failure(base::Code::kUnavailable, "the process has ended");
    batch.outputs = {floats("y", batch.inputs[0].shape, floats_of(batch.inputs[0]))};
    return {};
  }

 private:
  std::atomic<bool>& lost_;
  msg::ModelSpec spec_;
};

struct LostEngineTest : testing::Test {
  LostEngineTest() {
    std::vector<std::unique_ptr<Engine>> engines;
    for (auto& each : lost) engines.push_back(std::make_unique<Mortal>(each));
    lanes = make_lanes(std::move(engines), spec, stats, base::heap());
  }
  // The answers to so many calls, one after the other.
  std::string answers(int calls_in_a_row) {
    std::string out;
    for (int i = 0; i < calls_in_a_row; ++i) {
      auto& call = calls.emplace_back();
      fill(call, 1, 3);
      call.home = &recorder;
      lanes->put(&call);
      recorder.until(calls.size());
      out += recorder.of(call) + " ";
    }
    return out;
  }
  std::array<std::atomic<bool>, 3> lost{};
  msg::ModelSpec spec = spec_of(8);
  bus::ModelStats stats;
  EventRecorder recorder;
  std::deque<msg::Call> calls;
  std::unique_ptr<msg::Inbox> lanes;
};

TEST_F(LostEngineTest, ItsLaneTakesNoCallsWhileOthersDo) {
  const std::string good = answers(6);
  EXPECT_EQ(good, "3x1 3x1 3x1 3x1 3x1 3x1 ");
  lost[1] = true;
  EXPECT_EQ(answers(6), good);
  lost[0] = true;
  EXPECT_EQ(answers(6), good);
}

TEST_F(LostEngineTest, TheLastOneSaysWhyCallsFail) {
  for (auto& each : lost) each = true;
  EXPECT_EQ(answers(4), "UNAVAILABLE UNAVAILABLE UNAVAILABLE UNAVAILABLE ");
}

}  // namespace
}  // namespace weir::sched
