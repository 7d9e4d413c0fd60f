// An engine of the server's own in a child (engine_child_program.cc).
#include <gtest/gtest.h>

#include "process_lab.h"

namespace weir::process {
namespace {

struct IsolationTest : testing::Test {
  base::Result<std::unique_ptr<sched::Engine>> load(const std::string& what, const std::string& file = "",
                                                    msg::ModelSpec wanted = {}, const std::string& name = "adding") {
    wanted.name = "m", wanted.version = "1", wanted.engine = name;
    wanted.parameters.emplace("what", what);
    wanted.parameters.emplace("process_timeout", "5s");
    Place place{base::heap(), [this](Status status) { broken(std::move(status)); }};
    place.options.enabled = false;  // that is for code of the models' own
    place.options.engine_command = program;
    return load_isolated(wanted, file, place);
  }
  std::unique_ptr<sched::Engine> engine(const std::string& what, msg::ModelSpec wanted = {}) {
    auto loaded = load(what, "", std::move(wanted));
    EXPECT_TRUE(loaded) << (loaded ? "" : text_of(loaded.error()));
    return loaded ? std::move(*loaded) : nullptr;
  }
  void add_call(uint32_t rows, float first, const char* other = nullptr) {
    auto& call = *calls.emplace_back(std::make_unique<msg::Call>());
    call.rows = rows;
    std::vector<float> values(rows * size_t(2));
    for (size_t i = 0; i < values.size(); ++i) values[i] = first + float(i);
    call.inputs = {floats(values, {int64_t(rows), 2})};
    if (other) call.inputs.push_back(floats(values, {int64_t(rows), 2})), call.inputs.back().name = other;
    batch.calls.push_back(&call);
    batch.rows += rows;
  }
  void begin() { batch = {}, calls.clear(); }
  std::string outcome(sched::Engine& engine) {
    begin();
    add_call(1, 5);
    return text_of(engine.step(batch));
  }

