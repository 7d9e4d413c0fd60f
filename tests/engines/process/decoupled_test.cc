#include "engines/process/decoupled.h"

#include <gtest/gtest.h>

#include "engines/process/decoupled_call.h"
#include "engines/process/waiting_answers.h"
#include "process_lab.h"

namespace weir::process {
namespace {

// Asks the decoupled engine as its Inbox does, and waits.
struct Streamed {
  std::vector<float> values;  // -1: an error in place of one
  std::vector<std::string> errors;
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
        auto* outputs = std::get_if<msg::Outputs>(&next->what);
        if (!outputs) out.errors.push_back(text_of(std::get<msg::Failed>(next->what).status));
        out.values.push_back(outputs ? at(outputs->tensors.at(0), 0) : -1);
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

msg::Outputs answer_of(size_t bytes) {
  msg::Outputs out;
  for (size_t half : {bytes / 2, bytes - bytes / 2}) {
    auto& tensor = out.tensors.emplace_back();
    tensor.data = base::Bytes::copy_of(std::string(half, 'x'));
  }
  return out;
}

TEST(WaitingAnswersTest, OnceMemoryIsScarceAClientHasAShareOfIt) {
  base::MemoryLedger memory(1000);
  auto answers = std::make_shared<WaitingAnswers>(AnswerLimit{&memory, {}});
  std::vector<msg::Outputs> held;
  auto add = [&](uint64_t tenant, size_t bytes) {
    held.push_back(answer_of(bytes));
    auto charge = answers->add(tenant, held.back());
    return charge ? Code::kOk : charge.error().code;
  };
  EXPECT_EQ(Code::kOk, add(1, 200));
  EXPECT_EQ(Code::kOk, add(1, 200)) << "less than half is in use";
  memory.add(base::MemoryKind::kSlabs, 600);
  EXPECT_EQ(Code::kResourceExhausted, add(1, 1));
  EXPECT_EQ(Code::kOk, add(2, 250)) << "another client's share";
  EXPECT_EQ(Code::kResourceExhausted, add(2, 1));
  EXPECT_EQ(Code::kOk, add(msg::kManyClients | 1, 900));
  EXPECT_EQ(Code::kOk, add(3, 0));
  held.erase(held.begin());
  EXPECT_EQ(Code::kOk, add(1, 50));
  EXPECT_EQ(Code::kResourceExhausted, add(1, 1));
  held.clear();
  EXPECT_EQ(0u, answers->tenants());
}

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

TEST(WaitingAnswersTest, TheShareIsASetting) {
  base::MemoryLedger memory(1000);
  memory.add(base::MemoryKind::kSlabs, 600);
  auto answers = std::make_shared<WaitingAnswers>(AnswerLimit{&memory, {.percent = 10}});
  auto first = answer_of(100), more = answer_of(1), large = answer_of(10'000);
  EXPECT_TRUE(answers->add(1, first));
  EXPECT_NE(std::string::npos, answers->add(1, more).error().text.find("limits.client_share"));
  auto unlimited = std::make_shared<WaitingAnswers>(AnswerLimit{&memory, {.percent = 100}});
  EXPECT_TRUE(unlimited->add(1, large));
}

TEST_F(DecoupledProcessTest, AnswersWaitUntilThePeerHasTakenThem) {
  base::MemoryLedger memory(1000);
  memory.add(base::MemoryKind::kSlabs, 900);
  auto all = std::make_shared<WaitingAnswers>(AnswerLimit{&memory, {}});
  auto calls = std::make_shared<DecoupledCalls>(all);
  auto call = std::make_shared<DecoupledCall>();
  call->tenant = 1;
  auto series = make_series(calls, call);
  for (int i = 0; i < 2; ++i) {
    auto outputs = answer_of(125);
    auto charge = all->add(1, outputs);
    ASSERT_TRUE(charge);
    call->answers.push_back({{std::move(outputs)}, *charge});
  }
  auto small = answer_of(1);
  ASSERT_TRUE(series->next());
  EXPECT_FALSE(all->add(1, small)) << "it is on its way";
  series->note_room();
  EXPECT_TRUE(all->add(1, small));
  small = {};
  auto last = series->next();
  ASSERT_TRUE(last);
  series.reset();
  EXPECT_EQ(1u, all->tenants()) << "the call is over, and its last answer is unread";
  *last = msg::Event();
  EXPECT_EQ(0u, all->tenants());
}

TEST(OpenCallsTest, TheFarthestOfThemIsKnownWhicheverLeave) {
  OpenCalls open;
  EXPECT_EQ(0u, open.most_hops());
  for (uint64_t number : {1, 2, 3, 4}) {
    auto call = std::make_shared<DecoupledCall>();
    call->number = number;
    const uint32_t hops = number == 4 ? 0 : number == 1 ? 2 : 5;
    if (hops > 0) call->call.trace = std::make_shared<msg::TraceFields>(msg::TraceFields{{}, {}, hops});
    open.add(call);
  }
  EXPECT_EQ(5u, open.most_hops());
  EXPECT_TRUE(open.remove(2));
  EXPECT_FALSE(open.remove(2));
  EXPECT_EQ(nullptr, open.find(2));
  EXPECT_EQ(5u, open.most_hops());
  EXPECT_TRUE(open.remove(3));
  EXPECT_EQ(2u, open.most_hops());
  EXPECT_EQ(1u, open.find(1)->number);
  open.clear();
  EXPECT_EQ(0u, open.most_hops() + open.size());
}

TEST_F(DecoupledProcessTest, ALargeAnswerCostsMoreOfTheChildsCredit) {
  auto model = decoupled("large");
  ASSERT_TRUE(model);
  for (size_t n : {1, 5, 100}) {
    auto series = begin(*model, n);
    auto streamed = all(*series);
    EXPECT_EQ("OK: ", text_of(streamed.end));
    EXPECT_EQ(n, streamed.values.size());
  }
}

TEST_F(DecoupledProcessTest, AnErrorInPlaceOfAnAnswerIsNotTheEnd) {
  auto model = decoupled("odd errors");
  auto series = begin(*model, 40);  // errors count in the window
  auto streamed = all(*series);
  EXPECT_EQ("OK: ", text_of(streamed.end));
  ASSERT_EQ(40u, streamed.values.size());
  EXPECT_EQ(std::vector<std::string>(20, "NOT_FOUND: odd"), streamed.errors);
  for (size_t i = 0; i < 40; ++i) EXPECT_EQ(i % 2 ? -1.0f : float(i), streamed.values[i]);
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

TEST_F(DecoupledProcessTest, ACallWaitsForTheFirstInstanceThatIsFree) {
  msg::ModelSpec wanted;
  wanted.instances = 2;
  auto model = decoupled("sleeps", wanted);
  auto first = begin(*model, 20), second = begin(*model, 1);  // so many tenths of a second, then as many answers
  for (size_t n : {1, 2, 0}) {
    auto next = begin(*model, n);
    auto streamed = all(*next);
    EXPECT_EQ("OK: ", text_of(streamed.end));
    EXPECT_EQ(n, streamed.values.size());
    EXPECT_EQ(sched::AnswerSeries::kNotYet, first->next_in()) << "behind the long one";
  }
  EXPECT_EQ(1u, all(*second).values.size());
}

TEST_F(DecoupledProcessTest, ACallThatWaitsOutlivesAnInstance) {
  msg::ModelSpec wanted;
  wanted.instances = 2;
  auto model = decoupled("sleeps", wanted);
  auto ends = begin(*model, 3), other = begin(*model, 6);
  auto next = begin(*model, 2), last = begin(*model, 1);
  EXPECT_EQ("UNAVAILABLE: the process of model 'm' has ended: it exited with status 3", text_of(all(*ends).end));
  EXPECT_EQ(2u, all(*next).values.size());
  EXPECT_EQ(1u, all(*last).values.size());
  EXPECT_EQ(6u, all(*other).values.size());
  auto after = begin(*model, 1);
  EXPECT_EQ(1u, all(*after).values.size());
}

// A warm-up asks each instance by itself.
TEST_F(DecoupledProcessTest, ACallOfOneInstanceWaitsForItAndKeepsNoOtherWaiting) {
  msg::ModelSpec wanted;
  wanted.instances = 2;
  auto model = decoupled("sleeps", wanted);
  auto instances = model->instances();
  ASSERT_EQ(2u, instances.size());
  auto first = begin(*instances[0], 20), behind = begin(*instances[0], 1);
  for (size_t n : {1, 2}) {
    auto next = begin(*model, n);
    EXPECT_EQ(n, all(*next).values.size());
    EXPECT_EQ(sched::AnswerSeries::kNotYet, first->next_in());
    EXPECT_FALSE(behind->begun());
  }
}

TEST_F(DecoupledProcessTest, AClientThatLeavesEndsItsCallOnly) {
  auto model = decoupled("");
  for (int i = 0; i < 200; ++i) {
    // It leaves as the child is told of it, or before, or after; a large input takes a while to be handed over.
    { auto left = begin(*model, i % 2 ? 100 : 500'000); }
    auto next = begin(*model, 2);
    auto streamed = all(*next);
    ASSERT_EQ("OK: ", text_of(streamed.end)) << i;
    ASSERT_EQ(2u, streamed.values.size());
  }
}

TEST_F(DecoupledProcessTest, ACallThatNobodyWaitsForKeepsNoTensors) {
  msg::ModelSpec wanted;
  wanted.parameters["process_timeout"] = "60s";
  auto model = decoupled("hang", wanted);
  auto first = begin(*model, 1);
  msg::Call call;
  call.inputs = {floats(std::vector<float>(1000), {1000})};
  auto held = [&] { return call.inputs.at(0).data.slab()->refs.load(); };
  const auto own = held();
  auto second = model->begin(call), third = model->begin(call);
  ASSERT_TRUE(second && third);
  EXPECT_EQ(own + 2, held());
  second->reset();
  EXPECT_EQ(own + 1, held());
  third->reset();
  EXPECT_EQ(own, held());
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

// It waits for room for its next answers, which nobody takes: the call has ended with the first.
TEST_F(DecoupledProcessTest, AChildIsToldThatAWrongAnswerWasTheLast) {
  auto model = decoupled("long ones falsely");
  for (int i = 0; i < 3; ++i) {
    auto wrong = begin(*model, 100);
    EXPECT_EQ("INTERNAL: model 'm' gave output 'y' with shape [1,1]; it has [-1]", text_of(all(*wrong).end));
    auto next = begin(*model, 2);
    auto streamed = all(*next);
    EXPECT_EQ("OK: ", text_of(streamed.end));
    EXPECT_EQ(2u, streamed.values.size());
  }
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

// It has taken the request, and works on it.
TEST_F(DecoupledProcessTest, AChildThatWorksForTooLongIsEnded) {
  msg::ModelSpec wanted;
  wanted.parameters["process_timeout"] = "100ms";
  auto model = decoupled("works on", wanted);
  auto first = begin(*model, 1);
  auto end = all(*first).end;
  EXPECT_EQ(Code::kUnavailable, end.code);
  EXPECT_NE(std::string::npos, end.text.find("process_timeout")) << end.text;
}

TEST_F(DecoupledProcessTest, NoTimeIsCountedWhileAChildWaits) {
  msg::ModelSpec wanted;
  wanted.parameters["process_timeout"] = "100ms";
  auto model = decoupled("waits", wanted);
  auto streamed = all(*begin(*model, 2));
  EXPECT_EQ("OK: ", text_of(streamed.end));
  EXPECT_EQ(2u, streamed.values.size());
}

}  // namespace
}  // namespace weir::process
