#include "sched/sequence_inbox.h"

#include <gtest/gtest.h>

#include <deque>

#include "calls.h"
#include "fake_deadline_timer.h"

namespace weir::sched {
namespace {

// A model that adds x to the state `sum`, and gives the sum out as y. Its requests are answered by the test.
class Adder final : public msg::Inbox {
 public:
  void put(msg::Call* call) override { held.push_back(call); }
  void poke() override { ++pokes; }
  // Answers the request that came first.
  void answer(base::Status failure = {}) {
    msg::Call* call = held.front();
    held.pop_front();
    seen.push_back(inputs_of(*call));
    std::vector<msg::Mail> burst;
    if (!failure.ok()) {
      burst.push_back({call, {msg::Failed{std::move(failure)}}});
    } else {
      const float sum = value(*call, "x") + value(*call, "sum");
      burst.push_back({call, {msg::Outputs{{floats("y", {1, 1}, {sum}), floats("sum_out", shape, {sum})}, {}}}});
    }
    call->home->post(burst);
  }
  static float value(const msg::Call& call, std::string_view name) {
    for (const auto& t : call.inputs)
      if (t.name == name) return floats_of(t).at(0);
    return -1;
  }
  // "start=1 sum=3": what the model was told beside its client's own.
  static std::string inputs_of(const msg::Call& call) {
    return "start=" + std::to_string(int(value(call, "start"))) + " sum=" + std::to_string(int(value(call, "sum")));
  }
  std::deque<msg::Call*> held;
  std::vector<std::string> seen;
  msg::Shape shape{1, 1};  // of the state
  int pokes = 0;
};

std::shared_ptr<const msg::ModelSpec> adder_spec() {
  auto spec = std::make_shared<msg::ModelSpec>(spec_of(2, 1));
  for (const char* name : {"start", "sum"}) spec->inputs.push_back({name, msg::DType::kFp32, {1}, false, {}});
  spec->outputs.push_back({"sum_out", msg::DType::kFp32, {1}, false, {}});
  return spec;
}

std::shared_ptr<const msg::SequenceSpec> adder_sequences() {
  auto out = std::make_shared<msg::SequenceSpec>();
  out->idle = 10s;
  out->queue.max_queue = 4;
  out->controls = {{"start", msg::SequenceSpec::Control::Kind::kStart, msg::DType::kFp32, 0, 1}};
  out->states.push_back({"sum", "sum_out", msg::DType::kFp32, {1}, {}, false, false});
  return out;
}

struct SequenceInboxTest : testing::Test {
  SequenceInboxTest() {
    auto made = std::make_unique<Adder>();
    adder = made.get();
    std::vector<std::unique_ptr<msg::Inbox>> inner;
    inner.push_back(std::move(made));
    inbox = with_sequences(std::move(inner), adder_spec(), adder_sequences(), stats, nullptr, {}, timer);
  }
  msg::Call& put(uint64_t id, float x, bool start = false, bool end = false, uint64_t tenant = 0,
                 base::Duration queue_timeout = {}) {
    msg::Call& call = calls.emplace_back();
    call.tenant = tenant;
    call.queue_timeout = queue_timeout;
    call.home = &home;
    call.times.queued = timer->now();
    call.session = {0, id};
    fill(call, 1, x, 1);
    call.parameters = {{"sequence_id", int64_t(id)}, {"sequence_start", start}, {"sequence_end", end}};
    inbox->put(&call);
    return call;
  }
  // The sum, the code of a failure, or "" while there is none.
  std::string told(const msg::Call& call) {
    for (const auto& m : home.mail) {
      if (m.call != &call) continue;
      if (auto text = text_of(m.event); text != "ok") return text;
      const auto& tensors = std::get<msg::Outputs>(m.event.what).tensors;
      EXPECT_EQ(tensors.size(), 1u) << "clients do not see states";
      return std::to_string(int(floats_of(tensors.at(0)).at(0)));
    }
    return "";
  }

