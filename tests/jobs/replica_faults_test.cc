// A disk that is full, memory that is short, a log that cannot be read or is away.
#include <gtest/gtest.h>

#include "copies.h"

namespace weir::jobs {
namespace {

using base::Code;
using base::Status;

// SQLite then undoes the whole transaction, and whatever comes next would be one of its own.
TEST_F(Two, WorkThatFillsTheDiskLeavesNothingOnItsOwnCopy) {
  ASSERT_TRUE(a->perform(add("x", 2)).ok());
  Copy small(log, "small", kPlenty, 400 << 10);
  small.catch_up();
  const Replica::Run works[] = {
      [](Recorder& r) { EXPECT_TRUE(r.files.append("before", 0, "bytes").ok()); },
      [](Recorder& r) {
        Status full;
        Status together = r.atomically([&] { return full = r.files.append("f", 0, std::string(1 << 20, 'x')); });
        EXPECT_EQ(Code::kResourceExhausted, full.code);
        EXPECT_EQ(Code::kResourceExhausted, together.code);
        // As a duty or a result does it that has found no room.
        (void)r.atomically([&] { return r.batches.remove("x"); });
        (void)r.journal.finish({"x", 0}, {507, "", ""});
        (void)r.batches.add(batch("y"));
      },
      [](Recorder& r) {
        EXPECT_EQ(2u, r.journal.count("x").value().waiting);
        EXPECT_TRUE(r.files.append("behind", 0, "bytes").ok());
      },
  };
  const auto statuses = small.replica->perform(works);
  ASSERT_EQ(3u, statuses.size());
  EXPECT_TRUE(statuses[0].ok() && statuses[2].ok());
  EXPECT_EQ(Code::kResourceExhausted, statuses[1].code);
  EXPECT_EQ(2u, small.counts("x").waiting);
  EXPECT_EQ((std::vector<uint64_t>{0}), small.claim(1));
  a->catch_up();
  EXPECT_EQ(a->dump(), small.dump());
  EXPECT_EQ("bytes", a->storage().files.read("before", 0).value());
  EXPECT_EQ("bytes", a->storage().files.read("behind", 0).value());
}

TEST_F(Two, WorkThatWouldFillTheFileIsToldAndGoesOn) {
  ASSERT_TRUE(a->perform(add("x", 2)).ok());
  Copy small(log, "small", 400 << 10);
  small.catch_up();
  const auto end = [](Recorder& r) {
    const Outcome large{200, "", std::string(1 << 20, 'x')};
    EXPECT_EQ(Code::kResourceExhausted, r.atomically([&] {
                                           auto first = r.journal.finish({"x", 0}, large);
                                           return first ? Status() : first.error();
                                         }).code);
    EXPECT_TRUE(r.journal.finish({"x", 0}, {507, "", ""}).value());
  };
  EXPECT_TRUE(small.perform(end).ok());
  EXPECT_EQ(507, small.storage().journal.list("x", 0, 100).value()[0].outcome->status);
  a->catch_up();
  EXPECT_EQ(a->dump(), small.dump());
}

TEST_F(Two, WhatOthersHaveWrittenFindsRoom) {
  Copy small(log, "small", 400 << 10);
  const auto append = [](Recorder& r) { EXPECT_TRUE(r.files.append("f", 0, std::string(1 << 20, 'x')).ok()); };
  ASSERT_TRUE(a->perform(append).ok());
  small.catch_up();
  EXPECT_EQ(a->dump(), small.dump());
  const auto more = [](Recorder& r) { EXPECT_EQ(Code::kResourceExhausted, r.batches.add(batch("y")).code); };
  EXPECT_TRUE(small.perform(more).ok());
}

TEST_F(Two, AResultThatNoEntryHoldsIsToldAndHasItsPlace) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  const auto end = [](Recorder& r) {
    EXPECT_EQ(Code::kResourceExhausted,
              r.journal.finish({"x", 0}, {200, "", std::string(Log::kLargest, 'x')}).error().code);
    EXPECT_TRUE(r.journal.finish({"x", 0}, {507, "", ""}).value());
  };
  EXPECT_TRUE(a->perform(end).ok());
  same();
}

// As behind a server that takes short messages only.
TEST_F(Two, AResultThatIsTooLongForTheBrokerIsToldAndHasItsPlace) {
  ASSERT_TRUE(a->perform(add("x", 3)).ok());
  log.most.entry = 100 << 10;
  int told = 0;
  const auto end = [&](uint64_t job, size_t bytes) {
    return [&told, job, bytes](Recorder& r) {
      const Outcome large{200, "", std::string(bytes, 'x')};
      if (r.journal.finish({"x", job}, large)) return;
      ++told;
      EXPECT_TRUE(r.journal.finish({"x", job}, {507, "", ""}).value());
    };
  };
  // Beside others in a group, too: each of them has an entry that holds it.
  std::vector<Replica::Run> works{end(0, 70 << 10), end(1, 70 << 10), end(2, 100 << 10)};
  while (!works.empty()) {
    const auto statuses = a->replica->perform(works);
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.text;
    works.erase(works.begin(), works.begin() + ptrdiff_t(statuses.size()));
  }
  EXPECT_EQ(1, told);
  b->catch_up();
  const auto list = b->storage().journal.list("x", 0, 1 << 20).value();
  ASSERT_EQ(3u, list.size());
  EXPECT_EQ(200, list[1].outcome->status);
  EXPECT_EQ(507, list[2].outcome->status);
  same();
}

TEST_F(Two, BodiesOfJobsAreReadByWhoeverIsGrantedThem) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  const Replica::Run claim = [](Recorder& r) {
    auto jobs = r.journal.claim(1, kNow).value();
    ASSERT_EQ(1u, jobs.size());
    EXPECT_EQ("", jobs[0].body);
  };
  ASSERT_TRUE(a->perform(claim).ok());
  EXPECT_EQ(std::string("{\0}", 3), a->replica->claimed().front().body);
  // For another node's claim no body is read.
  b->catch_up();
  EXPECT_EQ(1u, b->counts("x").running);
  ReplicaState& state = b->database->replica();
  ASSERT_TRUE(b->perform([](Recorder& r) { (void)r.journal.release({"x", 0}, kNow); }).ok());
  const std::set<std::string> nobody;
  for (int second : {0, 3}) (void)b->replica->look_after_nodes(&nobody, base::Time(seconds(100 + second)));
  Commands commands;
  commands.claim(1, kNow);
  for (const auto bodies : {ReplicaState::Bodies::kLeave, ReplicaState::Bodies::kRead}) {
    Effects effects;
    ASSERT_TRUE(state.begin().ok());
    ASSERT_TRUE(run_commands(commands.bytes(), "a/1", bodies, state, effects).ok());
    state.rollback();
    ASSERT_EQ(1u, effects.claimed.size());
    EXPECT_EQ(bodies == ReplicaState::Bodies::kRead ? 3u : 0u, effects.claimed[0].body.size());
    EXPECT_EQ("label 0", effects.claimed[0].label);
  }
}

