#include "sched/decoupled_inbox.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "bus/response_stats.h"
#include "calls.h"
#include "fake_deadline_timer.h"

namespace weir::sched {
namespace {

using base::Code;

// Answers as often as the call's first value says, every 10 ms, with 0, 1, 2, …
class Counter final : public DecoupledEngine {
 public:
  Counter() : spec_(spec_of(0)) {}
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Result<std::unique_ptr<AnswerSeries>> begin(const msg::Call& call) override {
    const float often = floats_of(call.inputs.at(0)).at(0);
    ++begun;
    if (often < 0) return base::invalid("negative");
    return std::unique_ptr<AnswerSeries>(std::make_unique<Numbers>(*this, int(often)));
  }
  int throws_at = -1, error_at = -1, begun = 0, rooms = 0;
  int64_t size = 1;  // values of each answer
  bool last_is_an_answer = false;

 private:
  struct Numbers final : AnswerSeries {
    Numbers(Counter& of, int n)
        : often(n), throws_at(of.throws_at), error_at(of.error_at), last_is_an_answer(of.last_is_an_answer), of(of) {}
    void note_room() override { ++of.rooms; }
    std::optional<base::Duration> next_in() const override {
      return at < often ? std::optional<base::Duration>(10ms) : std::nullopt;
    }
    base::Result<msg::Event> next() override {
      if (at == throws_at) throw std::runtime_error("a path of this machine");
      if (at == error_at) return ++at, msg::Event{msg::Failed{base::failure(Code::kNotFound, "not that one")}};
      msg::Outputs answer{.tensors = {floats("y", {of.size}, std::vector<float>(size_t(of.size), float(at)))},
                          .parameters = {{"at", int64_t(at)}},
                          .final = last_is_an_answer && at + 1 == often};
      return ++at, msg::Event{answer};
    }
    const int often, throws_at, error_at;
    const bool last_is_an_answer;
    Counter& of;
    int at = 0;
  };
  msg::ModelSpec spec_;
};

// "0 1 end", "0 1!" where the last answer is the end, or the code of a failure.
std::string words_of(const std::vector<msg::Mail>& mail, const msg::Call& call) {
  std::string out;
  for (const auto& m : mail) {
    if (m.call != &call) continue;
    std::string word = text_of(m.event);
    if (word == "ok") {
      const auto& outputs = std::get<msg::Outputs>(m.event.what);
      word = outputs.tensors.empty() ? "end" : std::to_string(int(floats_of(outputs.tensors.at(0)).at(0)));
      EXPECT_TRUE(outputs.final || !outputs.tensors.empty());
      if (outputs.final && !outputs.tensors.empty()) word += "!";
    }
    out += (out.empty() ? "" : " ") + word;
  }
  return out;
}

struct DecoupledTest : testing::Test {
  void open(base::ShareRule share = {100, 1}, uint32_t max_queue = 8) {
    auto counter = std::make_unique<Counter>();
    engine = counter.get();
    spec = spec_of(0);
    spec.batching.max_queue = max_queue;
    inbox = make_decoupled(std::move(counter), spec, stats, share, timer);
  }
  msg::Call& put(float often, uint64_t tenant = 0) {
    msg::Call& call = calls.emplace_back();
    call.tenant = tenant;
    return put(call, often);
  }
  msg::Call& put(msg::Call& call, float often) {
    call.home = &home;
    call.times.queued = timer->now();
    fill(call, 1, often);
    inbox->put(&call);
    return call;
  }
  std::string told(const msg::Call& call) { return words_of(home.mail, call); }

  const bus::ResponseStats& responses() const {
    return dynamic_cast<const bus::CountsResponses&>(*inbox).response_stats();
  }

