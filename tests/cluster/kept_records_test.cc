#include "cluster/kept_records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/fake_env.h"
#include "cluster/parted_bucket.h"
#include "fake_bucket.h"

namespace weir::cluster {
namespace {

using base::Code;
using std::chrono::seconds;
using State = KeptRecords::Found::State;

struct KeptRecordsTest : testing::Test {
  struct One {
    explicit One(KeptRecordsTest& test, const std::string& name, std::string secret = "",
                 KeptRecords::Limits limits = {}, base::MemoryLedger* memory = nullptr)
        : way(test.bucket),
          parted(test.env, way, KeptRecords::kLargestValue),
          records(
              test.env, parted, name, std::move(secret), [this] { return !way.cut; }, limits, memory) {}
    Way way;
    PartedBucket parted;
    KeptRecords records;
  };
  base::Status keep(One& one, const std::string& id, std::string record, const std::string& owner = "key ann") {
    base::Status out = base::failure(Code::kUnknown, "no answer");
    one.records.keep(owner, id, std::move(record), [&](base::Status s) { out = s; });
    bucket.answer();
    return out;
  }
  base::Result<KeptRecords::Found> read(One& one, const std::string& id, const std::string& owner = "key ann") {
    base::Result<KeptRecords::Found> out = base::failure(Code::kUnknown, "no answer");
    one.records.read(owner, id, [&](base::Result<KeptRecords::Found> found) { out = std::move(found); });
    bucket.answer();
    return out;
  }
  base::Status erase(One& one, const std::string& id, const std::string& owner = "key ann") {
    base::Status out = base::failure(Code::kUnknown, "no answer");
    one.records.erase(owner, id, [&](base::Status s) { out = s; });
    bucket.answer();
    return out;
  }
  void pass(base::Duration time) {
    for (base::Duration at{0}; at < time; at += std::chrono::milliseconds(100)) {
      env.advance(std::chrono::milliseconds(100));
      bucket.answer();
    }
  }

