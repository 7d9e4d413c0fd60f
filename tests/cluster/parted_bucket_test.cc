#include "cluster/parted_bucket.h"

#include <gtest/gtest.h>

#include "base/fake_env.h"
#include "cluster/ownership.h"
#include "fake_bucket.h"

namespace weir::cluster {
namespace {

using base::Code;
using base::Result;

struct PartedBucketTest : testing::Test {
  Result<uint64_t> write(PartedBucket& parted, const std::string& value, uint64_t expected) {
    Result<uint64_t> out = base::failure(Code::kUnknown, "no answer");
    parted.write("session.s", value, expected, [&](Result<uint64_t> r) { out = std::move(r); });
    bucket.answer();
    return out;
  }
  Result<Bucket::KeyValue> read(PartedBucket& parted) {
    Result<Bucket::KeyValue> out = base::failure(Code::kUnknown, "no answer");
    parted.read("session.s", [&](Result<Bucket::KeyValue> r) { out = std::move(r); });
    bucket.answer();
    return out;
  }
  // Parts that are there.
  size_t parts() const {
    size_t out = 0;
    for (const auto& [key, entry] : bucket.entries) out += key.starts_with(PartedBucket::kPrefix) && !entry.erased;
    return out;
  }
  static std::string text(size_t size, char first) {
    std::string out(size, 'x');
    for (size_t i = 0; i < size; i += 1000) out[i] = char(first + i / 1000 % 20);
    return out;
  }

  base::FakeEnv env;
  FakeBucket bucket;
  PartedBucket a{env, bucket}, b{env, bucket};
};

TEST_F(PartedBucketTest, ALongValueIsReadAsItWasWrittenAndItsPartsGoWithIt) {
  for (size_t size : {PartedBucket::kPart, PartedBucket::kPart + 1, 3 * PartedBucket::kPart, size_t(4) << 20}) {
    const std::string value = text(size, 'a');
    auto revision = write(a, value, bucket.entries["session.s"].revision);
    ASSERT_TRUE(revision) << revision.error().text;
    auto found = read(b);
    ASSERT_TRUE(found) << found.error().text;
    EXPECT_EQ(found->value, value);
    EXPECT_EQ(found->revision, *revision);
    EXPECT_EQ(parts(), size > PartedBucket::kPart ? (size + PartedBucket::kPart - 1) / PartedBucket::kPart : 0);
  }
  bool erased = false;
  b.erase("session.s", bucket.entries["session.s"].revision, [&](const Result<uint64_t>& r) { erased = bool(r); });
  bucket.answer();
  EXPECT_TRUE(erased);
  EXPECT_EQ(parts(), 0u);
  EXPECT_EQ(write(a, text((PartedBucket::kMostParts + 1) * PartedBucket::kPart, 'a'), 0).error().code,
            Code::kResourceExhausted);
}

TEST_F(PartedBucketTest, AValueIsErasedWhateverItsRevisionAndWithoutReadingItsParts) {
  const auto erase = [this] {
    Result<uint64_t> out = base::failure(Code::kUnknown, "no answer");
    b.erase("session.s", Bucket::kAny, [&](Result<uint64_t> r) { out = std::move(r); });
    bucket.answer();
    return out;
  };
  EXPECT_EQ(erase().error().code, Code::kNotFound);
  EXPECT_TRUE(bucket.entries.empty());
  for (size_t size : {size_t(1), 3 * PartedBucket::kPart}) {
    ASSERT_TRUE(write(a, text(size, 'a'), bucket.entries["session.s"].revision));
    const uint64_t reads = bucket.reads;
    EXPECT_TRUE(erase());
    EXPECT_EQ(bucket.reads, reads + 1);
    EXPECT_TRUE(bucket.entries["session.s"].erased);
    EXPECT_EQ(parts(), 0u);
    const uint64_t writes = bucket.writes;
    EXPECT_EQ(*erase(), bucket.entries["session.s"].revision);
    EXPECT_EQ(bucket.writes, writes) << "the mark stays";
  }
  bucket.put({"session.s", "weir-parts 1 nonsense", 0, false}, Bucket::kAny);
  EXPECT_TRUE(erase());
  bucket.away = true;
  EXPECT_EQ(erase().error().code, Code::kUnavailable);
}

// The writer dies behind every one of its requests.
TEST_F(PartedBucketTest, AValueThatIsHalfWrittenIsNeverRead) {
  const std::string before = text(1 << 20, 'a'), after = text(2 << 20, 'f');
  ASSERT_TRUE(write(a, before, 0));
  const auto entries = bucket.entries;
  size_t seen_after = 0;
  for (int steps = 0; steps < 12; ++steps) {
    bucket.entries = entries;
    PartedBucket writer(env, bucket);
    writer.write("session.s", after, entries.at("session.s").revision, [](const Result<uint64_t>&) {});
    bucket.answer(steps);
    bucket.drop();
    auto found = read(b);
    ASSERT_TRUE(found) << steps << found.error().text;
    EXPECT_TRUE(found->value == before || found->value == after) << steps;
    seen_after += found->value == after;
  }
  EXPECT_GT(seen_after, 0u);
  EXPECT_LT(seen_after, 12u);
}

TEST_F(PartedBucketTest, AWriteThatLosesTakesItsPartsAwayOnlyWhereNobodyReadsThem) {
  ASSERT_TRUE(write(a, text(1 << 20, 'a'), 0));
  const size_t before = parts();
  EXPECT_EQ(write(b, text(2 << 20, 'f'), 99).error().code, Code::kAborted);
  EXPECT_EQ(read(b)->value, text(1 << 20, 'a'));
  EXPECT_EQ(parts(), before);
}

TEST_F(PartedBucketTest, AValueThatSaysThatItIsTooLongIsNotRead) {
  ASSERT_TRUE(write(a, text(2 << 20, 'a'), 0));
  PartedBucket exact(env, bucket, 2 << 20), less(env, bucket, (2 << 20) - 1);
  EXPECT_TRUE(read(exact));
  EXPECT_EQ(read(less).error().code, Code::kDataLoss);
}

TEST_F(PartedBucketTest, HostileListsOfPartsAreRefused) {
  ASSERT_TRUE(write(a, text(1 << 20, 'a'), 0));
  const std::string head = bucket.entries["session.s"].value;
  auto say = [&](const std::string& value) {
    bucket.entries["session.s"].value = value;
    return read(b).error().code;
  };
  for (const std::string& bad :
       {std::string("weir-parts 1 "), std::string("weir-parts 1 0123456789abcdef 99999999 5\n"),
        std::string("weir-parts 1 ../../../../etc/p 3 1048576\n"), head.substr(0, head.size() - 1), head + "x",
        std::string("weir-parts 1 0123456789abcdef 3 1048576\n")})
    EXPECT_EQ(say(bad), Code::kDataLoss) << bad;
  bucket.entries["session.s"].value = head;
  for (auto& [key, entry] : bucket.entries)
    if (key.ends_with(".1")) entry.value += "more";
  EXPECT_EQ(read(b).error().code, Code::kDataLoss);
}

}  // namespace
}  // namespace weir::cluster
