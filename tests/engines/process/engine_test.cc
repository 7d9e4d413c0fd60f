#include "engines/process/engine.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

#include "engines/process/child.h"

namespace weir::process {
namespace {

using base::Code;
using base::Status;
using namespace std::chrono_literals;

msg::Tensor floats(const std::vector<float>& values, msg::Shape shape) {
  return {"x", msg::DType::kFp32, shape,
          base::Bytes::copy_of({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)})};
}

float at(const msg::Tensor& tensor, size_t i) {
  float value;
  std::memcpy(&value, tensor.data.data() + i * sizeof value, sizeof value);
  return value;
}

std::string text_of(const Status& status) { return std::string(base::name(status.code)) + ": " + status.text; }

// Stands in for the loader, which hears of a broken engine.
struct Broken {
  void operator()(Status status) {
    std::lock_guard lock(mutex);
    why.push_back(std::move(status));
    changed.notify_all();
  }
  std::vector<Status> wait() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, 10s, [this] { return !why.empty(); });
    return why;
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Status> why;
};

struct ProcessTest : testing::Test {
  base::Result<Loaded> load(const std::string& what, msg::ModelSpec wanted = {}) {
    wanted.name = "m", wanted.version = "1";
    wanted.parameters.emplace("command", CHILD_PROGRAM + (what.empty() ? "" : " " + what));
    wanted.parameters.emplace("process_timeout", "5s");
    return process::load(wanted, "", {base::heap(), [this](Status status) { broken(std::move(status)); }});
  }
  std::unique_ptr<sched::Engine> engine(const std::string& what, msg::ModelSpec wanted = {}) {
    auto loaded = load(what, std::move(wanted));
    EXPECT_TRUE(loaded) << (loaded ? "" : text_of(loaded.error()));
    return loaded ? std::move(std::get<0>(*loaded)) : nullptr;
  }
  Status step(sched::Engine& engine, size_t calls_in_batch = 1) {
    batch = {};
    calls = std::vector<msg::Call>(calls_in_batch);
    for (size_t i = 0; i < calls.size(); ++i) {
      calls[i].inputs = {floats({float(i), 10}, {1, 2})};
      batch.calls.push_back(&calls[i]);
    }
    batch.rows = uint32_t(calls.size());
    return engine.step(batch);
  }
  // The outcome of one call: "" where it is answered.
  std::string outcome(sched::Engine& engine) {
    Status status = step(engine);
    if (!status.ok()) return text_of(status);
    return batch.answers[0] ? "" : text_of(batch.answers[0].error());
  }

  Broken broken;
  sched::Batch batch;
  std::vector<msg::Call> calls;
};

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
           std::pair("wrong number", "sent what nobody has asked for"),
           std::pair("strange", "sent what nobody has asked for"),
           std::pair("packet", "sent a packet that is no message"),
           std::pair("greedy", "asks for 1125899906842624 bytes"),
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

TEST_F(ProcessTest, AChildThatHangsIsEndedAfterItsTime) {
  msg::ModelSpec wanted;
  wanted.parameters["process_timeout"] = "50ms";
  auto model = engine("hang", wanted);
  EXPECT_EQ("UNAVAILABLE: model 'm' did not answer within 50ms (process_timeout); it is started anew", outcome(*model));
  EXPECT_EQ(1u, broken.wait().size());
}