  base::FakeEnv env;
  FakeBucket bucket;
};

TEST_F(KeptRecordsTest, ARecordIsReadByEveryNodeAlsoWhenItsWriterHasGone) {
  auto a = std::make_unique<One>(*this, "a");
  One b(*this, "b");
  EXPECT_EQ(State::kUnknown, read(b, "resp_1")->state);
  EXPECT_TRUE(keep(*a, "resp_1", "some\nbytes").ok());
  a.reset();
  auto found = read(b, "resp_1");
  ASSERT_TRUE(found);
  EXPECT_EQ(State::kThere, found->state);
  EXPECT_EQ("some\nbytes", found->record.view());
}

TEST_F(KeptRecordsTest, AnotherOwnersRecordIsOneThatIsNotThere) {
  One a(*this, "a"), b(*this, "b");
  EXPECT_TRUE(keep(a, "resp_1", "x").ok());
  EXPECT_EQ(State::kUnknown, read(b, "resp_1", "key bob")->state);
  EXPECT_EQ(State::kUnknown, read(b, "resp_2")->state);
  EXPECT_EQ(State::kThere, read(b, "resp_1")->state);
}

TEST_F(KeptRecordsTest, WhatIsErasedIsErasedEverywhere) {
  One a(*this, "a"), b(*this, "b");
  EXPECT_TRUE(keep(a, "resp_1", "x").ok());
  EXPECT_TRUE(erase(b, "resp_1").ok());
  EXPECT_EQ(State::kErased, read(a, "resp_1")->state);
  EXPECT_TRUE(erase(a, "resp_1").ok());
  EXPECT_TRUE(keep(a, "resp_1", "again").ok()) << "a write that comes late does not bring it back";
  EXPECT_EQ(State::kErased, read(b, "resp_1")->state);
}

TEST_F(KeptRecordsTest, AWriteThatIsTriedAgainDoesNotUndoADeletion) {
  One a(*this, "a");
  a.records.keep("key ann", "resp_1", "x", [](const base::Status&) {});
  bucket.refuse_next();
  EXPECT_TRUE(erase(a, "resp_1").ok());
  pass(seconds(5));
  EXPECT_NE(State::kThere, read(a, "resp_1")->state);
}

TEST_F(KeptRecordsTest, NobodyWaitsLongForADeletion) {
  One a(*this, "a");
  EXPECT_TRUE(keep(a, "resp_1", "x").ok());
  int told = 0;
  Code code = Code::kUnknown;
  a.records.erase("key ann", "resp_1", [&](base::Status s) { ++told, code = s.code; });
  env.advance(KeptRecords::Limits().patience);
  EXPECT_EQ(Code::kUnavailable, code);
  bucket.answer();
  EXPECT_EQ(1, told);
  EXPECT_EQ(State::kErased, read(a, "resp_1")->state) << "it goes on";
}

// As of a bucket that has lost a file.
TEST_F(KeptRecordsTest, ARecordThatIsNotWholeCanBeDeleted) {
  One a(*this, "a");
  EXPECT_TRUE(keep(a, "resp_1", std::string(3 * PartedBucket::kPart, 'x')).ok());
  std::erase_if(bucket.entries, [](const auto& one) { return one.first.ends_with(".1"); });
  EXPECT_EQ(Code::kDataLoss, read(a, "resp_1").error().code);
  EXPECT_TRUE(erase(a, "resp_1").ok());
  EXPECT_EQ(State::kErased, read(a, "resp_1")->state);
  for (const auto& [key, entry] : bucket.entries) EXPECT_TRUE(entry.erased) << key;
}

TEST_F(KeptRecordsTest, WhatCannotBeReadHoldsUpNothingThatIsForgotten) {
  One a(*this, "a");
  for (const char* id : {"resp_1", "resp_2"}) EXPECT_TRUE(keep(a, id, "x").ok());
  bucket.broken = a.records.key_of("key ann", "resp_1");
  a.records.forget("key ann", "resp_1");
  bucket.answer();
  EXPECT_EQ(1u, a.records.left());
  const uint64_t reads = bucket.reads;
  a.records.forget("key ann", "resp_2");
  bucket.answer();
  EXPECT_EQ(State::kErased, read(a, "resp_2")->state);
  pass(seconds(5));
  EXPECT_EQ(reads + 2, bucket.reads) << "it is not tried again";
}

TEST_F(KeptRecordsTest, WithoutTheBucketARecordIsUnkeptAndIsWrittenOnceItIsBack) {
  One a(*this, "a"), b(*this, "b");
  a.way.cut = true;
  EXPECT_TRUE(keep(a, "resp_1", "x").ok());
  EXPECT_EQ(1u, a.records.unkept());
  EXPECT_EQ(Code::kUnavailable, read(a, "resp_1").error().code);
  EXPECT_EQ(Code::kUnavailable, erase(a, "resp_2").code);
  EXPECT_EQ(Code::kUnavailable, erase(a, "resp_1").code);
  EXPECT_EQ(1u, a.records.unkept()) << "it was not deleted";
  a.way.cut = false;
  pass(seconds(2));
  EXPECT_EQ(0u, a.records.unkept());
  EXPECT_EQ("x", read(b, "resp_1")->record.view());
}

TEST_F(KeptRecordsTest, AWriteWhoseAnswerIsLostIsTriedAgain) {
  One a(*this, "a");
  base::Status status = base::failure(Code::kUnknown, "no answer");
  a.records.keep("key ann", "resp_1", "x", [&](base::Status s) { status = s; });
  bucket.refuse_next();
  EXPECT_EQ(Code::kUnknown, status.code);
  pass(seconds(1));
  EXPECT_TRUE(status.ok());
  EXPECT_EQ("x", read(a, "resp_1")->record.view());
}

TEST_F(KeptRecordsTest, ARecordThatWasWrittenWithoutTheSecretOrForAnotherKeyIsRefused) {
  One a(*this, "a", "secret"), b(*this, "b", "secret"), liar(*this, "c", "other");
  EXPECT_TRUE(keep(liar, "resp_1", "a lie").ok());
  EXPECT_EQ(State::kUnknown, read(a, "resp_1")->state) << "without the secret nobody knows the key";
  auto key = [&](const char* id) { return a.records.key_of("key ann", id); };
  bucket.entries[key("resp_1")] = bucket.entries[liar.records.key_of("key ann", "resp_1")];
  EXPECT_EQ(Code::kDataLoss, read(a, "resp_1").error().code);
  EXPECT_TRUE(keep(a, "resp_2", "x").ok());
  EXPECT_EQ("x", read(b, "resp_2")->record.view());
  bucket.entries[key("resp_3")] = bucket.entries[key("resp_2")];
  EXPECT_EQ(Code::kDataLoss, read(b, "resp_3").error().code);
  EXPECT_EQ(1u, a.records.refused());
}

TEST_F(KeptRecordsTest, WhatWaitsIsBoundedByCountAndByBytes) {
  KeptRecords::Limits limits;
  limits.at_once = 4, limits.of_one_owner = 3, limits.bytes_at_once = 1000, limits.unkept_bytes = 1000;
  One a(*this, "a", "", limits);
  int refused = 0, of_bob = 0;
  auto count = [](int& n) { return [&n](base::Result<KeptRecords::Found> found) { n += !found; }; };
  for (int i = 0; i < 10; ++i) a.records.read("key ann", std::to_string(i), count(refused));
  EXPECT_EQ(7, refused);
  for (int i = 0; i < 3; ++i) a.records.read("key bob", std::to_string(i), count(of_bob));
  EXPECT_EQ(2, of_bob) << "one client has not taken all";
  bucket.answer();
  EXPECT_EQ(State::kUnknown, read(a, "1")->state);
  for (int i = 0; i < 3; ++i) a.records.keep("key ann", std::to_string(i), std::string(400, 'x'), [](auto) {});
  EXPECT_EQ(1u, a.records.lost()) << "two are being written";
  bucket.answer();
  a.way.cut = true;
  for (int i = 10; i < 20; ++i) keep(a, std::to_string(i), std::string(400, 'x'));
  EXPECT_LE(a.records.unkept(), 2u);
  EXPECT_GE(a.records.lost(), 9u);
  EXPECT_TRUE(keep(a, "long", std::string(5 << 20, 'x')).ok()) << "it lives with its node";
}

using Answer = base::Result<KeptRecords::Found>;
constexpr auto kAnswers = base::MemoryKind::kAnswers;

TEST_F(KeptRecordsTest, ReadsHoldSoMuchMemoryAtOnceAndTakeTurns) {
  KeptRecords::Limits limits;
  limits.read_bytes = 3 * KeptRecords::kOfRead, limits.read_bytes_of_one_owner = 2 * KeptRecords::kOfRead;
  base::MemoryLedger ledger(uint64_t(1) << 30);
  One a(*this, "a", "", limits, &ledger);
  const std::string record(400 << 10, 'x');
  for (const char* owner : {"key ann", "key bob"}) EXPECT_TRUE(keep(a, "resp_1", record, owner).ok());
  std::vector<Answer> ann, bob;
  for (int i = 0; i < 20; ++i)
    a.records.read("key ann", "resp_1", [&](Answer found) { ann.push_back(std::move(found)); });
  EXPECT_EQ(2 * KeptRecords::kOfRead, ledger.held(kAnswers));
  for (int i = 0; i < 20; ++i)
    a.records.read("key bob", "resp_1", [&](Answer found) { bob.push_back(std::move(found)); });
  EXPECT_EQ(3 * KeptRecords::kOfRead, ledger.held(kAnswers));
  bucket.answer(3);
  EXPECT_EQ(1u, bob.size()) << "one client's reads do not wait for another's";
  EXPECT_LE(ledger.held(kAnswers), 3 * KeptRecords::kOfRead + 3 * (record.size() + 4096));
  bucket.answer();
  ASSERT_EQ(20u, ann.size());
  for (const Answer& found : ann) EXPECT_EQ(record, found->record.view());
  EXPECT_GE(ledger.held(kAnswers), 40 * record.size()) << "those that are kept on are charged";
  ann.clear(), bob.clear();
  EXPECT_EQ(0u, ledger.held(kAnswers));
}

TEST_F(KeptRecordsTest, AReadForWhichThereIsNoMemoryIsRefusedForNow) {
  base::MemoryLedger ledger(KeptRecords::kOfRead + (1 << 20));
  One a(*this, "a", "", {}, &ledger);
  EXPECT_TRUE(keep(a, "resp_1", "x").ok());
  ledger.add(kAnswers, 2 << 20);
  const auto found = read(a, "resp_1");
  EXPECT_EQ(Code::kUnavailable, found.error().code);
  EXPECT_TRUE(base::worth_trying_again(found.error()));
  ledger.give(kAnswers, 2 << 20);
  EXPECT_EQ("x", read(a, "resp_1")->record.view());
}

TEST_F(KeptRecordsTest, ABucketThatDoesNotAnswerKeepsNobodyWaiting) {
  KeptRecords::Limits limits;
  limits.read_bytes = KeptRecords::kOfRead;
  One a(*this, "a", "", limits);
  int kept = 0;
  auto count = [&](const base::Status& status) { kept += status.ok(); };
  a.records.keep("key ann", "resp_1", "x", count);
  std::vector<base::Status> refused;
  for (int i = 0; i < 2; ++i)
    a.records.read("key ann", "resp_0", [&](Answer found) { refused.push_back(found.error()); });
  env.advance(limits.patience - std::chrono::milliseconds(1));
  EXPECT_EQ(0, kept);
  env.advance(std::chrono::milliseconds(1));
  EXPECT_EQ(1, kept);
  ASSERT_EQ(2u, refused.size());
  for (const auto& status : refused) EXPECT_EQ(Code::kUnavailable, status.code);
  EXPECT_TRUE(refused[0].text.starts_with("NATS is away")) << refused[0].text;
  EXPECT_TRUE(refused[1].text.starts_with("too many")) << refused[1].text;
  a.records.keep("key ann", "resp_2", "x", count);
  EXPECT_EQ(2, kept) << "nobody waits for what is known to hang";
  bucket.answer();
  EXPECT_EQ(2, kept);
  for (const char* id : {"resp_1", "resp_2"}) EXPECT_EQ("x", this->read(a, id)->record.view());
  a.records.keep("key ann", "resp_3", "x", count);
  EXPECT_EQ(2, kept) << "it answers again";
  bucket.answer();
  EXPECT_EQ(3, kept);
}

TEST_F(KeptRecordsTest, HoweverManyHaveToGoAtOnceAllOfThemGo) {
  KeptRecords::Limits limits;
  limits.to_forget = 1000;
  One a(*this, "a", "", limits);
  const auto there = [&] {
    return std::count_if(bucket.entries.begin(), bucket.entries.end(), [](const auto& e) { return !e.second.erased; });
  };
  for (int i = 0; i < 500; ++i) EXPECT_TRUE(keep(a, std::to_string(i), "x").ok());
  a.way.cut = true;
  for (int i = 0; i < 500; ++i) a.records.forget("key ann", std::to_string(i));
  pass(seconds(3));
  EXPECT_EQ(500, there());
  a.way.cut = false;
  pass(seconds(2));
  EXPECT_EQ(0, there());
  EXPECT_EQ(0u, a.records.left());
  for (int i = 0; i < 2000; ++i) a.records.forget("key ann", std::to_string(i));
  EXPECT_GE(a.records.left(), 900u);
  EXPECT_LE(a.records.left(), 1000u);
}

}  // namespace
}  // namespace weir::cluster
