#include "jobs/replica.h"

#include <gtest/gtest.h>

#include <random>

#include "copies.h"

namespace weir::jobs {
namespace {

using base::Code;
using base::Status;

TEST_F(Two, WhatOneHasWrittenTheOtherHas) {
  ASSERT_TRUE(a->perform(add("x", 3)).ok());
  b->catch_up();
  EXPECT_EQ(3u, b->counts("x").waiting);
  same();
}

TEST_F(Two, OfTwoThatClaimEachJobHasOne) {
  ASSERT_TRUE(a->perform(add("x", 3)).ok());
  b->catch_up();
  EXPECT_EQ((std::vector<uint64_t>{0, 1}), a->claim(2));
  EXPECT_EQ((std::vector<uint64_t>{2}), b->claim(2));
  EXPECT_TRUE(a->claim(2).empty());
  const size_t entries = log.entries.size();
  EXPECT_TRUE(b->claim(2).empty());
  EXPECT_EQ(entries, log.entries.size());  // nothing waits, so that nothing is written
  same();
}

TEST_F(Two, TheFirstResultIsKept) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  ASSERT_EQ(1u, a->claim(1).size());
  // b does not know yet that a has finished it.
  b->catch_up();
  ASSERT_TRUE(a->perform([](Recorder& r) { (void)r.journal.finish({"x", 0}, {200, "", "first"}); }).ok());
  EXPECT_TRUE(b->perform([](Recorder& r) { (void)r.journal.finish({"x", 0}, {500, "", "second"}); }).ok());
  EXPECT_EQ("first", b->storage().journal.list("x", 0, 100).value()[0].outcome->body);
  same();
}

TEST_F(Two, AChangeOfWhatHasChangedMeanwhileIsVoidAsAWhole) {
  ASSERT_TRUE(a->perform(add("x", 2)).ok());
  b->catch_up();
  Batch changed = batch("x");
  changed.state = "a was here";
  ASSERT_TRUE(a->perform([&](Recorder& r) { (void)r.batches.change(changed); }).ok());
  auto cancel = [](Recorder& r) {
    Batch other = batch("x");
    other.state = "cancelled";
    (void)r.journal.withdraw("x");
    (void)r.batches.change(other);
  };
  EXPECT_EQ(Code::kAborted, b->perform(cancel).code);
  EXPECT_EQ(2u, b->counts("x").waiting);
  EXPECT_EQ("a was here", b->storage().batches.find("o", "x").value()->state);
  EXPECT_TRUE(b->perform(cancel).ok());
  EXPECT_EQ(0u, b->counts("x").waiting);
  EXPECT_EQ(1u, b->replica->voided());
  same();
}

TEST_F(Two, OnlyTheHolderOfTheDutiesDoesThem) {
  const std::set<std::string> to_a{"b"}, to_b{"a"}, nobody;
  const base::Time now{seconds(100)};
  EXPECT_TRUE(a->replica->look_after_nodes(&to_a, now).value());
  EXPECT_TRUE(a->replica->has_duties());
  b->catch_up();
  EXPECT_FALSE(b->replica->look_after_nodes(&to_b, now).value());
  EXPECT_EQ(Code::kAborted, b->perform(add("x", 1), Record::As::kDuty).code);
  EXPECT_TRUE(a->perform(add("x", 1), Record::As::kDuty).ok());
  // a is gone: b has them after a while, and what a writes then is void.
  EXPECT_FALSE(b->replica->look_after_nodes(&nobody, now).value());
  EXPECT_FALSE(b->replica->look_after_nodes(&nobody, now + seconds(1)).value());
  EXPECT_TRUE(b->replica->look_after_nodes(&nobody, now + seconds(3)).value());
  EXPECT_TRUE(b->replica->has_duties());
  EXPECT_EQ(Code::kAborted, a->perform(add("y", 1), Record::As::kDuty).code);
  EXPECT_FALSE(a->replica->has_duties());
  same();
}

TEST_F(Two, WhatANodeHadThatIsGoneIsFree) {
  ASSERT_TRUE(a->perform(add("x", 2)).ok());
  ASSERT_EQ(2u, a->claim(2).size());
  ASSERT_TRUE(a->perform([](Recorder& r) { (void)r.files.append("half", 0, "bytes"); }).ok());
  b->catch_up();
  const std::set<std::string> nobody;
  for (int second : {0, 3}) (void)b->replica->look_after_nodes(&nobody, base::Time(seconds(100 + second)));
  EXPECT_EQ(2u, b->counts("x").waiting);
  EXPECT_EQ("", b->storage().files.read("half", 0).value());
  EXPECT_EQ((std::vector<uint64_t>{0, 1}), b->claim(2));
  // a was only silent: its release touches nothing that is another's, and its result may still come first.
  ASSERT_TRUE(a->perform([](Recorder& r) { (void)r.journal.release({"x", 0}, kNow); }).ok());
  EXPECT_EQ(2u, a->counts("x").running);
  ASSERT_TRUE(a->perform([](Recorder& r) { (void)r.journal.finish({"x", 1}, {200, "", "late"}); }).ok());
  same();
}

TEST_F(Two, AFileIsNotAddedWithoutItsContent) {
  ASSERT_TRUE(a->perform([](Recorder& r) { (void)r.files.append("f", 0, "bytes", "o"); }).ok());
  b->catch_up();
  const std::set<std::string> nobody;
  for (int second : {0, 3}) (void)b->replica->look_after_nodes(&nobody, base::Time(seconds(100 + second)));
  // a has not seen yet that it was taken for gone.
  Status added;
  const auto add = [&](Recorder& r) { added = r.files.add({"f", "o", "name", "batch", 5, kNow, kNow}); };
  EXPECT_EQ(Code::kAborted, a->perform(add).code);
  EXPECT_TRUE(added.ok());
  EXPECT_TRUE(a->perform(add).ok());
  EXPECT_EQ(Code::kAborted, added.code);
  EXPECT_FALSE(a->storage().files.find("o", "f").value());
  // Nor with a part of it.
  ASSERT_TRUE(a->perform([](Recorder& r) { (void)r.files.append("f", 1, "byte", "o"); }).ok());
  EXPECT_TRUE(a->perform(add).ok());
  EXPECT_EQ(Code::kAborted, added.code);
  same();
}

TEST_F(Two, NobodyIsGoneWhileNobodyKnowsWhoIsThere) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  ASSERT_EQ(1u, a->claim(1).size());
  b->catch_up();
  const std::set<std::string> nobody;
  const auto look = [&](const std::set<std::string>* there, int second) {
    return b->replica->look_after_nodes(there, base::Time(seconds(100 + second))).value();
  };
  EXPECT_TRUE(look(&nobody, 0));  // the duties, which nobody has
  EXPECT_FALSE(look(nullptr, 1));
  EXPECT_FALSE(look(&nobody, 3));  // it is missed from now on
  EXPECT_EQ(1u, b->counts("x").running);
  EXPECT_FALSE(look(nullptr, 9));
  EXPECT_FALSE(look(&nobody, 10));
  EXPECT_TRUE(look(&nobody, 13));
  EXPECT_EQ(1u, b->counts("x").waiting);
}

