#include "engines/process/nested.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "process_lab.h"

namespace weir::process {
namespace {

// The model "other", which answers when it is told to, by a thread of its own, or when its Call is cancelled.
struct Other final : msg::Inbox {
  explicit Other(bool answers) : answers(answers) {
    spec.name = "other", spec.max_batch = 4;
    msg::TensorSpec x;
    x.name = "x", x.dtype = msg::DType::kFp32, x.shape = {-1};
    spec.inputs = {x};
  }
  ~Other() override {
    for (auto& thread : threads) thread.join();
  }
  void put(msg::Call* call) override {
    ++calls, over = false;
    inside = call, credit = call->credit, hops = hops_of(*call);
    if (answers) threads.emplace_back([this] { answer({msg::Outputs{{floats({1, 2}, {1, 2})}, {}, true}}); });
  }
  void poke() override {
    ++pokes;
    if (inside->cancelled && !std::exchange(over, true))
      answer({msg::Failed{base::failure(Code::kCancelled, "cancelled")}});
  }
  void answer(msg::Event event) {
    std::vector<msg::Mail> burst;
    burst.push_back({inside, std::move(event)});
    inside->home->post(burst);
  }
  const bool answers;
  bool over = false;  // a Call that was cancelled is answered once
  msg::ModelSpec spec;
  msg::Call* inside = nullptr;
  int calls = 0, pokes = 0, credit = 0;
  uint32_t hops = 0;
  std::vector<std::thread> threads;
};

TEST_F(ProcessTest, AModelMakesRequestsToOthers) {
  Other other(true);
  find = [&](std::string_view model, std::string_view) -> base::Result<Target> {
    EXPECT_EQ("other", model);
    return Target{nullptr, &other.spec, &other};
  };
  auto model = engine("ask");
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ("", outcome(*model));
    EXPECT_EQ(i, other.calls);
  }
}

// Else one could go in circles by way of models that ask each other.
TEST_F(ProcessTest, ARequestHasComeAsFarAsTheFarthestThatTheModelHas) {
  Other other(true);
  find = [&](std::string_view, std::string_view) -> base::Result<Target> {
    return Target{nullptr, &other.spec, &other};
  };
  auto model = engine("ask");
  EXPECT_EQ("", outcome(*model));
  EXPECT_EQ(0u, other.hops);
  batch = {};
  calls = std::vector<msg::Call>(3);
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].inputs = {floats({float(i), 10}, {1, 2})};
    const uint32_t hops = i == 1 ? 5 : 2;
    if (i > 0) calls[i].trace = std::make_shared<msg::TraceFields>(msg::TraceFields{"00-a-b-01", {}, hops});
    batch.calls.push_back(&calls[i]);
  }
  batch.rows = uint32_t(calls.size());
  ASSERT_TRUE(model->step(batch).ok());
  EXPECT_EQ(5u, other.hops);
}

TEST_F(ProcessTest, ARequestThatCannotBeMadeIsAnsweredWithTheCause) {
  auto model = engine("ask");
  EXPECT_EQ("", outcome(*model));  // there is no such model, and the child has been told so
  model = engine("ask falsely");
  EXPECT_EQ(0u,
            outcome(*model).find("INTERNAL: the process of model 'm' sent a tensor 'x' of shape [1,2] with 4 bytes"));
}

TEST_F(ProcessTest, ManyAnswersComeAsFarAsTheChildHasRoomForThem) {
  Other other(false);
  other.spec.decoupled = true;
  find = [&](std::string_view, std::string_view) -> base::Result<Target> {
    return Target{nullptr, &other.spec, &other};
  };
  auto model = engine("ask for many and forget");
  EXPECT_EQ("", outcome(*model));
  EXPECT_EQ(int(kWindow), other.credit);
  EXPECT_TRUE(other.over) << "it was cancelled";
  model = engine("ask for many and cancel");
  EXPECT_EQ("", outcome(*model)) << "it is told the end";
  model = engine("ask for many and lie");
  EXPECT_EQ("INTERNAL: a model has read answers that it was not given", outcome(*model));
  model = engine("ask");
  EXPECT_EQ("", outcome(*model)) << "it is told that the other one is decoupled";
}

TEST_F(ProcessTest, RequestsOfAChildThatEndsAreOverBeforeItsCallsAre) {
  Other other(false);
  find = [&](std::string_view, std::string_view) -> base::Result<Target> {
    return Target{nullptr, &other.spec, &other};
  };
  auto model = engine("ask and exit");
  EXPECT_EQ("UNAVAILABLE: the process of model 'm' has ended: it exited with status 3", outcome(*model));
  EXPECT_EQ(1, other.pokes);
}

}  // namespace
}  // namespace weir::process
