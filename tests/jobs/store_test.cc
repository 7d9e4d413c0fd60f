#include "jobs/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <new>
#include <thread>

#include "folder.h"
#include "jobs/log.h"

namespace weir::jobs {
namespace {

TEST(Store, WithoutAFolderItSaysWhy) {
  Store store("", {}, "set jobs.path");
  EXPECT_TRUE(store.open().ok());
  EXPECT_EQ(base::Code::kUnimplemented, store.available().code);
  EXPECT_EQ("set jobs.path", store.available().text);
}

struct CountingDuty final : Duty {
  base::Result<bool> step(Storage&, base::WallTime) override {
    if (++steps == 3) done.set_value();
    return steps < 3;
  }
  int steps = 0;
  std::promise<void> done;
};

class OpenStore : public testing::Test {
 protected:
  void SetUp() override {
    auto status = store.open();
    if (!status.ok() || !store.available().ok()) GTEST_SKIP() << "built without SQLite";
  }
  Folder folder;
  Store store{folder.path(), {}, "off"};
};

TEST_F(OpenStore, WorkIsDoneInItsOrderAndAllOfItBeforeTheEnd) {
  store.start();
  std::string order;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(store.post([&, i](Storage&) { order += char('0' + i % 10); }));
  ASSERT_TRUE(store.post([](Storage&) { throw std::runtime_error("work that throws ends nothing"); }));
  ASSERT_TRUE(store.post([&](Storage&) { order += 'z'; }));
  store.stop();
  EXPECT_EQ(101u, order.size());
  EXPECT_TRUE(order.starts_with("0123456789"));
  EXPECT_TRUE(order.ends_with("9z"));
  EXPECT_FALSE(store.post([](Storage&) {}));
}

TEST_F(OpenStore, ADutyGoesOnByItself) {
  CountingDuty duty;
  store.add(duty);
  store.start();
  duty.done.get_future().wait();
  store.stop();
  EXPECT_GE(duty.steps, 3);
}

TEST_F(OpenStore, TooMuchWorkIsRefusedButWhatWasGranted) {
  for (size_t i = 0; i < Store::kMostWaiting; ++i) ASSERT_TRUE(store.post([](Storage&) {}));
  EXPECT_FALSE(store.post([](Storage&) {}));
  EXPECT_TRUE(store.post([](Storage&) {}, Store::Admission::kGranted));
}

TEST_F(OpenStore, WritesThatNobodyAsksAboutAreBoundedAndThoseLeftOutAreCounted) {
  base::Metrics metrics;
  store.count_in(metrics);
  const auto has = [&](const std::string& line) {
    return metrics.text().find("\n" + line + "\n") != std::string::npos;
  };
  std::atomic<size_t> written{0};
  const auto write = [&](std::function<void(const base::Status&)> then = nullptr) {
    store.write([&](Storage&) { return ++written, base::Status(); }, std::move(then));
  };
  for (size_t i = 0; i < Store::kMostUntold; ++i) write();
  EXPECT_TRUE(has("weir_jobs_left_out_total 0"));
  for (int i = 0; i < 3; ++i) write();
  EXPECT_TRUE(has("weir_jobs_left_out_total 3"));
  write([](const auto&) {});
  store.start();
  store.stop();
  EXPECT_EQ(Store::kMostUntold + 1, written);
}

TEST_F(OpenStore, AWriteThatFailsIsTriedAgainUntilItSucceeds) {
  store.start();
  int tries = 0;
  std::promise<base::Status> done;
  store.write([&](Storage&) { return ++tries < 2 ? base::failure(base::Code::kDataLoss, "no") : base::Status(); },
              [&](const base::Status& status) { done.set_value(status); });
  EXPECT_TRUE(done.get_future().get().ok());
  EXPECT_EQ(2, tries);
  store.write([&](Storage&) { return ++tries, base::failure(base::Code::kDataLoss, "no"); });
  store.stop();
  EXPECT_EQ(4, tries) << "once more at the end";
}

TEST_F(OpenStore, ShardsThatWantJobsGetThemInTurn) {
  std::mutex mutex;
  std::string ran;
  std::promise<void> all;
  for (uint16_t shard = 0; shard < 2; ++shard)
    store.attach(base::ShardId(shard), {[&, shard](Job job) {
                                          std::lock_guard lock(mutex);
                                          ran += char('A' + shard) + std::to_string(job.id.index);
                                          if (ran.size() == 8) all.set_value();
                                        },
                                        [](const std::string&) {}});
  store.start();
  ASSERT_TRUE(store.post([](Storage& s) {
    (void)s.batches.add({"b", "k", {}, "s", "", {}, {}});
    std::vector<Job> jobs(5);
    for (uint64_t i = 0; i < 5; ++i) jobs[i].id = {"b", i};
    (void)s.journal.put(jobs);
  }));
  store.want(base::ShardId(0), 2);
  store.want(base::ShardId(1), 2);
  all.get_future().wait();
  store.stop();
  EXPECT_EQ(4, std::count_if(ran.begin(), ran.end(), [](char c) { return c >= '0' && c <= '3'; })) << ran;
  EXPECT_EQ(2, std::count(ran.begin(), ran.end(), 'A')) << ran;
}

TEST_F(OpenStore, AJobThatCouldNotBeHandedOverIsHandedOverLater) {
  std::promise<uint32_t> ran;
  int handed = 0;
  store.attach(base::ShardId(0), {[&](Job job) {
                                    if (++handed == 1) throw std::bad_alloc();
                                    ran.set_value(job.attempts);
                                  },
                                  [](const std::string&) {}});
  store.start();
  ASSERT_TRUE(store.post([](Storage& s) {
    (void)s.batches.add({"b", "k", {}, "s", "", {}, {}});
    Job job;
    job.id = {"b", 0};
    (void)s.journal.put(std::span(&job, 1));
  }));
  store.want(base::ShardId(0), 1);
  EXPECT_EQ(0u, ran.get_future().get()) << "it counts as no attempt";
  store.stop();
  EXPECT_EQ(2, handed);
}

// A log that takes nothing until it is given up, as a broker that hangs.
struct HangingLog final : Log {
  base::Result<uint64_t> append(std::string_view, std::string_view) override { return hang(); }
  base::Result<std::optional<LogEntry>> next(uint64_t) override { return std::optional<LogEntry>(); }
  base::Result<Extent> extent() override { return Extent{"1", 1}; }
  base::Result<Place> at(uint64_t) override { return Place(); }
  base::Result<std::optional<Snapshot>> snapshot() override { return std::optional<Snapshot>(); }
  base::Result<Part> append_part(std::string_view) override { return hang(); }
  base::Result<std::string> read_part(const Part&) override { return hang(); }
  base::Status set_snapshot(const Snapshot&) override { return hang(); }
  base::Status tell_copy(const Copy&) override { return hang(); }
  base::Result<bool> is_behind(const Copy&) override { return hang(); }
  base::Status begin_with(const Snapshot&) override { return hang(); }
  base::Result<Room> room() override { return Room(); }
  bool knows_nodes() const override { return false; }
  void abandon() override { given_up.set_value(); }
  base::Status hang() {
    if (!std::exchange(was_asked, true)) asked.set_value();
    gone.wait();
    return base::failure(base::Code::kUnavailable, "given up");
  }
  bool was_asked = false;  // on the store's thread
  std::promise<void> asked, given_up;
  std::shared_future<void> gone = given_up.get_future().share();
};

TEST_F(OpenStore, WithADiskThatStandsTheProcessEndsAndSaysWhatIsLost) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto end = [this] {
    std::promise<void> asked, stands;
    store.start();
    ASSERT_TRUE(store.post([&](Storage&) { asked.set_value(), stands.get_future().wait(); }));
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(store.post([](Storage&) {}));
    asked.get_future().wait();
    store.stop(std::chrono::milliseconds(10));
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(1), "the journal's disk .* lost=3 stands=true setting=jobs.path");
}

TEST_F(OpenStore, WhatASlowDiskHasDoneInTimeIsNotLost) {
  std::promise<void> goes_on;
  store.start();
  ASSERT_TRUE(store.post([&](Storage&) { goes_on.get_future().wait(); }));
  std::thread later([&] { goes_on.set_value(); });
  std::atomic<bool> done{false};
  ASSERT_TRUE(store.post([&](Storage&) { done = true; }));
  store.stop(std::chrono::milliseconds(1));
  EXPECT_TRUE(done);
  later.join();
}

TEST_F(OpenStore, ALogThatHangsIsGivenUpAtTheEnd) {
  HangingLog log;
  Folder own;
  Store shared{own.path(), {}, "off"};
  shared.share(log, "a");
  ASSERT_TRUE(shared.open().ok());
  shared.start();
  std::atomic<int> told{0};
  for (int i = 0; i < 500; ++i)
    ASSERT_TRUE(shared.post([i](Storage& s) { (void)s.files.append("f" + std::to_string(i), 0, "bytes"); },
                            Store::Admission::kAsked, [&](const base::Status& status) { told += !status.ok(); }));
  log.asked.get_future().wait();
  shared.stop(std::chrono::milliseconds(50));
  EXPECT_EQ(500, told);
}

}  // namespace
}  // namespace weir::jobs