TEST_F(Two, ACopyThatIsMadeOrTakenEndsWithItsNode) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  for (uint64_t i = 0; i < 64; ++i)
    ASSERT_TRUE(a->perform([i](Recorder& r) { (void)r.files.append("f", i, std::string(200 << 10, 'x')); }).ok());
  log.bytes.used = Snapshots::kShort * 4, log.last += Snapshots::kApart;
  ASSERT_TRUE(a->perform(add("y", 1)).ok());
  Copy ending(log, "ending");
  ending.catch_up();
  ending.replica->stop();
  EXPECT_EQ(Code::kUnavailable, ending.replica->shorten_log().error().code);
  while (a->replica->shorten_log().value()) continue;
  Copy late(log, "late");
  late.replica->stop();
  EXPECT_EQ(Code::kUnavailable, late.replica->take_snapshot().code);
  EXPECT_EQ(0u, late.replica->sequence());
  late.begin();
  EXPECT_TRUE(late.replica->take_snapshot().ok());
  EXPECT_EQ(a->dump(), late.dump());
}

TEST_F(Two, AnEntryThatNobodyCanReadIsNoneForItsOwnNodeToo) {
  log.readable = 100 << 10;
  const auto append = [](Recorder& r) { EXPECT_TRUE(r.files.append("f", 0, std::string(200 << 10, 'x')).ok()); };
  EXPECT_EQ(Code::kUnavailable, a->perform(append).code);
  EXPECT_EQ(1u, log.entries.size());
  EXPECT_EQ("", a->storage().files.read("f", 0).value());
  same();
}

