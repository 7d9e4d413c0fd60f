#include "engines/process/engine.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>

#include "process_lab.h"
#include "support/sanitizers.h"

namespace weir::process {
namespace {

TEST_F(ProcessTest, EachCallOfABatchGetsItsOwnAnswer) {
  auto model = engine("");
  ASSERT_TRUE(model);
  EXPECT_EQ(64u, model->spec().max_batch);
  for (size_t size : {1, 3, 64, 1}) {
    ASSERT_EQ("OK: ", text_of(step(*model, size)));
    ASSERT_EQ(size, batch.answers.size());
    for (size_t i = 0; i < size; ++i) {
      const auto& y = batch.answers[i]->tensors.at(0);
      EXPECT_EQ("y[1,2]", y.name + y.shape.text());
      EXPECT_EQ(float(i) + 1, at(y, 0));
      EXPECT_EQ(11, at(y, 1));
    }
  }
}

TEST_F(ProcessTest, WhatHasBeenGatheredIsOneRequest) {
  auto model = engine("");
  msg::Call call;
  batch.calls = {&call, &call}, batch.rows = 2;
  batch.inputs = {floats({1, 2}, {2, 1})};
  ASSERT_EQ("OK: ", text_of(model->step(batch)));
  EXPECT_TRUE(batch.answers.empty());
  EXPECT_EQ(3, at(batch.outputs.at(0), 1));
}

TEST_F(ProcessTest, LargeTensorsGetLargerMemory) {
  auto model = engine("");
  for (size_t n : {100, 3'000'000, 10}) {
    msg::Call call;
    call.inputs = {floats(std::vector<float>(n, 5), {1, int64_t(n)})};
    batch = {};
    batch.calls = {&call}, batch.rows = 1;
    ASSERT_EQ("OK: ", text_of(model->step(batch)));
    ASSERT_TRUE(batch.answers[0]) << text_of(batch.answers[0].error());
    EXPECT_EQ(6, at(batch.answers[0]->tensors.at(0), n - 1));
  }
}

TEST_F(ProcessTest, OnlyTheOutputsThatACallAsksForAreItsAnswer) {
  auto model = engine("");
  ASSERT_TRUE(step(*model).ok());
  msg::Call call;
  call.inputs = {floats({1}, {1, 1})}, call.outputs = {"other"};
  batch = {};
  batch.calls = {&call}, batch.rows = 1;
  ASSERT_TRUE(model->step(batch).ok());
  EXPECT_EQ(Code::kInternal, batch.answers[0].error().code);
}

// The child goes on after an answer that is wrong.
TEST_F(ProcessTest, AWrongAnswerFailsItsCall) {
  for (auto [what, text] : {std::pair("wrong type", "INTERNAL: model 'm' gave output 'y' as INT32; it is FP32"),
                            std::pair("wrong name", "INTERNAL: model 'm' gave an output 'z' that it has not")}) {
    auto model = engine(what);
    EXPECT_EQ(text, outcome(*model));
    EXPECT_EQ(text, outcome(*model));
    EXPECT_TRUE(broken.why.empty());
  }
}

// A child that says what cannot be has ended by the time its calls are answered, and the loader hears of it once.
TEST_F(ProcessTest, AChildThatLiesIsEnded) {
  for (auto [what, text] : {
           std::pair("lying offset", "sent a tensor that lies outside of its memory"),
           std::pair("lying size", "sent a tensor 'y' of shape [1,2] with 7 bytes"),
           std::pair("lying shape", "sent a tensor 'y' of shape [1000000,2] with 8 bytes"),
           std::pair("negative shape", "sent a tensor 'y' of shape [-1,2] with 8 bytes"),
           std::pair("outside", "sent a document that lies outside of its memory"),
           std::pair("overflow", "sent a document that lies outside of its memory"),
           std::pair("rubbish", "sent answers that have no such form"),
           std::pair("twice", "sent more answers than there are requests"),
           std::pair("too few", "did not answer each request once"),
           std::pair("wrong kind", "sent an answer of a kind that there is not"),
           std::pair("wrong number", "sent what nobody has asked for"),
           std::pair("strange", "sent what nobody has asked for"),
           std::pair("packet", "sent a packet that is no message"),
           std::pair("greedy", "asks for 1125899906842624 bytes for its answers; process_answer is 1073741824"),
       }) {
    broken.why.clear();
    auto model = engine(what);
    const auto first = outcome(*model);
    EXPECT_EQ(0u, first.find("INTERNAL: ")) << what << ": " << first;
    EXPECT_NE(std::string::npos, first.find(text)) << what << ": " << first;
    EXPECT_EQ(first, outcome(*model)) << what;
    auto why = broken.wait();
    ASSERT_EQ(1u, why.size()) << what;
    EXPECT_EQ(first, text_of(why[0]));
  }
}

TEST_F(ProcessTest, AChildThatEndsFailsItsCallsWithTheCause) {
  for (auto [what, text] : {
           std::pair("exit", "UNAVAILABLE: the process of model 'm' has ended: it exited with status 3"),
           std::pair("abort", "UNAVAILABLE: the process of model 'm' has ended: it was ended by signal SIGSEGV"),
           std::pair("close", "UNAVAILABLE: the process of model 'm' has closed its socket"),
       }) {
    broken.why.clear();
    auto model = engine(what);
    EXPECT_EQ(text, outcome(*model)) << what;
    EXPECT_EQ(text, outcome(*model)) << what;
    EXPECT_EQ(1u, broken.wait().size()) << what;
  }
}

// It does not read while it runs: what does not fit into its socket is left, and is no reason to end it.
TEST_F(ProcessTest, AnyNumberOfCallsMayBeCancelledWhileItRuns) {
  msg::ModelSpec wanted;
  wanted.parameters["process_timeout"] = "200ms";
  auto model = engine("hang", wanted);
  calls = std::vector<msg::Call>(2000);
  for (auto& call : calls) {
    call.inputs = {floats({1, 2}, {1, 2})}, call.cancelled = true;
    batch.calls.push_back(&call);
  }
  batch.rows = uint32_t(calls.size());
  EXPECT_EQ("UNAVAILABLE: model 'm' did not answer within 200ms (process_timeout); it is started anew",
            text_of(model->step(batch)));
}

TEST_F(ProcessTest, AChildThatHangsIsEndedAfterItsTime) {
  msg::ModelSpec wanted;
  wanted.parameters["process_timeout"] = "50ms";
  auto model = engine("hang", wanted);
  EXPECT_EQ("UNAVAILABLE: model 'm' did not answer within 50ms (process_timeout); it is started anew", outcome(*model));
  EXPECT_EQ(1u, broken.wait().size());
}

TEST_F(ProcessTest, AChildMayUseSoMuchMemory) {
#if defined(WEIR_ASAN) || defined(WEIR_TSAN)
  GTEST_SKIP() << "sanitizers reserve more address space than any limit would leave";
#endif
  msg::ModelSpec wanted;
  wanted.parameters["process_memory"] = "256MiB";
  auto model = engine("memory", wanted);
  EXPECT_EQ(0u,
            outcome(*model).find("UNAVAILABLE: the process of model 'm' has ended: it was ended by signal SIGABRT"));
}

TEST_F(ProcessTest, AFloodOfLinesDelaysNobody) {
  auto model = engine("flood");
  EXPECT_EQ("", outcome(*model));
}

// If it could be shrunk, the child would exit and the server would get a SIGBUS.
TEST_F(ProcessTest, SharedMemoryKeepsItsSize) {
  auto model = engine("shrink");
  EXPECT_EQ("", outcome(*model));
}

TEST_F(ProcessTest, AModelThatDoesNotLoadSaysWhy) {
  EXPECT_EQ("FAILED_PRECONDITION: it does not want to", text_of(load("no start").error()));
  msg::ModelSpec wanted;
  wanted.parameters["process_load_timeout"] = "50ms";
  EXPECT_EQ("UNAVAILABLE: model 'm' was not loaded in time (process_load_timeout)",
            text_of(load("silent", wanted).error()));
  EXPECT_EQ("INTERNAL: the process of model 'm' sent a message that nobody has asked for",
            text_of(load("strange start").error()));
  EXPECT_EQ("INTERNAL: model 'm' asks for 1125899906842624 bytes for its answers; process_answer is 1073741824",
            text_of(load("greedy start").error()));
  wanted = {};
  wanted.parameters["command"] = "/nowhere/at/all";
  EXPECT_EQ("UNAVAILABLE: the process of model 'm' has ended: it could not be started",
            text_of(load("", wanted).error()));
  wanted.parameters["command"] = "";
  EXPECT_EQ(Code::kInvalidArgument, load("", wanted).error().code);
  EXPECT_TRUE(broken.why.empty());
}

TEST_F(ProcessTest, AModelThatNobodyWaitsForIsNotLoadedToItsEnd) {
  int asked = 0;
  loading = [&] { return ++asked < 3; };
  EXPECT_EQ("UNAVAILABLE: the server is shutting down", text_of(load("silent").error()));
  EXPECT_EQ(3, asked);
}

TEST_F(ProcessTest, NothingIsLeftOfAChild) {
  auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = descriptors();
  for (const char* what : {"", "exit", "lying size", "no start"}) {
    auto loaded = load(what);
    if (loaded) (void)step(*std::get<0>(*loaded));
  }
  EXPECT_EQ(before, descriptors());
  EXPECT_EQ(-1, ::waitpid(-1, nullptr, WNOHANG)) << "a child is left";
}

}  // namespace
}  // namespace weir::process