  std::shared_ptr<FakeDeadlineTimer> timer = std::make_shared<FakeDeadlineTimer>();
  Answers home;
  bus::ModelStats stats;
  std::deque<msg::Call> calls;
  Adder* adder = nullptr;
  std::unique_ptr<msg::Inbox> inbox;
};

TEST_F(SequenceInboxTest, CallsThatWaitForTheirSequenceOrForASlotAreCounted) {
  put(1, 1, true);
  EXPECT_EQ(stats.waiting(), 0u);
  put(1, 1), put(1, 1);
  put(2, 1, true), put(3, 1, true);
  msg::Call& last = put(3, 1);
  const uint64_t waited = stats.waiting();
  EXPECT_GE(waited, 3u);
  last.cancelled = true;
  inbox->poke();
  EXPECT_LT(stats.waiting(), waited);
  while (!adder->held.empty()) adder->answer();
  EXPECT_EQ(stats.waiting(), 0u);
}

TEST_F(SequenceInboxTest, TheStateOfARequestIsTheInputOfTheNext) {
  auto &first = put(7, 3, true), &second = put(7, 4), &third = put(7, 5, false, true);
  EXPECT_EQ(adder->held.size(), 1u) << "one of a sequence at a time";
  while (!adder->held.empty()) adder->answer();
  EXPECT_EQ(told(first) + " " + told(second) + " " + told(third), "3 7 12");
  EXPECT_EQ(adder->seen, (std::vector<std::string>{"start=1 sum=0", "start=0 sum=3", "start=0 sum=7"}));
  EXPECT_EQ(first.inputs.size(), 1u) << "the Call is its client's again";
}

TEST_F(SequenceInboxTest, ARequestThatFailsLeavesTheStateAsItWas) {
  put(7, 3, true);
  adder->answer();
  auto& fails = put(7, 100);
  adder->answer(base::failure(base::Code::kInternal, "broke"));
  auto& next = put(7, 1, false, true);
  adder->answer();
  EXPECT_EQ(told(fails), "INTERNAL");
  EXPECT_EQ(told(next), "4");
}

// It says so itself: no queue has refused it. Of a batch that fails, all are told the same.
TEST_F(SequenceInboxTest, NorDoesOneThatTheModelFailsWithTheCodeOfARefusalEndItsSequence) {
  put(7, 1, true);
  adder->answer();
  for (auto code : {base::Code::kResourceExhausted, base::Code::kUnavailable, base::Code::kDeadlineExceeded}) {
    auto &fails = put(7, 10), &behind = put(7, 0);
    fails.times.started = timer->now();  // as lanes do
    adder->answer(base::failure(code, "try later"));
    EXPECT_EQ(told(fails), base::name(code));
    ASSERT_EQ(adder->held, std::deque<msg::Call*>{&behind});
    adder->answer();
    EXPECT_EQ(told(behind), "1");
  }
}

TEST_F(SequenceInboxTest, RequestsOfASequenceGoToTheInstanceThatItIsBoundTo) {
  std::vector<std::unique_ptr<msg::Inbox>> inner;
  Adder* of[2];
  for (auto& each : of) inner.push_back(std::make_unique<Adder>()), each = static_cast<Adder*>(inner.back().get());
  inbox = with_sequences(std::move(inner), adder_spec(), adder_sequences(), stats, nullptr, {}, timer);
  put(1, 1, true), put(2, 2, true);
  for (auto* each : of) {
    ASSERT_EQ(each->held.size(), 1u);
    each->answer();
  }
  auto &second = put(2, 2), &first = put(1, 1);
  EXPECT_EQ(of[0]->held, std::deque<msg::Call*>{&first});
  EXPECT_EQ(of[1]->held, std::deque<msg::Call*>{&second});
  inbox->poke();
  for (auto* each : of) {
    EXPECT_EQ(each->pokes, 1);
    each->answer();
  }
  EXPECT_EQ(told(first) + " " + told(second), "2 4");
}

TEST_F(SequenceInboxTest, WhatIsOfNoSequenceDoesNotReachTheModel) {
  EXPECT_EQ(told(put(7, 1)), "INVALID_ARGUMENT");
  EXPECT_EQ(told(put(0, 1, true)), "INVALID_ARGUMENT");
  auto& call = calls.emplace_back();
  call.home = &home, call.session = {0, 5};
  fill(call, 2, 1, 1);
  call.parameters = {{"sequence_id", int64_t(5)}, {"sequence_start", true}};
  inbox->put(&call);
  EXPECT_EQ(told(call), "INVALID_ARGUMENT") << "two rows are two places in a sequence";
  EXPECT_TRUE(adder->held.empty());
  EXPECT_EQ(stats.errors, 3u);
}

TEST_F(SequenceInboxTest, ACancelledRequestEndsItsSequenceAndTheNextOneHasItsSlot) {
  auto &runs = put(1, 1, true), &waits = put(1, 2);
  put(2, 1, true);
  auto& queued = put(3, 5, true);
  EXPECT_EQ(adder->held.size(), 2u) << "two slots";
  runs.cancelled = true;
  inbox->poke();
  EXPECT_EQ(adder->pokes, 1);
  adder->answer(base::failure(base::Code::kCancelled, "cancelled"));
  EXPECT_EQ(told(runs), "CANCELLED");
  EXPECT_EQ(told(waits), "CANCELLED");
  EXPECT_EQ(adder->held.back(), &queued);
  EXPECT_EQ(told(put(1, 1)), "INVALID_ARGUMENT");
  while (!adder->held.empty()) adder->answer();
}

TEST_F(SequenceInboxTest, AnIdleSequenceLosesItsSlotAndItsState) {
  put(1, 1, true), put(2, 1, true);
  adder->answer(), adder->answer();
  auto& queued = put(3, 5, true);
  EXPECT_TRUE(adder->held.empty());
  timer->advance(10s);
  ASSERT_EQ(adder->held.size(), 1u);
  adder->answer();
  EXPECT_EQ(told(queued), "5");
  EXPECT_EQ(told(put(1, 1)), "INVALID_ARGUMENT");
}

TEST_F(SequenceInboxTest, RequestsThatWaitAreBoundedAndTheRestIsToldToTryAgain) {
  put(1, 1, true), put(2, 1, true);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(told(put(uint64_t(10 + i), 1, true)), "");
  EXPECT_EQ(told(put(20, 1, true)), "RESOURCE_EXHAUSTED");
  for (int left = 6; left > 0; --left) {
    ASSERT_FALSE(adder->held.empty());
    adder->answer(base::failure(base::Code::kCancelled, "cancelled"));
  }
  EXPECT_TRUE(adder->held.empty());
}

TEST_F(SequenceInboxTest, RequestsOfASequenceThatHasItsSlotDoNotTimeOut) {
  put(7, 1, true);
  auto &timed = put(7, 10, false, false, 0, 1s), &last = put(7, 100, false, true);
  timer->advance(2s);
  while (!adder->held.empty()) adder->answer();
  EXPECT_EQ(told(timed) + " " + told(last), "11 111");
}

TEST_F(SequenceInboxTest, ASequenceThatWaitsForASlotTimesOutAsAWhole) {
  put(1, 1, true), put(2, 1, true);
  auto &start = put(3, 1, true, false, 0, 1s), &next = put(3, 10);
  timer->advance(1s);
  EXPECT_EQ(told(start), "UNAVAILABLE");
  EXPECT_EQ(told(next), "UNAVAILABLE") << "nobody has cancelled it";
  EXPECT_EQ(told(put(3, 100)), "INVALID_ARGUMENT");
  while (!adder->held.empty()) adder->answer();
}

TEST_F(SequenceInboxTest, TheNextSequenceOfAnIdTimesOutOnceItWaitsForASlot) {
  put(1, 1, true), put(2, 1, true);
  auto& last = put(1, 10, false, true);
  auto &other = put(3, 1, true), &next = put(1, 5, true, false, 0, 1s);
  timer->advance(2s);
  EXPECT_EQ(told(next), "");
  adder->answer(), adder->answer(), adder->answer();
  EXPECT_EQ(told(last), "11");
  ASSERT_EQ(adder->held, std::deque<msg::Call*>{&other});
  timer->advance(0s);
  EXPECT_EQ(told(next), "UNAVAILABLE");
  adder->answer();
}

// A Python model may give an output any shape, and the next request would be gathered with it.
TEST_F(SequenceInboxTest, AStateOfAnotherShapeEndsTheSequence) {
  for (msg::Shape shape : {msg::Shape{}, msg::Shape{1}, msg::Shape{1, 1, 1}}) {
    adder->shape = shape;
    auto &first = put(7, 1, true), &behind = put(7, 10);
    adder->answer();
    EXPECT_EQ(told(first), "INTERNAL");
    while (!adder->held.empty()) adder->answer();
    EXPECT_NE(told(behind), "11");
    put(7, 0, false, true);
    while (!adder->held.empty()) adder->answer();
  }
}

// None of those behind it runs on a state that lacks it.
TEST_F(SequenceInboxTest, ARequestThatIsRefusedOrLateEndsItsSequence) {
  for (auto code : {base::Code::kResourceExhausted, base::Code::kUnavailable, base::Code::kDeadlineExceeded}) {
    put(7, 1, true);
    auto &lacks = put(7, 10), &behind = put(7, 100);
    adder->answer();
    adder->answer(base::failure(code, "no"));
    EXPECT_EQ(told(lacks), base::name(code));
    EXPECT_EQ(told(behind), base::name(code));
    EXPECT_TRUE(adder->held.empty());
    EXPECT_EQ(told(put(7, 1000)), "INVALID_ARGUMENT");
  }
}

TEST_F(SequenceInboxTest, ASequenceOnWhichTooManyRequestsWaitEndsWithThoseThatCameBefore) {
  put(1, 1, true), put(2, 1, true);
  auto& other = put(3, 5, true);
  std::vector<msg::Call*> fit;
  for (int i = 0; i < 256; ++i) fit.push_back(&put(1, 1));
  EXPECT_EQ(told(*fit.back()), "") << "sequences that wait for a slot do not take their place";
  EXPECT_EQ(told(put(1, 1)), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(told(put(1, 1)), "INVALID_ARGUMENT");
  while (!adder->held.empty()) adder->answer();
  EXPECT_EQ(told(*fit.back()), "257");
  EXPECT_EQ(told(other), "5") << "the slot is free";
}

TEST_F(SequenceInboxTest, ARequestWhoseArrivalLetsAnotherRunLeavesWhenItHasWaitedTooLong) {
  put(1, 1, true), put(2, 1, true);
  timer->shatter();  // nobody is told when sequence 1 expires
  adder->answer();
  auto& first = put(3, 3, true);
  timer->advance(10s);
  timer->mend();
  auto& second = put(4, 4, true, false, 0, 1s);
  ASSERT_EQ(adder->held.size(), 2u) << "sequence 3 has the slot that was sequence 1's";
  timer->advance(1s);
  EXPECT_EQ(told(second), "UNAVAILABLE");
  adder->answer(), adder->answer();
  EXPECT_EQ(told(first), "3");
}

// Clients that start sequences and never end them leave room for one that comes later.
TEST_F(SequenceInboxTest, AnotherTenantGetsASlotFromOneThatHoldsThemAll) {
  put(1, 1, true, false, 2), put(2, 1, true, false, 2);
  adder->answer(), adder->answer();
  auto& other = put(1, 9, true, true, 4);
  for (int second = 0; second < 10; ++second) {
    timer->advance(1s);
    for (uint64_t id : {1, 2}) put(id, 1, false, false, 2);
    while (!adder->held.empty()) adder->answer();
  }
  EXPECT_EQ(told(other), "9");
}

}  // namespace
}  // namespace weir::sched
