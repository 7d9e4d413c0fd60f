// A NatsBucket and a real nats-server, which the test starts; skipped where there is none.
#include "cluster/nats_bucket.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <vector>

#include "cluster/membership.h"
#include "cluster/ownership.h"
#include "fake_bucket.h"
#include "support/nats_server.h"

namespace weir::cluster {
namespace {

using base::Code;
using base::Result;
using std::chrono::seconds;

struct NatsBucketTest : testing::Test {
  void SetUp() override {
    if (!NatsServer::installed()) GTEST_SKIP() << "nats-server is not installed";
    server.start();
    loop.start();
    on_loop([this] {
      NatsBucket::Listener listener;
      listener.connected = [this] { count(connected); };
      listener.disconnected = [this](const std::string&) { count(disconnected); };
      listener.changed = [this](const Bucket::KeyValue& entry) {
        std::lock_guard lock(mutex);
        seen[entry.key] = entry;
        changed.notify_all();
      };
      bucket = std::make_unique<NatsBucket>(loop, NatsBucket::Options{server.url(), "weir", "test"}, listener);
      bucket->start();
    });
    ASSERT_TRUE(until([this] { return connected >= 1; }));
  }
  void TearDown() override {
    if (bucket) on_loop([this] { bucket->stop(); });
    loop.stop();
  }

  void count(int& what) {
    std::lock_guard lock(mutex);
    ++what;
    changed.notify_all();
  }
  bool until(const std::function<bool()>& what) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, seconds(20), what);
  }
  void on_loop(const std::function<void()>& work) {
    std::promise<void> done;
    loop.post([&] { work(), done.set_value(); });
    done.get_future().wait();
  }
  template <class T>
  Result<T> ask(const std::function<void(std::function<void(Result<T>)>)>& how) {
    std::promise<Result<T>> answer;
    loop.post([&] { how([&answer](Result<T> result) { answer.set_value(std::move(result)); }); });
    return answer.get_future().get();
  }
  Result<uint64_t> write(const std::string& key, const std::string& value, uint64_t expected) {
    return ask<uint64_t>([&](auto then) { bucket->write(key, value, expected, then); });
  }
  Result<uint64_t> erase(const std::string& key, uint64_t expected) {
    return ask<uint64_t>([&](auto then) { bucket->erase(key, expected, then); });
  }
  Result<Bucket::KeyValue> read(const std::string& key) {
    return ask<Bucket::KeyValue>([&](auto then) { bucket->read(key, then); });
  }

  NatsServer server;
  std::mutex mutex;
  std::condition_variable changed;
  int connected = 0, disconnected = 0;           // under mutex
  std::map<std::string, Bucket::KeyValue> seen;  // by the watch; under mutex
  Loop loop;
  std::unique_ptr<NatsBucket> bucket;
};

TEST_F(NatsBucketTest, WritesExpectARevision) {
  EXPECT_EQ(Code::kNotFound, read("node.a").error().code);
  auto first = write("node.a", "one", 0);
  ASSERT_TRUE(first) << first.error().text;
  EXPECT_EQ(Code::kAborted, write("node.a", "two", 0).error().code);
  EXPECT_EQ(Code::kAborted, write("node.a", "two", *first + 7).error().code);
  auto second = write("node.a", "two", *first);
  ASSERT_TRUE(second);
  EXPECT_EQ("two", read("node.a")->value);
  EXPECT_EQ(*second, read("node.a")->revision);
  EXPECT_EQ(Code::kAborted, erase("node.a", *first).error().code);
  auto third = erase("node.a", *second);
  ASSERT_TRUE(third);
  EXPECT_TRUE(read("node.a")->erased);
  EXPECT_EQ(Code::kAborted, write("node.a", "three", 0).error().code);
  EXPECT_TRUE(write("node.a", "three", *third));
  EXPECT_TRUE(until([this] { return seen["node.a"].value == "three"; }));
  EXPECT_TRUE(erase("node.a", Bucket::kAny));
  EXPECT_TRUE(read("node.a")->erased);
}

// The loop is told of the loss behind all that is queued for it.
TEST_F(NatsBucketTest, WritesThatAreQueuedBehindALossDoNotWaitOneByOne) {
  ASSERT_TRUE(write("node.a", "one", 0));
  constexpr int kWrites = 6;
  std::promise<void> lost;
  std::vector<std::promise<Code>> told(kWrites);
  loop.post([&] {
    server.kill();
    lost.set_value();
  });
  const auto expect = [](std::promise<Code>& one) {
    return [&one](Result<uint64_t> written) { one.set_value(written ? Code::kOk : written.error().code); };
  };
  for (auto& one : told) bucket->write("node.b", "two", 0, expect(one));
  lost.get_future().wait();
  const auto since = std::chrono::steady_clock::now();
  for (auto& one : told) EXPECT_EQ(Code::kUnavailable, one.get_future().get());
  EXPECT_LT(std::chrono::steady_clock::now() - since, NatsBucket::kPatience * kWrites / 2);
}