TEST_F(Two, ANewProcessOfTheSameNameFreesWhatTheLastOneHad) {
  ASSERT_TRUE(a->perform(add("x", 2)).ok());
  ASSERT_EQ(2u, a->claim(2).size());
  a->begin();
  a->catch_up();
  EXPECT_EQ(2u, a->counts("x").running);
  const std::set<std::string> others{"b"};
  EXPECT_TRUE(a->replica->look_after_nodes(&others, base::Time(seconds(1))).value());
  EXPECT_EQ(2u, a->claim(9).size());
  same();
}

TEST_F(Two, AnAcknowledgementThatIsLostIsNoSecondTime) {
  log.lose_acks = 1;
  EXPECT_TRUE(a->perform(add("x", 1)).ok());
  EXPECT_EQ(1u, log.entries.size());
  // Twice: nobody knows, and it comes all the same.
  log.lose_acks = 2;
  EXPECT_EQ(Code::kUnavailable, a->perform(add("y", 1)).code);
  a->catch_up();
  EXPECT_EQ(1u, a->counts("y").waiting);
  same();
}

TEST_F(Two, WhatNobodyCanReadIsNotAppliedByItsWriterEither) {
  log.garble = true;
  EXPECT_EQ(Code::kUnavailable, a->perform(add("x", 1)).code);
  EXPECT_FALSE(a->storage().batches.find("o", "x").value());
  EXPECT_TRUE(a->perform(add("x", 1)).ok());
  same();
}