TEST_F(Two, WhereMemoryIsShortASliceIsAppliedLater) {
  for (const char* id : {"x", "y", "z"}) ASSERT_TRUE(a->perform(add(id, 1)).ok());
  log.throws = 3;  // two are applied in the slice by then
  EXPECT_EQ(Code::kResourceExhausted, b->replica->catch_up().error().code);
  EXPECT_EQ(0u, b->replica->sequence());
  EXPECT_EQ(0u, b->counts("x").total);
  same();
  // Also in the middle of work, which is in the log by then.
  a->catch_up(), b->catch_up();
  ASSERT_TRUE(a->perform(add("w", 1)).ok());
  log.throws = 1;
  EXPECT_FALSE(b->perform(add("v", 1)).ok());
  EXPECT_TRUE(b->perform(add("u", 1)).ok());
  EXPECT_EQ(1u, b->counts("v").waiting);
  same();
}

TEST_F(Two, AnUploadThatWasRefusedLeavesNothingInTheLog) {
  ASSERT_TRUE(a->perform([](Recorder& r) { EXPECT_TRUE(r.files.remove("never there").ok()); }).ok());
  EXPECT_TRUE(log.entries.empty());
  ASSERT_TRUE(a->perform([](Recorder& r) { (void)r.files.append("f", 3, "bytes"); }).ok());
  ASSERT_TRUE(a->perform([](Recorder& r) { (void)r.files.remove("f"); }).ok());
  EXPECT_EQ("", a->storage().files.read("f", 3).value());
  same();
}

TEST_F(Two, AJobThatRunsAlreadyIsItsNodesUntilThatIsGone) {
  const std::set<std::string> nobody;
  const base::Time now{seconds(100)};
  const Job job{{"x", 0}, "", "", "/v1/x", "", "{}"};
  const auto held = [&](Copy& copy) {
    bool out = false;
    EXPECT_TRUE(copy.perform([&](Recorder& r) { out = r.journal.holds(job.id).value(); }).ok());
    return out;
  };
  ASSERT_TRUE(a->perform(add("x", 0)).ok());
  ASSERT_TRUE(a->perform([&](Recorder& r) { EXPECT_TRUE(r.journal.put_claimed({&job, 1}).ok()); }).ok());
  EXPECT_FALSE(a->replica->next_claimed());
  EXPECT_TRUE(held(*a));
  b->catch_up();
  EXPECT_FALSE(held(*b));
  EXPECT_EQ(1u, b->counts("x").running);
  EXPECT_TRUE(b->claim(2).empty());
  same();
  (void)b->replica->look_after_nodes(&nobody, now);
  EXPECT_TRUE(b->replica->look_after_nodes(&nobody, now + seconds(3)).value());
  ASSERT_TRUE(b->perform([](Recorder& r) { (void)r.journal.claim(2, kNow); }).ok());
  const std::optional<Job> again = b->replica->next_claimed();
  ASSERT_TRUE(again);
  EXPECT_EQ(2u, again->attempts + 1) << "the node that is gone had one";
  EXPECT_EQ("{}", again->body);
  a->catch_up();
  EXPECT_FALSE(held(*a));
  EXPECT_TRUE(held(*b));
  same();
}

}  // namespace
}  // namespace weir::jobs