TEST_F(NatsBucketTest, AValueThatIsTooLongIsToldAndReadAsAnEmptyOne) {
  const auto first = write("node.a", std::string(1001, 'x'), 0);
  ASSERT_TRUE(first) << first.error().text;
  EXPECT_EQ(1001u, read("node.a")->value.size());
  on_loop([this] {
    bucket->stop();
    NatsBucket::Listener listener{[this] { count(connected); }, [](const std::string&) {},
                                  [this](const Bucket::KeyValue& entry) {
                                    std::lock_guard lock(mutex);
                                    seen[entry.key + "!"] = entry;
                                    changed.notify_all();
                                  }};
    NatsBucket::Options options{server.url(), "weir", "test"};
    options.watch = "node.*", options.largest = 1000;
    bucket = std::make_unique<NatsBucket>(loop, options, listener);
    bucket->start();
  });
  ASSERT_TRUE(until([this] { return connected >= 2; }));
  ASSERT_TRUE(write("other.a", "not watched", 0));
  ASSERT_TRUE(write("node.b", "short", 0));
  EXPECT_TRUE(until([this] { return seen.contains("node.a!") && seen.contains("node.b!"); }));
  EXPECT_EQ("", seen["node.a!"].value);
  EXPECT_EQ(*first, seen["node.a!"].revision);
  EXPECT_EQ("short", seen["node.b!"].value);
  EXPECT_FALSE(seen.contains("other.a!"));
  EXPECT_EQ("", read("node.a")->value);
}

TEST_F(NatsBucketTest, AServerThatComesBackWithoutTheBucketHasItAgain) {
  ASSERT_TRUE(write("node.a", "one", 0));
  server.kill();
  EXPECT_TRUE(until([this] { return disconnected >= 1; }));
  EXPECT_EQ(Code::kUnavailable, write("node.b", "one", 0).error().code);
  server.start();
  ASSERT_TRUE(until([this] { return connected >= 2; }));
  EXPECT_TRUE(write("node.b", "two", 0));
  EXPECT_TRUE(until([this] { return seen["node.b"].value == "two"; }));
}

TEST_F(NatsBucketTest, ASessionOfANodeThatIsSilentIsTaken) {
  Rules rules;
  rules.beat = std::chrono::milliseconds(100), rules.gone = seconds(1), rules.lease = std::chrono::milliseconds(800);
  rules.alone = {};
  struct One {
    One(Loop& loop, NatsBucket& bucket, const std::string& name, Rules rules)
        : way(bucket), membership(loop, way, rules, "", named(name), {}), ownership(bucket, membership, 10) {}
    static Node named(const std::string& name) {
      Node node;
      node.id = name;
      return node;
    }
    Way way;
    Membership membership;
    Ownership ownership;
  };
  std::unique_ptr<One> a, b;
  on_loop([&] {
    a = std::make_unique<One>(loop, *bucket, "a", rules), b = std::make_unique<One>(loop, *bucket, "b", rules);
    a->membership.connected(), b->membership.connected();
  });
  auto status = [&](auto how) {
    return ask<int>([&](auto then) { how([then](base::Status s) { s.ok() ? then(1) : then(s); }); });
  };
  auto take = [&](One& one) { return ask<Record>([&](auto then) { one.ownership.take("s", then); }); };
  Result<int> opened = 0;
  while (!(opened = status([&](auto then) { a->ownership.open("s", "", then); })))
    ASSERT_EQ(Code::kUnavailable, opened.error().code);
  ASSERT_TRUE(status([&](auto then) { a->ownership.commit("s", "turn one", then); }));
  EXPECT_FALSE(take(*b));
  on_loop([&] { a->way.cut = true, a->membership.disconnected(); });
  Result<Record> taken = base::failure(Code::kUnavailable, "");
  const base::Time end = loop.now() + seconds(20);
  while (!(taken = take(*b)) && loop.now() < end) continue;
  ASSERT_TRUE(taken) << taken.error().text;
  EXPECT_EQ("turn one", taken->state);
  EXPECT_EQ(Code::kAborted, status([&](auto then) { a->ownership.commit("s", "late", then); }).error().code);
  on_loop([&] { a.reset(), b.reset(); });
}

}  // namespace
}  // namespace weir::cluster
