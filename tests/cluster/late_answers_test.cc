// Ownership behind a bucket whose answers come late.
#include <functional>

#include "kept_sessions_fixture.h"

namespace weir::cluster {
namespace {

// A bucket whose answers to reads are on their way until deliver().
struct LateReads final : Bucket {
  explicit LateReads(Bucket& to) : bucket(to) {}
  void write(const std::string& key, std::string value, uint64_t expected, OnWritten then) override {
    const bool waits = std::exchange(next_write_is_late, false);
    bucket.write(key, std::move(value), expected, [this, then, waits](base::Result<uint64_t> revision) {
      if (!waits) return then(revision);
      late.push_back([then, revision] { then(revision); });
    });
  }
  void erase(const std::string& key, uint64_t expected, OnWritten then) override {
    bucket.erase(key, expected, std::move(then));
  }
  void read(const std::string& key, OnRead then) override {
    bucket.read(key, [this, then](base::Result<KeyValue> entry) {
      late.push_back([then, entry = std::move(entry)] { then(entry); });
    });
  }
  void deliver() {
    for (auto& answer : std::exchange(late, {})) answer();
  }
  Bucket& bucket;
  bool next_write_is_late = false;
  std::vector<std::function<void()>> late;
};

using LateAnswersTest = KeptSessionsTest;

TEST_F(LateAnswersTest, WhatWasReadBeforeATurnDoesNotTakeItsPlace) {
  One a(*this, "a");
  LateReads late(bucket);
  Ownership ownership(late, a.membership, 10);
  pass(seconds(1), {&a});
  auto ok = [](const base::Status& status) { EXPECT_TRUE(status.ok()) << status.text; };
  ownership.open("s", "one", ok);
  bucket.answer();
  base::Status taken;
  ownership.take("s", [&](base::Result<Record> record) { taken = record ? base::Status() : record.error(); });
  bucket.answer();
  ownership.commit("s", "two", ok);
  bucket.answer();
  late.deliver();
  EXPECT_EQ(taken.code, Code::kUnavailable) << "it would go on from 'one'";
  ownership.commit("s", "three", ok);
  bucket.answer();
  EXPECT_TRUE(bucket.entries.at("session.s").value.ends_with("three"));
}

// Two searches at one node: the first one's claim is in the bucket, and its answer comes behind a turn of the second's.
TEST_F(LateAnswersTest, AClaimWhoseAnswerComesBehindATurnDoesNotTakeItsPlace) {
  One a(*this, "a"), b(*this, "b");
  LateReads late(bucket);
  Ownership ownership(late, b.membership, 10);
  pass(seconds(1), {&a, &b});
  ASSERT_TRUE(save(a, "s", "one").ok());
  Status released = kNoAnswer;
  a.kept.release("s", [&](Status s) { released = std::move(s); });
  bucket.answer();
  ASSERT_TRUE(released.ok());
  std::vector<Code> taken;
  auto note = [&](base::Result<Record> record) { taken.push_back(record ? Code::kOk : record.error().code); };
  ownership.take("s", note);
  bucket.answer();
  late.next_write_is_late = true;
  late.deliver();  // it has read the record, and claims it
  bucket.answer();
  auto claim = std::exchange(late.late, {});
  ASSERT_EQ(claim.size(), 1u);
  ownership.take("s", note);
  bucket.answer();
  late.deliver();
  ASSERT_EQ(taken, std::vector<Code>{Code::kOk});
  ownership.commit("s", "two", [](const Status& status) { EXPECT_TRUE(status.ok()) << status.text; });
  bucket.answer();
  claim[0]();
  EXPECT_EQ(taken, (std::vector<Code>{Code::kOk, Code::kUnavailable})) << "it would go on from 'one'";
  ownership.commit("s", "three", [](const Status& status) { EXPECT_TRUE(status.ok()) << status.text; });
  bucket.answer();
  EXPECT_TRUE(value("s").ends_with("three"));
}

}  // namespace
}  // namespace weir::cluster
