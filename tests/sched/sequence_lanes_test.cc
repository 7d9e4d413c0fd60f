// Sequences in front of lanes: what an engine has not run ends them.
#include <gtest/gtest.h>

#include <deque>

#include "calls.h"
#include "event_recorder.h"
#include "fake_deadline_timer.h"
#include "sched/lane.h"
#include "sched/sequence_inbox.h"

namespace weir::sched {
namespace {

using base::Code;

// Answers the number of calls that it has seen. A negative x is the code of a failure: of the step, which sees nothing
// then, or of the answer.
class CallCounter final : public Engine {
 public:
  explicit CallCounter(bool& steps_fail) : steps_fail_(steps_fail) {}
  const msg::ModelSpec& spec() const override { return spec_; }
  bool reads_calls() const override { return true; }
  base::Status step(Batch& batch) override {
    for (const auto* call : batch.calls) {
      const float x = floats_of(call->inputs.at(0)).at(0);
      auto failure = [x] { return base::failure(Code(-int(x)), "no"); };
      if (x < 0 && steps_fail_) return failure();
      ++seen_;
      if (x < 0)
        batch.answers.emplace_back(failure());
      else
        batch.answers.emplace_back(msg::Outputs{{floats("y", {1, 2}, {seen_, seen_})}, {}});
    }
    return {};
  }

 private:
  const bool& steps_fail_;
  float seen_ = 0;
  msg::ModelSpec spec_;
};

struct SequenceLanes : testing::Test {
  SequenceLanes() {
    std::vector<std::unique_ptr<Engine>> engines;
    engines.push_back(std::make_unique<CallCounter>(steps_fail));
    std::vector<std::unique_ptr<msg::Inbox>> lanes;
    lanes.push_back(make_lanes(std::move(engines), *spec, stats, base::heap()));
    inbox = with_sequences(std::move(lanes), spec, std::make_shared<msg::SequenceSpec>(), stats, nullptr, {},
                           std::make_shared<FakeDeadlineTimer>());
  }
  std::string answer(float x, bool start = false) {
    msg::Call& call = calls.emplace_back();
    call.home = &recorder;
    call.session = {0, 7};
    fill(call, 1, x);
    call.parameters = {{"sequence_id", int64_t(7)}, {"sequence_start", start}};
    inbox->put(&call);
    recorder.until(calls.size());
    return recorder.of(call);
  }

  bool steps_fail = false;
  std::shared_ptr<const msg::ModelSpec> spec = std::make_shared<msg::ModelSpec>(spec_of(8));
  bus::ModelStats stats;
  EventRecorder recorder;
  std::deque<msg::Call> calls;
  std::unique_ptr<msg::Inbox> inbox;
};

TEST_F(SequenceLanes, ARequestThatTheEngineCouldNotRunEndsItsSequence) {
  steps_fail = true;
  for (auto code : {Code::kResourceExhausted, Code::kUnavailable}) {
    EXPECT_NE(answer(1, true).find("x1"), std::string::npos);
    EXPECT_EQ(answer(-float(code)), base::name(code));
    EXPECT_EQ(answer(1), "INVALID_ARGUMENT") << "it would run on a state that lacks the one before";
  }
}

TEST_F(SequenceLanes, OneThatTheModelItselfAnswersWithAnErrorDoesNot) {
  EXPECT_EQ(answer(1, true), "1x1");
  for (auto code : {Code::kResourceExhausted, Code::kUnavailable, Code::kDeadlineExceeded})
    EXPECT_EQ(answer(-float(code)), base::name(code));
  EXPECT_EQ(answer(1), "5x1");
}

}  // namespace
}  // namespace weir::sched