TEST_F(Two, JobsThatWereClaimedWithoutAnAcknowledgementAreRun) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  log.lose_acks = 2;
  EXPECT_TRUE(a->claim(1).empty());
  a->catch_up();
  EXPECT_EQ(1u, a->replica->claimed().size());
}

TEST_F(Two, AJobThatOthersHaveGivenBackMeanwhileIsNotRun) {
  ASSERT_TRUE(a->perform(add("x", 2)).ok());
  ASSERT_TRUE(a->perform([](Recorder& r) { (void)r.journal.claim(2, kNow); }).ok());
  ASSERT_EQ(2u, a->replica->claimed().size());
  EXPECT_EQ(0u, a->replica->next_claimed()->id.index);
  b->catch_up();
  const std::set<std::string> nobody;
  for (int second : {0, 3}) (void)b->replica->look_after_nodes(&nobody, base::Time(seconds(100 + second)));
  a->catch_up();
  EXPECT_FALSE(a->replica->next_claimed());
  EXPECT_EQ(2u, b->claim(2).size());
}

TEST_F(Two, WithoutTheLogReadsGoOn) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  log.away = true;
  EXPECT_EQ(Code::kUnavailable, a->perform(add("y", 1)).code);
  EXPECT_TRUE(a->perform([](Recorder& r) { EXPECT_TRUE(r.batches.find("o", "x").value().has_value()); }).ok());
  log.away = false;
  EXPECT_TRUE(a->perform(add("y", 1)).ok());
  same();
}

TEST_F(Two, ManyWorksAreOneEntry) {
  std::vector<Replica::Run> works;
  for (int i = 0; i < 10; ++i) works.push_back(add("x" + std::to_string(i), 1));
  works.push_back([](Recorder&) { throw std::runtime_error("that one"); });
  const auto statuses = a->replica->perform(works);
  ASSERT_EQ(11u, statuses.size());
  EXPECT_EQ(10, std::count_if(statuses.begin(), statuses.end(), [](const auto& s) { return s.ok(); }));
  EXPECT_EQ(1u, log.entries.size());
  same();
}

TEST_F(Two, MalformedAndRepeatedEntriesAreSkippedByAll) {
  ASSERT_TRUE(a->perform(add("x", 2)).ok());
  ASSERT_TRUE(a->perform([](Recorder& r) { (void)r.journal.remove("x"); }).ok());
  const std::string first = log.entries[1];
  std::mt19937 random(1);
  log.write(""), log.write("weirjob1"), log.write(first);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = first;
    for (int n = 0; n <= i % 4; ++n) bytes[random() % bytes.size()] = char(random());
    if (i % 3 == 0) bytes.resize(random() % bytes.size());
    log.write(bytes);
  }
  a->catch_up(), b->catch_up();
  EXPECT_GE(a->replica->skipped(), 1000u);
  EXPECT_EQ(0u, a->counts("x").total);  // the first entry came again, and did nothing
  same();
  EXPECT_TRUE(b->perform(add("y", 1)).ok());
}

TEST_F(Two, AnEntryThatComesMuchTooLateDoesNothing) {
  EntryContent entry{"evil/1", "an id", 0, {}};
  Commands commands;
  commands.add(batch("x"));
  entry.records.push_back({Record::As::kNode, commands.bytes()});
  log.last = Replica::kWindow + 1;
  log.write(write_entry(entry));
  a->catch_up();
  EXPECT_EQ(1u, a->replica->skipped());
  EXPECT_FALSE(a->storage().batches.find("o", "x").value());
}

