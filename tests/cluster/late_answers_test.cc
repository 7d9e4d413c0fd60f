// Ownership behind a bucket whose answers come late.
#include <functional>

#include "kept_sessions_fixture.h"

namespace weir::cluster {
namespace {

// A bucket whose answers to reads are on their way until deliver().
struct LateReads final : Bucket {
  explicit LateReads(Bucket& to) : bucket(to) {}
  void write(const std::string& key, std::string value, uint64_t expected, OnWritten then) override {
    bucket.write(key, std::move(value), expected, std::move(then));
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

}  // namespace
}  // namespace weir::cluster