  std::vector<std::string> program = {ENGINE_CHILD_PROGRAM};
  Broken broken;
  sched::Batch batch;
  std::vector<std::unique_ptr<msg::Call>> calls;
};

TEST_F(IsolationTest, TheRowsOfABatchAreOneStep) {
  auto model = engine("");
  ASSERT_TRUE(model);
  EXPECT_EQ(64u, model->spec().max_batch);
  EXPECT_TRUE(model->spec().inputs.at(1).optional);
  for (size_t n : {1, 3, 1, 5}) {
    begin();
    for (size_t i = 0; i < n; ++i) add_call(uint32_t(i + 1), float(100 * i));
    ASSERT_EQ("OK: ", text_of(model->step(batch)));
    EXPECT_TRUE(batch.answers.empty());
    ASSERT_EQ(3u, batch.outputs.size());
    const auto& y = batch.outputs[0];
    EXPECT_EQ("y[" + std::to_string(batch.rows) + ",2]", y.name + y.shape.text());
    size_t row = 0;
    for (size_t i = 0; i < n; ++i)
      for (size_t of_call = 0; of_call <= i; ++of_call, ++row) {
        EXPECT_EQ(100.F * float(i) + 2 * float(of_call) + 1, at(y, 2 * row));
        EXPECT_EQ(100.F * float(i) + 2 * float(of_call) + 2, at(y, 2 * row + 1));
      }
    int32_t rows;
    std::memcpy(&rows, batch.outputs[1].data.data(), sizeof rows);
    EXPECT_EQ(int32_t(batch.rows), rows);
    EXPECT_EQ("row 0", batch.outputs[2].data.view().substr(4, 5));
  }
}

TEST_F(IsolationTest, AnOptionalInputOfAllCallsIsGathered) {
  auto model = engine("");
  add_call(1, 3, "z"), add_call(2, 10, "z");
  ASSERT_EQ("OK: ", text_of(model->step(batch)));
  EXPECT_EQ(6, at(batch.outputs[0], 0));
  EXPECT_EQ(20, at(batch.outputs[0], 2));
  EXPECT_EQ(26, at(batch.outputs[0], 5));
}

TEST_F(IsolationTest, OnlyTheOutputsThatAreWantedAreMade) {
  auto model = engine("");
  for (size_t n : {1, 2}) {
    begin();
    for (size_t i = 0; i < n; ++i) add_call(1, 0);
    batch.wanted = {false, true, false};
    ASSERT_EQ("OK: ", text_of(model->step(batch)));
    EXPECT_EQ(msg::DType::kInvalid, batch.outputs[0].dtype);
    EXPECT_EQ(msg::DType::kInt32, batch.outputs[1].dtype);
    EXPECT_EQ(msg::DType::kInvalid, batch.outputs[2].dtype);
  }
}

// As a warm-up does it, and what stands before an engine and changes its inputs.
TEST_F(IsolationTest, WhatHasBeenGatheredIsTakenAsItIs) {
  auto model = engine("");
  batch.rows = 2;
  batch.inputs = {floats({1, 2}, {2, 1}), {}};
  ASSERT_EQ("OK: ", text_of(model->step(batch)));
  EXPECT_EQ(2, at(batch.outputs.at(0), 0));
  EXPECT_EQ(3, at(batch.outputs.at(0), 1));
}

TEST_F(IsolationTest, LargeTensorsGetLargerMemory) {
  for (const char* where : {"", "heap"}) {
    auto model = engine(where);
    for (size_t n : {100, 3'000'000, 10, 300'000}) {
      begin();
      add_call(1, 0);
      calls[0]->inputs = {floats(std::vector<float>(n, 5), {1, int64_t(n)})};
      ASSERT_EQ("OK: ", text_of(model->step(batch)));
      EXPECT_EQ(6, at(batch.outputs[0], 0));
      EXPECT_EQ(6, at(batch.outputs[0], n - 1));
    }
  }
}

TEST_F(IsolationTest, AnAnswerThatIsTooLargeFailsAlone) {
  msg::ModelSpec wanted;
  wanted.parameters["process_answer"] = "2MiB";
  auto model = engine("", wanted);
  add_call(1, 0);
  calls[0]->inputs = {floats(std::vector<float>(1'000'000, 5), {1, 1'000'000})};
  EXPECT_EQ("RESOURCE_EXHAUSTED: the answer of model 'm' is larger than 2MiB (process_answer)",
            text_of(model->step(batch)));
  EXPECT_EQ("OK: ", outcome(*model));
  EXPECT_TRUE(broken.why.empty());
}

// The server gives the child other memory for the next inputs.
TEST_F(IsolationTest, InputsThatTheEngineKeepsAreNotOverwritten) {
  auto model = engine("keep");
  for (float first : {7, 50, 90}) {
    begin();
    add_call(1, first);
    ASSERT_EQ("OK: ", text_of(model->step(batch)));
    EXPECT_EQ(8, at(batch.outputs[0], 0));
  }
}

TEST_F(IsolationTest, AnErrorOfTheEngineIsItsError) {
  for (auto [what, text] :
       {std::pair("refuse", "INVALID_ARGUMENT: row 0 is odd"),
        std::pair("throw", "INTERNAL: model 'm' failed: an odd value"),
        std::pair("memory", "RESOURCE_EXHAUSTED: not enough memory to run model 'm' (process_memory)")}) {
    auto model = engine(what);
    EXPECT_EQ(text, outcome(*model));
    EXPECT_EQ(text, outcome(*model));
    EXPECT_TRUE(broken.why.empty());
  }
}

TEST_F(IsolationTest, AFaultInsideOfItEndsTheChildAlone) {
  msg::ModelSpec wanted;
  wanted.parameters["process_timeout"] = "50ms";
  for (auto [what, text] : {
           std::pair("exit", "UNAVAILABLE: the process of model 'm' has ended: it exited with status 3"),
           std::pair("crash", "UNAVAILABLE: the process of model 'm' has ended: it was ended by signal SIGSEGV"),
           std::pair("hang", "UNAVAILABLE: model 'm' did not answer within 50ms (process_timeout); it is started anew"),
       }) {
    broken.why.clear();
    auto model = engine(what, what == std::string("hang") ? wanted : msg::ModelSpec());
    EXPECT_EQ(text, outcome(*model)) << what;
    EXPECT_EQ(text, outcome(*model)) << what;
    EXPECT_EQ(1u, broken.wait().size()) << what;
  }
}

// No engine of the server's own answers any number of times.
TEST_F(IsolationTest, AChildThatSaysThatItIsDecoupledIsNotLoaded) {
  program = {CHILD_PROGRAM, "stream"};
  auto loaded = load("");
  ASSERT_FALSE(loaded);
  EXPECT_EQ("INTERNAL: the process of model 'm' says that it answers any number of times", text_of(loaded.error()));
}

// The child is told of none of them, which it would not read before its step is over.
TEST_F(IsolationTest, AnyNumberOfCallsMayBeCancelledMeanwhile) {
  msg::ModelSpec wanted;
  wanted.parameters["process_timeout"] = "200ms";
  auto model = engine("hang", wanted);
  for (int i = 0; i < 2000; ++i) add_call(1, 0), calls.back()->cancelled = true;
  EXPECT_EQ("UNAVAILABLE: model 'm' did not answer within 200ms (process_timeout); it is started anew",
            text_of(model->step(batch)));
}

TEST_F(IsolationTest, AModelThatIsNotLoadedSaysWhy) {
  for (auto [file, name, text] : {std::tuple("model.x", "adding", "FAILED_PRECONDITION: no file model.x"),
                                  std::tuple("throw", "adding", "FAILED_PRECONDITION: loading failed: an odd file"),
                                  std::tuple("", "other", "FAILED_PRECONDITION: no engine 'other'")}) {
    auto loaded = load("", file, {}, name);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(text, text_of(loaded.error()));
    EXPECT_TRUE(broken.why.empty());
  }
}

}  // namespace
}  // namespace weir::process
