#include "cluster/kept_records.h"

#include <gtest/gtest.h>

#include "base/fake_env.h"
#include "fake_bucket.h"

namespace weir::cluster {
namespace {

using base::Code;
using std::chrono::seconds;
using State = KeptRecords::Found::State;

struct KeptRecordsTest : testing::Test {
  struct One {
    explicit One(KeptRecordsTest& test, const std::string& name, std::string secret = "",
                 KeptRecords::Limits limits = {})
        : way(test.bucket),
          records(
              test.env, way, name, std::move(secret), [this] { return !way.cut; }, limits) {}
    Way way;
    KeptRecords records;
  };
  base::Status keep(One& one, const std::string& key, std::string record) {
    base::Status out = base::failure(Code::kUnknown, "no answer");
    one.records.keep(key, std::move(record), [&](base::Status s) { out = s; });
    bucket.answer();
    return out;
  }
  base::Result<KeptRecords::Found> read(One& one, const std::string& key) {
    base::Result<KeptRecords::Found> out = base::failure(Code::kUnknown, "no answer");
    one.records.read(key, [&](base::Result<KeptRecords::Found> found) { out = std::move(found); });
    bucket.answer();
    return out;
  }
  base::Status erase(One& one, const std::string& key) {
    base::Status out = base::failure(Code::kUnknown, "no answer");
    one.records.erase(key, [&](base::Status s) { out = s; });
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
  const std::string key = a->records.key_of("key ann", "resp_1");
  EXPECT_EQ(State::kUnknown, read(b, key)->state);
  EXPECT_TRUE(keep(*a, key, "some\nbytes").ok());
  a.reset();
  auto found = read(b, key);
  ASSERT_TRUE(found);
  EXPECT_EQ(State::kThere, found->state);
  EXPECT_EQ("some\nbytes", found->record);
}

TEST_F(KeptRecordsTest, AnotherOwnersRecordIsOneThatIsNotThere) {
  One a(*this, "a"), b(*this, "b");
  EXPECT_TRUE(keep(a, a.records.key_of("key ann", "resp_1"), "x").ok());
  EXPECT_EQ(State::kUnknown, read(b, b.records.key_of("key bob", "resp_1"))->state);
  EXPECT_EQ(State::kUnknown, read(b, b.records.key_of("key ann", "resp_2"))->state);
  EXPECT_EQ(State::kThere, read(b, b.records.key_of("key ann", "resp_1"))->state);
}

TEST_F(KeptRecordsTest, WhatIsErasedIsErasedEverywhere) {
  One a(*this, "a"), b(*this, "b");
  const std::string key = a.records.key_of("key ann", "resp_1");
  EXPECT_TRUE(keep(a, key, "x").ok());
  EXPECT_TRUE(erase(b, key).ok());
  EXPECT_EQ(State::kErased, read(a, key)->state);
  EXPECT_TRUE(erase(a, key).ok());
  EXPECT_TRUE(keep(a, key, "again").ok()) << "a write that comes late does not bring it back";
  EXPECT_EQ(State::kErased, read(b, key)->state);
}

TEST_F(KeptRecordsTest, WithoutTheBucketARecordIsUnkeptAndIsWrittenOnceItIsBack) {
  One a(*this, "a"), b(*this, "b");
  const std::string key = a.records.key_of("key ann", "resp_1");
  a.way.cut = true;
  EXPECT_TRUE(keep(a, key, "x").ok());
  EXPECT_EQ(1u, a.records.unkept());
  EXPECT_EQ(Code::kUnavailable, read(a, key).error().code);
  EXPECT_EQ(Code::kUnavailable, erase(a, a.records.key_of("key ann", "resp_2")).code);
  a.way.cut = false;
  pass(seconds(2));
  EXPECT_EQ(0u, a.records.unkept());
  EXPECT_EQ("x", read(b, key)->record);
}

TEST_F(KeptRecordsTest, AWriteWhoseAnswerIsLostIsTriedAgain) {
  One a(*this, "a");
  const std::string key = a.records.key_of("key ann", "resp_1");
  base::Status status = base::failure(Code::kUnknown, "no answer");
  a.records.keep(key, "x", [&](base::Status s) { status = s; });
  bucket.refuse_next();
  EXPECT_EQ(Code::kUnknown, status.code);
  pass(seconds(1));
  EXPECT_TRUE(status.ok());
  EXPECT_EQ("x", read(a, key)->record);
}

TEST_F(KeptRecordsTest, ARecordThatWasWrittenWithoutTheSecretOrForAnotherKeyIsRefused) {
  One a(*this, "a", "secret"), b(*this, "b", "secret"), liar(*this, "c", "other");
  const std::string key = a.records.key_of("key ann", "resp_1"), second = a.records.key_of("key ann", "resp_2");
  EXPECT_NE(key, liar.records.key_of("key ann", "resp_1"));
  EXPECT_TRUE(keep(liar, key, "a lie").ok());
  EXPECT_EQ(Code::kDataLoss, read(a, key).error().code);
  EXPECT_TRUE(keep(a, second, "x").ok());
  EXPECT_EQ("x", read(b, second)->record);
  const std::string third = a.records.key_of("key ann", "resp_3");
  bucket.entries[third] = bucket.entries[second];
  EXPECT_EQ(Code::kDataLoss, read(b, third).error().code);
  EXPECT_EQ(1u, a.records.refused());
}

TEST_F(KeptRecordsTest, WhatWaitsIsBoundedByCountAndByBytes) {
  KeptRecords::Limits limits;
  limits.at_once = 4, limits.bytes_at_once = 1000, limits.unkept_bytes = 1000;
  One a(*this, "a", "", limits);
  int refused = 0;
  auto count = [&](base::Result<KeptRecords::Found> found) { refused += !found; };
  for (int i = 0; i < 10; ++i) a.records.read(a.records.key_of("key ann", std::to_string(i)), count);
  EXPECT_EQ(6, refused);
  bucket.answer();
  for (int i = 0; i < 4; ++i)
    a.records.keep(a.records.key_of("key ann", std::to_string(i)), std::string(400, 'x'), [](auto) {});
  EXPECT_EQ(2u, a.records.lost()) << "two are being written";
  bucket.answer();
  a.way.cut = true;
  for (int i = 10; i < 20; ++i) keep(a, a.records.key_of("key ann", std::to_string(i)), std::string(400, 'x'));
  EXPECT_LE(a.records.unkept(), 2u);
  EXPECT_GE(a.records.lost(), 10u);
  EXPECT_TRUE(keep(a, "response.long", std::string(5 << 20, 'x')).ok()) << "it lives with its node";
}

}  // namespace
}  // namespace weir::cluster