  std::shared_ptr<FakeDeadlineTimer> timer = std::make_shared<FakeDeadlineTimer>();
  Answers home;
  bus::ModelStats stats;
  msg::ModelSpec spec;
  std::deque<msg::Call> calls;
  Counter* engine = nullptr;
  std::unique_ptr<msg::Inbox> inbox;
};

TEST_F(DecoupledTest, AnswersComeWhenTheyAreDueAndTheEndBehindTheLast) {
  open();
  auto& call = put(3);
  EXPECT_EQ(told(call), "");
  timer->advance(9ms);
  EXPECT_EQ(told(call), "");
  timer->advance(1ms);
  EXPECT_EQ(told(call), "0");
  timer->advance(10ms);
  timer->advance(10ms);
  EXPECT_EQ(told(call), "0 1 2 end");
  EXPECT_EQ(timer->due(), 0u);
}

TEST_F(DecoupledTest, TheLastAnswerIsTheEndWhereTheModelSaysSo) {
  open();
  engine->last_is_an_answer = true;
  auto& call = put(3);
  auto& none = put(0);
  for (int i = 0; i < 3; ++i) timer->advance(10ms);
  EXPECT_EQ(told(call), "0 1 2!");
  EXPECT_EQ(told(none), "end");
  EXPECT_EQ(stats.success.count, 2u);
  EXPECT_EQ(dynamic_cast<const bus::CountsResponses&>(*inbox).first_responses().sum_ms(), 10u);
  EXPECT_EQ(timer->due(), 0u);
}

TEST_F(DecoupledTest, AnAnswersParametersGoWithIt) {
  open();
  auto& call = put(2);
  for (int i = 0; i < 2; ++i) timer->advance(10ms);
  std::vector<msg::Parameters> seen;
  for (const auto& m : home.mail)
    if (m.call == &call) seen.push_back(std::get<msg::Outputs>(m.event.what).parameters);
  EXPECT_EQ(seen, (std::vector<msg::Parameters>{{{"at", int64_t(0)}}, {{"at", int64_t(1)}}, {}}));
}

TEST_F(DecoupledTest, ARequestMayGetNoAnswerButTheEnd) {
  open();
  auto& call = put(0);
  timer->advance(0ms);
  EXPECT_EQ(told(call), "end");
}

TEST_F(DecoupledTest, CallsRunSideBySide) {
  open();
  auto &a = put(2), &b = put(1);
  timer->advance(10ms);
  timer->advance(10ms);
  EXPECT_EQ(told(a), "0 1 end");
  EXPECT_EQ(told(b), "0 end");
}

TEST_F(DecoupledTest, ACallWithoutCreditWaitsUntilItsPeerHasRoom) {
  open();
  auto &slow = put(3), &other = put(1);
  slow.credit = 1;
  for (int i = 0; i < 5; ++i) timer->advance(10ms);
  EXPECT_EQ(told(slow), "0");
  EXPECT_EQ(told(other), "0 end");
  EXPECT_EQ(timer->due(), 0u) << "nothing is to be looked at until there is credit";
  slow.credit += 5;
  inbox->poke();
  timer->advance(0ms);
  timer->advance(10ms);
  EXPECT_EQ(told(slow), "0 1 2 end");
}

TEST_F(DecoupledTest, LargeAnswersTakeMoreCreditAndTheLastMayTakeMoreThanThereIs) {
  open();
  engine->size = 64 << 10;  // 17 each
  auto& slow = put(3);
  slow.credit = 20;
  timer->advance(10ms);
  EXPECT_EQ(slow.credit, 3);
  EXPECT_EQ(engine->rooms, 1);
  for (int i = 0; i < 5; ++i) timer->advance(10ms);
  EXPECT_EQ(told(slow), "0 1");
  EXPECT_EQ(slow.credit, -14);
  EXPECT_EQ(engine->rooms, 1);
  slow.credit += 14;
  inbox->poke();
  EXPECT_EQ(engine->rooms, 1);
  EXPECT_EQ(timer->due(), 0u);
  slow.credit += 3;
  inbox->poke();
  EXPECT_EQ(engine->rooms, 2) << "the peer has taken most of it";
  timer->advance(0ms);
  EXPECT_EQ(told(slow), "0 1 2 end");
}

TEST_F(DecoupledTest, ACancelledCallLeavesAtOnceAlsoOneWithoutCredit) {
  open();
  auto &a = put(5), &b = put(5);
  b.credit = 0;
  timer->advance(10ms);
  a.cancelled = b.cancelled = true;
  for (int i = 0; i < 3; ++i) inbox->poke();
  timer->advance(0ms);
  EXPECT_EQ(told(a), "0 CANCELLED");
  EXPECT_EQ(told(b), "CANCELLED");
  EXPECT_EQ(responses().rows()[1].cancel.count, 1u);
}

TEST_F(DecoupledTest, ABadRequestAndAThrowingModelFailTheirOwnCall) {
  open();
  EXPECT_EQ(told(put(-1)), "INVALID_ARGUMENT");
  engine->throws_at = 1;
  auto& call = put(3);
  engine->throws_at = -1;
  auto& good = put(1);
  timer->advance(10ms);
  timer->advance(10ms);
  EXPECT_EQ(told(call), "0 INTERNAL");
  EXPECT_EQ(told(good), "0 end");
}

TEST_F(DecoupledTest, AnErrorInPlaceOfAnAnswerEndsACallUnlessItTakesErrors) {
  open();
  engine->error_at = 1;
  auto& call = put(3);
  auto& open_to_errors = calls.emplace_back();
  open_to_errors.takes_errors = true;
  put(open_to_errors, 3);
  for (int i = 0; i < 3; ++i) timer->advance(10ms);
  EXPECT_EQ(told(call), "0 NOT_FOUND");
  EXPECT_EQ(told(open_to_errors), "0 NOT_FOUND 2 end");
  EXPECT_EQ(responses().rows()[1].fail.count, 2u);
  EXPECT_EQ(responses().rows()[2].success.count, 1u);
}

TEST_F(DecoupledTest, OneTenantHoldsNoMoreThanItsShareOfThePlaces) {
  open({25, 1}, 8);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(told(put(1, 2)), "");
  EXPECT_EQ(told(put(1, 2)), "RESOURCE_EXHAUSTED");
  for (uint64_t tenant : {4, 6, 8, 10}) EXPECT_EQ(told(put(1, tenant)), "");
  EXPECT_EQ(told(put(1, 12)), "RESOURCE_EXHAUSTED") << "all places are taken";
  EXPECT_EQ(engine->begun, 8) << "the model has not begun on those that were refused";
  timer->advance(10ms);
  EXPECT_EQ(told(put(1, 2)), "") << "places are free again";
  timer->advance(10ms);
}

TEST_F(DecoupledTest, WithoutAThreadACallIsRefused) {
  open();
  timer->shatter();
  EXPECT_EQ(told(put(1)), "RESOURCE_EXHAUSTED");
  timer->mend();
  auto& call = put(1);
  timer->advance(10ms);
  EXPECT_EQ(told(call), "0 end");
}

TEST_F(DecoupledTest, StatisticsCountRequestsAndAnswersByTheirPlace) {
  open();
  put(2), put(1);
  for (int i = 0; i < 2; ++i) timer->advance(10ms);
  EXPECT_EQ(stats.success.count, 2u);
  EXPECT_EQ(stats.inference_count, 2u);
  EXPECT_EQ(stats.batches().at(1).count, 2u);
  EXPECT_EQ(stats.success.ns, 30'000'000u);
  const auto& rows = responses().rows();
  EXPECT_EQ(rows[0].success.count, 2u);
  EXPECT_EQ(rows[0].compute_infer.ns, 20'000'000u);
  EXPECT_EQ(rows[1].success.count, 1u);
  EXPECT_EQ(rows[1].empty.count, 1u);
  EXPECT_EQ(rows[2].empty.count, 1u);
}

// Answers when the test says so.
class Told final : public DecoupledEngine {
 public:
  struct Answers {
    int there = 0, given = 0;
    bool ended = false, begun = true;
  };
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Result<std::unique_ptr<AnswerSeries>> begin(const msg::Call&) override {
    auto& answers = all.emplace_back();
    answers.begun = begins_at_once;
    return std::unique_ptr<AnswerSeries>(std::make_unique<Series>(answers));
  }
  void on_answers(std::function<void()> l) override { look = std::move(l); }

