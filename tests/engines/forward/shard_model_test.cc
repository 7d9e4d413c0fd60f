// Calls that are forwarded: whom they go to next, and how they end.
#include "engines/forward/shard_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/overload.h"
#include "engines/forward/sequence_lines.h"
#include "fake_kind.h"
#include "net/shard_parts.h"
#include "sched/local_first.h"
#include "wire/hops.h"

namespace weir::forward {
namespace {

using base::Code;
using base::Status;

// A client that takes nothing yet, and two origins.
struct ForwardedText : testing::Test {
  ForwardedText() {
    for (const char* url : {"http://10.0.0.1:8001", "http://10.0.0.2:8001"})
      target->origins.emplace_back(*net::parse_url(url), 0, Origin::Addresses(1));
    target->kind = kind;
    stats.tokens = std::make_unique<bus::TokenStats>();
    model.emplace(shard, target, spec, stats, slabs);
    call.generation = std::make_unique<msg::Generation>();
    call.generation->append = {1, 2, 3};
    call.home = &events;
    call.credit = 0;
    model->put(&call, ShardModel::Came::kHere);
  }
  // As of a range of the prompt whose readouts were asked for.
  static msg::Event readout(uint32_t position, size_t floats) {
    auto details = std::make_shared<msg::TokenDetails>();
    details->readout.resize(floats);
    return {msg::Token{.id = 7, .position = position, .prefill = true, .details = std::move(details)}};
  }

  net::Shard shard{base::ShardId(0), net::Pin::kNo};  // not started: this thread is its own
  std::shared_ptr<FakeKind> kind = std::make_shared<FakeKind>();
  std::shared_ptr<Target> target = std::make_shared<Target>();
  msg::ModelSpec spec;
  bus::ModelStats stats;
  Slabs slabs;
  Events events;
  msg::Call call;
  std::optional<ShardModel> model;
};

TEST_F(ForwardedText, ThatFindsNoMemoryHereIsAskedOfNoOtherOrigin) {
  Attempt::Receiver& receiver = kind->last->receiver;
  ASSERT_TRUE(receiver.on_part(readout(0, 4096)).ok());
  const Status refused = receiver.on_part(readout(1, 64 << 10));
  EXPECT_EQ(Code::kResourceExhausted, refused.code);
  receiver.on_over({refused, From::kBusy, {}});  // as of an origin that has done nothing yet
  EXPECT_EQ(1, kind->made);
  ASSERT_EQ(1u, events.all.size());
  const auto& failed = std::get<msg::Failed>(events.all[0].what);
  EXPECT_EQ(503, base::http_status(failed.status)) << "the lack is the server's";
  EXPECT_EQ(std::string::npos, failed.status.text.find("10.0.0.")) << failed.status.text;
}

TEST_F(ForwardedText, ThatAnOriginHasNoRoomForIsAskedOfAnother) {
  kind->last->receiver.on_over({base::try_again(Code::kResourceExhausted, "full"), From::kBusy, {}});
  EXPECT_EQ(2, kind->made);
  EXPECT_TRUE(events.all.empty());
  call.cancelled = true;
  model->look();
}

// Requests of a sequence that are all there at once, to an origin that is reached by a connection for each.
struct ForwardedSequence : testing::Test {
  ForwardedSequence() {
    target->origins.emplace_back(*net::parse_url("http://10.0.0.1:8001"), 0, Origin::Addresses(1));
    target->kind = kind;
    model.emplace(shard, target, spec, stats, slabs);
  }
  void add_origin(const char* url) { target->origins.emplace_back(*net::parse_url(url), 0, Origin::Addresses(1)); }
  void put(bool start, uint64_t id = 7, ShardModel* to = nullptr) {
    msg::Call& call = calls.emplace_back();
    call.session = {0, id};
    call.parameters.emplace_back("sequence_start", start);
    call.parameters.emplace_back("sequence_end", end_next);
    call.home = &events;
    (to ? *to : *model).put(&call, ShardModel::Came::kHere);
  }
  // The one that was sent last is over; what follows from that comes in the next turns.
  void answer(const Status& status = {}) {
    kind->last->receiver.on_over({status, From::kOrigin, msg::Event{msg::Outputs{}}});
    turns();
  }
  void turns() {
    for (int turn = 0; turn < 3; ++turn) later(std::chrono::milliseconds(1));
  }
  void later(base::Duration time) {
    const base::Time then = shard.env().now() + time;
    shard.parts().turn_began = then;
    shard.parts().timers.fire_due(then);
  }
  const std::string& text(size_t event) const { return std::get<msg::Failed>(events.all[event].what).status.text; }
  size_t failed() const {
    return size_t(std::count_if(events.all.begin(), events.all.end(),
                                [](const auto& event) { return std::holds_alternative<msg::Failed>(event.what); }));
  }