// Both write whatever comes, see it late or soon, and one is a new process now and then.
TEST_F(Two, WhateverHappensBothAreEqual) {
  std::mt19937 random(7);
  const auto one_of = [&](int n) { return std::to_string(random() % n); };
  const std::set<std::string> nobody;
  for (int i = 0; i < 3000; ++i) {
    Copy& copy = random() % 2 ? *a : *b;
    const std::string id = "batch " + one_of(12);
    const uint64_t job = random() % 4;
    const int what = int(random() % 14);
    if (what == 0) copy.catch_up();
    if (what == 1 && random() % 20 == 0) copy.begin();
    if (what == 2) (void)copy.replica->look_after_nodes(&nobody, base::Time(seconds(i)));
    if (what == 3) (void)copy.claim(random() % 5);
    if (what == 4) log.lose_acks = int(random() % 3);
    const auto as = random() % 4 ? Record::As::kNode : Record::As::kDuty;
    const std::string file = "file " + one_of(5);
    (void)copy.perform(
        [&](Recorder& r) {
          Batch changed = batch(id);
          changed.state = one_of(3);
          changed.jobs = Batch::Jobs(random() % 2);
          if (what == 5 && r.batches.add(batch(id)).ok()) {
            std::vector<Job> jobs(4);
            for (uint64_t n = 0; n < 4; ++n) jobs[n].id = {id, n}, jobs[n].body = one_of(1000);
            (void)r.journal.put(jobs);
          }
          if (what == 6) (void)r.batches.change(changed);
          if (what == 7) (void)r.batches.remove(id);
          if (what == 8) (void)r.journal.finish({id, job}, {200, "", one_of(100)});
          if (what == 9) (void)r.journal.release({id, job}, kNow);
          if (what == 10) (void)r.journal.withdraw(id);
          if (what == 11) (void)r.files.append(file, random() % 3, one_of(1000), one_of(3));
          if (what == 12) (void)r.files.add({file, "o", "name", "batch", 3, kNow, kNow});
          if (what == 13) (void)r.files.remove(file);
        },
        as);
  }
  log.lose_acks = 0;
  same();
  EXPECT_GT(log.last, 1000u);
}

TEST_F(Two, ALogThatIsLongIsShortenedAndWhoeverIsBehindTakesTheSnapshot) {
  const std::set<std::string> nobody;
  ASSERT_TRUE(a->perform(add("x", 3)).ok());
  b->catch_up();
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(
        a->perform([i](Recorder& r) { (void)r.files.append("f", uint64_t(i), std::string(300000, 'x')); }).ok());
  ASSERT_EQ(1u, a->claim(1).size());
  EXPECT_FALSE(a->replica->shorten_log().value());
  EXPECT_FALSE(log.newest);
  log.bytes.used = Snapshots::kShort * 4, log.last += Snapshots::kApart;
  ASSERT_TRUE(a->perform(add("w", 1)).ok());
  while (a->replica->shorten_log().value()) continue;
  ASSERT_TRUE(log.newest);
  EXPECT_TRUE(log.entries.empty());
  EXPECT_GT(log.newest->parts.size(), 2u);
  ASSERT_TRUE(a->perform(add("y", 1)).ok());
  Copy late(log, "late");
  b->catch_up(), late.catch_up();
  EXPECT_EQ(1u, late.counts("x").running);
  EXPECT_EQ(1u, late.counts("y").waiting);
  EXPECT_EQ(a->dump(), late.dump());
  same();
  ASSERT_TRUE(late.perform(add("z", 1)).ok());
  same();
}