  std::deque<Answers> all;
  std::function<void()> look;
  bool begins_at_once = true;

 private:
  struct Series final : AnswerSeries {
    explicit Series(Answers& a) : answers(a) {}
    std::optional<base::Duration> next_in() const override {
      if (answers.given < answers.there) return base::Duration(0);
      if (answers.ended) return std::nullopt;
      return kNotYet;
    }
    base::Result<msg::Event> next() override {
      return msg::Event{
          msg::Outputs{.tensors = {floats("y", {1}, {float(answers.given++)})}, .parameters = {}, .final = false}};
    }
    bool begun() const override { return answers.begun; }
    Answers& answers;
  };
  msg::ModelSpec spec_;
};

struct DecoupledQueueTest : DecoupledTest {
  DecoupledQueueTest() {
    spec = spec_of(0);
    spec.batching.queue_timeout = 1s;
    spec.batching.priority_levels = 3, spec.batching.default_priority = 2;
    spec.batching.levels[3].timeout_action = msg::QueuePolicy::TimeoutAction::kDelay;
    spec.batching.levels[3].queue_timeout = 1s;
    auto made = std::make_unique<Told>();
    engine = made.get();
    engine->begins_at_once = false;
    inbox = make_decoupled(std::move(made), spec, stats, {100, 1}, timer);
  }
  msg::Call& put(base::Duration queue_timeout = {}, uint32_t priority = 0) {
    msg::Call& call = calls.emplace_back();
    call.home = &home;
    call.times.queued = timer->now();
    call.queue_timeout = queue_timeout, call.priority = priority;
    fill(call, 1, 1);
    inbox->put(&call);
    return call;
  }
  void answer(size_t at) {
    engine->all.at(at).there = 1, engine->all[at].ended = true;
    engine->look();
    timer->advance(0ms);
    timer->advance(0ms);
  }
  Told* engine = nullptr;
};

TEST_F(DecoupledQueueTest, ACallThatTheModelDoesNotBeginInTimeIsRefused) {
  auto &late = put(), &begun = put();
  timer->advance(999ms);
  EXPECT_EQ(told(late), "");
  engine->all[1].begun = true;
  timer->advance(1ms);
  EXPECT_EQ(told(late), "UNAVAILABLE");
  timer->advance(1h);
  answer(1);
  EXPECT_EQ(told(begun), "0 end");
  EXPECT_EQ(timer->due(), 0u);
}

TEST_F(DecoupledQueueTest, ACallMayAskForLessTimeAndItsLevelMayKeepItInTheQueue) {
  auto &other = put(), &hurried = put(100ms), &delayed = put({}, 3);
  timer->advance(100ms);
  EXPECT_EQ(told(hurried), "UNAVAILABLE");
  timer->advance(899ms);
  EXPECT_EQ(told(other), "");
  timer->advance(1ms);
  EXPECT_EQ(told(other), "UNAVAILABLE");
  timer->advance(1h);
  EXPECT_EQ(told(delayed), "");
  answer(2);
  EXPECT_EQ(told(delayed), "0 end");
}

TEST_F(DecoupledTest, AnEngineTellsWhenAnAnswerIsThere) {
  auto made = std::make_unique<Told>();
  Told& told_engine = *made;
  spec = spec_of(0);
  inbox = make_decoupled(std::move(made), spec, stats, {100, 1}, timer);
  auto &a = put(1), &b = put(1);
  timer->advance(1h);
  EXPECT_EQ(told(a) + told(b), "");
  EXPECT_EQ(timer->due(), 0u) << "nobody asks meanwhile";
  told_engine.all[0].there = 2;
  told_engine.look();
  timer->advance(0ms);
  timer->advance(0ms);
  EXPECT_EQ(told(a), "0 1");
  b.credit = 0;
  told_engine.all[1].there = 1, told_engine.all[1].ended = true;
  told_engine.look();
  timer->advance(0ms);
  EXPECT_EQ(told(b), "");
  b.credit = 1;
  inbox->poke();
  timer->advance(0ms);
  EXPECT_EQ(told(b), "0 end");
  a.cancelled = true;
  inbox->poke();
  timer->advance(0ms);
  EXPECT_EQ(told(a), "0 1 CANCELLED");
}

}  // namespace
}  // namespace weir::sched