  net::Shard shard{base::ShardId(0), net::Pin::kNo};  // not started: this thread is its own
  std::shared_ptr<FakeKind> kind = std::make_shared<FakeKind>();
  std::shared_ptr<Target> target = std::make_shared<Target>();
  msg::ModelSpec spec;
  bus::ModelStats stats;
  Slabs slabs;
  Events events;
  std::deque<msg::Call> calls;
  bool end_next = false;
  std::optional<ShardModel> model;
};

TEST_F(ForwardedSequence, ItsRequestsAreSentOneAfterTheOther) {
  for (int i = 0; i < 4; ++i) put(i % 3 == 0);
  for (size_t over = 0; over < 4; ++over) {
    EXPECT_EQ(int(over + 1), kind->made);
    EXPECT_EQ(over, events.all.size());
    answer(over == 0 ? base::invalid("which the origin says of this one alone") : Status());
  }
  EXPECT_EQ(4u, events.all.size());
  EXPECT_EQ(1u, failed());
  put(true, 8), put(true, 9);
  EXPECT_EQ(6, kind->made) << "another sequence waits for nobody";
  for (msg::Call& call : calls) call.cancelled = true;
  model->look();
}

// The origin may have seen it or not: those behind it would run on a state that lacks it.
TEST_F(ForwardedSequence, OneThatIsLostEndsThoseBehindItUpToTheNextStart) {
  for (int i = 0; i < 4; ++i) put(i == 0 || i == 3);
  answer(base::failure(Code::kUnavailable, "the connection broke"));
  EXPECT_EQ(3u, failed());
  EXPECT_EQ(2, kind->made) << "the new start alone was sent";
  answer();
  EXPECT_EQ(4u, events.all.size());
  EXPECT_EQ(3u, failed());
}

TEST_F(ForwardedSequence, OneThatLeavesWhileItWaitsTakesThoseBehindItAlong) {
  for (int i = 0; i < 3; ++i) put(i == 0);
  calls[1].cancelled = true;
  model->look();
  EXPECT_EQ(1u, failed());
  answer();
  EXPECT_EQ(3u, events.all.size());
  EXPECT_EQ(2u, failed());
  EXPECT_EQ(1, kind->made);
}

TEST_F(ForwardedSequence, ALineOfAnyLengthEndsAtOnceAndForOneReason) {
  constexpr size_t kMost = SequenceLines::kMostInLine;
  for (size_t i = 0; i < kMost; ++i) put(i == 0);
  answer(base::failure(Code::kUnavailable, "the connection broke"));
  ASSERT_EQ(kMost, failed());
  const std::string first = text(0), last = text(kMost - 1);
  EXPECT_EQ(text(1), last);
  EXPECT_EQ("another request of the sequence was not answered, which has ended it: " + first, last);
}

TEST_F(ForwardedSequence, OneThatComesWhileItsLineEndsIsNotSent) {
  for (int i = 0; i < 2; ++i) put(i == 0);
  kind->last->receiver.on_over({base::failure(Code::kUnavailable, "the connection broke"), From::kOrigin, {}});
  put(false);
  turns();
  EXPECT_EQ(3u, failed());
  EXPECT_EQ(1, kind->made);
}

TEST_F(ForwardedSequence, ALineIsBounded) {
  for (size_t i = 0; i < SequenceLines::kMostInLine; ++i) put(i == 0);
  EXPECT_TRUE(events.all.empty());
  put(false);
  ASSERT_EQ(1u, failed());
  EXPECT_EQ(Code::kResourceExhausted, std::get<msg::Failed>(events.all[0].what).status.code);
  put(true, 8);
  EXPECT_EQ(2, kind->made) << "another sequence has room";
  for (msg::Call& call : calls) call.cancelled = true;
  model->look();
  turns();
  EXPECT_EQ(calls.size(), failed());
}

TEST_F(ForwardedSequence, OneThatWasNotSentEndsItForThoseThatComeLaterUpToTheNextStart) {
  for (int i = 0; i < 2; ++i) put(i == 0);
  calls[1].cancelled = true;
  model->look();
  put(false);
  EXPECT_EQ(2u, failed());
  EXPECT_EQ(Code::kCancelled, std::get<msg::Failed>(events.all[1].what).status.code);
  answer();
  put(false);
  EXPECT_EQ(3u, failed()) << "also when the line is empty";
  EXPECT_EQ(1, kind->made);
  put(true), answer();
  put(false), answer();
  EXPECT_EQ(3u, failed());
  EXPECT_EQ(3, kind->made);
}

TEST_F(ForwardedSequence, ANewStartBehindOneThatWasNotSentGoesOn) {
  for (int i = 0; i < 3; ++i) put(i != 1);
  calls[1].cancelled = true;
  model->look();
  put(false);
  for (int i = 0; i < 3; ++i) answer();
  EXPECT_EQ(1u, failed());
  EXPECT_EQ(3, kind->made);
}

TEST_F(ForwardedSequence, OneThatIsLostEndsItForThoseThatComeLaterUpToTheNextStart) {
  put(true), answer();
  put(false), answer(base::failure(Code::kUnavailable, "the connection broke"));
  put(false);
  EXPECT_EQ(2u, failed()) << "nobody knows whether the origin's state has the one before";
  EXPECT_EQ(2, kind->made);
  put(true), answer();
  put(false), answer();
  EXPECT_EQ(2u, failed());
  EXPECT_EQ(4, kind->made);
}

TEST_F(ForwardedSequence, AnEndThatWasNotSentEndsNothingAtTheOrigin) {
  put(true), answer();
  put(false);
  end_next = true, put(false), end_next = false;
  calls[1].cancelled = true;
  model->look();
  turns();
  put(false);
  EXPECT_EQ(3u, failed()) << "it would run on what the origin still has";
  EXPECT_EQ(2, kind->made);
}

TEST_F(ForwardedSequence, OneThatIsLostEndsItOnAllShards) {
  ShardModel other(shard, target, spec, stats, slabs);
  put(true), answer();
  put(false), answer(base::failure(Code::kUnavailable, "the connection broke"));
  put(false, 7, &other);
  EXPECT_EQ(2u, failed());
  put(true, 7, &other), answer();
  put(false), answer();
  EXPECT_EQ(2u, failed());
  EXPECT_EQ(4, kind->made);
}

// It is as when a client gives up, behind a proxy that keeps its connection, and starts anew over another one.
TEST_F(ForwardedSequence, AnOldRunThatFailsLateDoesNotEndTheNewOneOfAnotherShard) {
  ShardModel other(shard, target, spec, stats, slabs);
  put(true), answer();
  put(false);
  FakeAttempt* const old = kind->last;
  put(true, 7, &other), answer();
  old->receiver.on_over({base::failure(Code::kUnavailable, "the connection broke"), From::kOrigin, {}}), turns();
  EXPECT_EQ(1u, failed());
  put(false, 7, &other);
  ASSERT_EQ(1u, failed()) << text(3);
  answer();
}

TEST_F(ForwardedSequence, OneOfAnOldRunThatWaitsIsNotSentIntoTheNewOneOfAnotherShard) {
  ShardModel other(shard, target, spec, stats, slabs);
  for (const Status& end : {Status(), base::failure(Code::kUnavailable, "the connection broke")}) {
    put(true), put(false), put(false);
    FakeAttempt* const old = kind->last;
    put(true, 7, &other), answer();
    put(false), kind->last = old, answer(end), answer();  // the last one is of the new run
  }
  EXPECT_EQ(2u + 3u, failed());
  EXPECT_EQ(2 * 3, kind->made);
}

TEST_F(ForwardedSequence, ARequestThatGoesInCirclesIsSentToNobody) {
  const auto put_one = [&](uint32_t hops) {
    msg::Call& call = calls.emplace_back();
    call.trace = std::make_shared<msg::TraceFields>(msg::TraceFields{{}, {}, hops});
    call.home = &events;
    model->put(&call, ShardModel::Came::kHere);
  };
  put_one(wire::kMostHops);
  ASSERT_EQ(1u, failed());
  EXPECT_EQ(Code::kUnimplemented, std::get<msg::Failed>(events.all[0].what).status.code);
  EXPECT_NE(std::string::npos, text(0).find("lead back to it")) << text(0);
  EXPECT_EQ(0, kind->made);
  target->options.beside_local = true, put_one(wire::kMostHops);
  EXPECT_TRUE(sched::runs_here_then(std::get<msg::Failed>(events.all[1].what).status.code));
  put_one(wire::kMostHops - 1);
  EXPECT_EQ(1, kind->made);
  answer();
}

// Also where another server finds that it goes in circles, or does not do what is asked for.
TEST_F(ForwardedSequence, WhatAnOriginDoesNotDoIsDoneWhereTheModelRuns) {
  target->options.beside_local = true;
  msg::Call& call = calls.emplace_back();
  call.home = &events;
  model->put(&call, ShardModel::Came::kHere);
  answer(base::failure(Code::kUnimplemented, "the origins lead back to it"));
  ASSERT_EQ(1u, failed());
  EXPECT_TRUE(sched::runs_here_then(std::get<msg::Failed>(events.all[0].what).status.code));
  EXPECT_EQ(1, kind->made);
  EXPECT_EQ(0u, stats.fail.count.load()) << "it is not over";
}

// Sequences that came before it would be torn from their states.
TEST_F(ForwardedSequence, StaysWhereItIsWhenAnotherOriginComes) {
  constexpr uint64_t kSequences = 32;
  for (uint64_t id = 1; id <= kSequences; ++id) put(true, id), answer();
  add_origin("http://10.0.0.2:8001");
  ShardModel later(shard, target, spec, stats, slabs);
  for (uint64_t id = 1; id <= kSequences; ++id) put(false, id, &later), answer();
  EXPECT_EQ(0u, failed());
  EXPECT_EQ(2 * kSequences, kind->at["10.0.0.1:8001"]);
  for (uint64_t id = 1; id <= kSequences; ++id) put(true, id, &later), answer();
  EXPECT_GT(kind->at["10.0.0.2:8001"], 0u);
}

TEST_F(ForwardedSequence, BeginsAtAnOriginThatIsHealthy) {
  add_origin("http://10.0.0.2:8001");
  target->origins[0].eject();
  ShardModel both(shard, target, spec, stats, slabs);
  for (uint64_t id = 1; id <= 32; ++id) put(true, id, &both), answer();
  target->origins[0].admit({});
  for (uint64_t id = 1; id <= 32; ++id) put(false, id, &both), answer();
  EXPECT_EQ(64u, kind->at["10.0.0.2:8001"]);
}

TEST_F(ForwardedSequence, EndsWithTheOriginThatHasIt) {
  add_origin("http://10.0.0.2:8001");
  target->origins[1].present = false;
  ShardModel both(shard, target, spec, stats, slabs);
  put(true, 7, &both), answer();
  target->origins[0].present = false, target->origins[1].present = true;
  put(false, 7, &both);
  ASSERT_EQ(1u, failed());
  EXPECT_EQ("the origin that had the sequence is gone; start it anew", text(1));
  put(true, 7, &both), answer();
  EXPECT_EQ(1u, kind->at["10.0.0.2:8001"]);
}

TEST_F(ForwardedSequence, OneThatFoundNoConnectionWasNotSent) {
  put(true), answer();
  put(false);
  kind->last->receiver.on_over({base::failure(Code::kUnavailable, "refused"), From::kUnsent, {}});
  put(false);
  EXPECT_EQ(2u, failed());
  EXPECT_EQ(2, kind->made);
}

TEST_F(ForwardedSequence, ItsEndIsForgottenAfterATime) {
  for (int i = 0; i < 2; ++i) put(i == 0);
  calls[1].cancelled = true;
  model->look();
  answer();
  later(base::Duration(SequenceTable::kBrokenFor) / 2);
  put(false);
  EXPECT_EQ(2u, failed());
  later(base::Duration(SequenceTable::kBrokenFor) / 2);
  put(false), answer();
  EXPECT_EQ(2u, failed()) << "refusals do not make it longer";
  EXPECT_EQ(2, kind->made);
}

// The one behind was never sent, so there is no attempt of it that could be late.
TEST_F(ForwardedSequence, OneThatIsLateEndsThoseBehindIt) {
  target->options.answer_timeout = std::chrono::milliseconds(1);
  for (int i = 0; i < 3; ++i) put(i == 0);
  turns();
  EXPECT_EQ(3u, events.all.size());
  EXPECT_EQ(3u, failed());
  EXPECT_EQ(1, kind->made);
}

}  // namespace
}  // namespace weir::forward