TEST_F(ProcessTest, AChildMayUseSoMuchMemory) {
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
  EXPECT_EQ("UNAVAILABLE: model 'm' was not loaded in time (load_timeout)", text_of(load("silent", wanted).error()));
  wanted = {};
  wanted.parameters["command"] = "/nowhere/at/all";
  EXPECT_EQ("UNAVAILABLE: the process of model 'm' has ended: it could not be started",
            text_of(load("", wanted).error()));
  wanted.parameters["command"] = "";
  EXPECT_EQ(Code::kInvalidArgument, load("", wanted).error().code);
  EXPECT_TRUE(broken.why.empty());
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

// Asks the decoupled engine as its Inbox does, and waits.
struct Streamed {
  std::vector<float> values;
  Status end;
};

struct DecoupledProcessTest : ProcessTest {
  std::unique_ptr<sched::DecoupledEngine> decoupled(const std::string& what, msg::ModelSpec wanted = {}) {
    auto loaded = load("stream" + (what.empty() ? "" : " " + what), std::move(wanted));
    EXPECT_TRUE(loaded) << (loaded ? "" : text_of(loaded.error()));
    if (!loaded) return nullptr;
    auto engine = std::move(std::get<1>(*loaded));
    engine->on_answers([this] {
      std::lock_guard lock(mutex);
      ++looks;
      changed.notify_all();
    });
    return engine;
  }
  std::unique_ptr<sched::AnswerSeries> begin(sched::DecoupledEngine& engine, size_t n) {
    msg::Call call;
    std::vector<float> values(n);
    for (size_t i = 0; i < n; ++i) values[i] = float(i);
    call.inputs = {floats(values, {int64_t(n)})};
    auto begun = engine.begin(call);
    EXPECT_TRUE(begun) << (begun ? "" : text_of(begun.error()));
    return begun ? std::move(*begun) : nullptr;
  }
  Streamed all(sched::AnswerSeries& series) {
    Streamed out;
    const auto until = std::chrono::steady_clock::now() + 20s;
    for (;;) {
      uint64_t seen;
      {
        std::lock_guard lock(mutex);
        seen = looks;
      }
      auto due = series.next_in();
      if (!due) return out;
      if (*due != sched::AnswerSeries::kNotYet) {
        auto next = series.next();
        if (!next) return out.end = next.error(), out;
        out.values.push_back(at(next->at(0), 0));
        continue;
      }
      std::unique_lock lock(mutex);
      if (!changed.wait_until(lock, until, [&] { return looks != seen; }))
        return out.end = base::failure(Code::kDeadlineExceeded, "the test has waited too long"), out;
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  uint64_t looks = 0;
};

TEST_F(DecoupledProcessTest, AnswersComeOneByOneAndWithinTheWindow) {
  auto model = decoupled("");
  ASSERT_TRUE(model);
  EXPECT_TRUE(model->spec().decoupled);
  for (size_t n : {0, 1, 16, 17, 200}) {
    auto series = begin(*model, n);
    auto streamed = all(*series);
    EXPECT_EQ("OK: ", text_of(streamed.end));
    ASSERT_EQ(n, streamed.values.size());
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(float(i), streamed.values[i]);
  }
}

TEST_F(DecoupledProcessTest, CallsGoToTheInstanceThatHasTheFewest) {
  msg::ModelSpec wanted;
  wanted.instances = 2;
  wanted.parameters["process_timeout"] = "500ms";
  auto model = decoupled("hang", wanted);
  auto first = begin(*model, 1), second = begin(*model, 1);
  // Both have been taken, and not one behind the other: the time of each begins at once.
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Code::kUnavailable, all(*first).end.code);
  EXPECT_EQ(Code::kUnavailable, all(*second).end.code);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  EXPECT_EQ(2u, [this] {
    std::unique_lock lock(broken.mutex);
    broken.changed.wait_for(lock, 10s, [this] { return broken.why.size() == 2; });
    return broken.why.size();
  }());
}

TEST_F(DecoupledProcessTest, AClientThatLeavesEndsItsCallOnly) {
  auto model = decoupled("");
  { auto left = begin(*model, 100); }
  auto next = begin(*model, 2);
  EXPECT_EQ(2u, all(*next).values.size());
}

TEST_F(DecoupledProcessTest, AChildKeepsToItsCredit) {
  auto model = decoupled("unbridled");
  auto series = begin(*model, 100);
  // Nobody takes an answer meanwhile.
  EXPECT_EQ(1u, broken.wait().size());
  auto streamed = all(*series);
  EXPECT_EQ(Code::kInternal, streamed.end.code);
  EXPECT_EQ(16u, streamed.values.size());
}

TEST_F(DecoupledProcessTest, AChildThatEndsFailsAllCallsInside) {
  auto model = decoupled("exit");
  auto first = begin(*model, 1);
  EXPECT_EQ("UNAVAILABLE: the process of model 'm' has ended: it exited with status 3", text_of(all(*first).end));
  auto second = model->begin(msg::Call());
  EXPECT_EQ(Code::kUnavailable, second.error().code);
}

TEST_F(DecoupledProcessTest, AChildThatDoesNotReturnIsEnded) {
  msg::ModelSpec wanted;
  wanted.parameters["process_timeout"] = "50ms";
  auto model = decoupled("hang", wanted);
  auto first = begin(*model, 1), second = begin(*model, 1);
  for (auto* series : {first.get(), second.get()}) {
    auto end = all(*series).end;
    EXPECT_EQ(Code::kUnavailable, end.code);
    EXPECT_NE(std::string::npos, end.text.find("did not return from a request within 50ms")) << end.text;
  }
}

}  // namespace
}  // namespace weir::process