TEST_F(Two, EntriesThatAreGoneAndInNoSnapshotStopTheCopy) {
  ASSERT_TRUE(a->perform(add("x", 1)).ok());
  b->catch_up();
  ASSERT_TRUE(a->perform(add("y", 1)).ok());
  ASSERT_TRUE(a->perform(add("z", 1)).ok());
  log.entries.erase(log.entries.begin(), log.entries.find(log.last)), log.dropped = log.last - 1;
  Copy late(log, "late");
  for (Copy* copy : {&*b, &late}) {
    const uint64_t was = copy->replica->sequence();
    EXPECT_EQ(Code::kFailedPrecondition, copy->replica->catch_up().error().code);
    EXPECT_EQ(Code::kFailedPrecondition, copy->perform(add("w", 1)).code);
    EXPECT_EQ(was, copy->replica->sequence());
  }
  EXPECT_EQ(1u, log.entries.size());
  log.bytes.used = Snapshots::kShort * 4, log.last += Snapshots::kApart;
  ASSERT_TRUE(a->perform(add("v", 1)).ok());
  while (a->replica->shorten_log().value()) continue;
  b->catch_up(), late.catch_up();
  EXPECT_EQ(1u, late.counts("y").waiting);
  EXPECT_TRUE(b->perform(add("w", 1)).ok());
  same();
}

TEST_F(Two, ASnapshotThatIsFinishedLateReplacesNoNewerOne) {
  log.most.part = 4096;
  ASSERT_TRUE(a->perform(add("x", 3)).ok());
  log.bytes.used = Snapshots::kShort * 4, log.last += Snapshots::kApart;
  ASSERT_TRUE(a->perform(add("y", 1)).ok());
  EXPECT_TRUE(a->replica->shorten_log().value());  // a slice
  ASSERT_TRUE(b->perform(add("z", 1)).ok());
  while (b->replica->shorten_log().value()) continue;
  const uint64_t newest = log.newest->sequence;
  while (a->replica->shorten_log().value()) continue;
  EXPECT_EQ(newest, log.newest->sequence);
  ASSERT_TRUE(a->replica->take_snapshot().ok());
  same();
}

TEST_F(Two, ASnapshotThatIsNoneIsNotTaken) {
  ASSERT_TRUE(a->perform(add("x", 3)).ok());
  const uint64_t part = log.append_part("no database at all")->sequence;
  log.newest = Log::Snapshot{part + 100, 18, {{part, {}}}};
  EXPECT_EQ(Code::kDataLoss, b->replica->take_snapshot().code);
  log.newest = Log::Snapshot{part + 100, 17, {{part, {}}}};
  EXPECT_FALSE(b->replica->take_snapshot().ok());
  log.newest = Log::Snapshot{part + 100, 18, {{part + 1, {}}}};
  EXPECT_EQ(Code::kUnavailable, b->replica->take_snapshot().code);
  EXPECT_EQ(0u, b->replica->sequence());
  // A sound one, of another place in the log.
  log.newest.reset();
  log.bytes.used = Snapshots::kShort * 4, log.last += Snapshots::kApart;
  ASSERT_TRUE(a->perform(add("w", 1)).ok());
  while (a->replica->shorten_log().value()) continue;
  log.newest->sequence += 1;
  EXPECT_EQ(Code::kDataLoss, b->replica->take_snapshot().code);
  log.newest->sequence -= 1;
  EXPECT_TRUE(b->replica->take_snapshot().ok());
  same();
}

TEST(LogEntry, IsReadAsItWasWritten) {
  EntryContent entry{"a/1", "id", 7, {{Record::As::kDuty, "xyz"}, {Record::As::kNode, ""}}};
  auto read = read_entry(write_entry(entry));
  ASSERT_TRUE(read);
  EXPECT_EQ("a/1", read->origin);
  EXPECT_EQ(7u, read->after);
  ASSERT_EQ(2u, read->records.size());
  EXPECT_EQ("xyz", read->records[0].commands);
  const std::string bytes = write_entry(entry);
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(read_entry(std::string_view(bytes).substr(0, size)));
  EXPECT_FALSE(read_entry(bytes + "x"));
}

}  // namespace
}  // namespace weir::jobs
