// Loads beside each other.
#include <gtest/gtest.h>

#include <future>
#include <random>
#include <thread>

#include "held_loads.h"

namespace weir::models {
namespace {

using namespace std::chrono_literals;

TEST(ParallelLoads, OneThatHangsKeepsNobodyElseWaiting) {
  test::Disk disk({{"slow/1/model.onnx", "a"}, {"m/1/model.onnx", "a"}});
  HeldLoads loads;
  HeldRepo repo(disk, loads, with_threads(2));
  ASSERT_TRUE(repo.repository->start().ok());
  loads.hold("slow");
  auto slow = repo.begin_load("slow");
  ASSERT_TRUE(loads.begins("slow"));
  EXPECT_EQ(repo.rows(), "m/ UNAVAILABLE (not loaded)\nslow/ LOADING\n");
  EXPECT_TRUE(repo.load("m").ok());
  EXPECT_EQ(repo.rows(), "m/1 READY\nslow/1 LOADING\n");
  disk.write("m/1/model.onnx", "b");
  repo.rescan();
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.platform, "b");
  EXPECT_TRUE(repo.unload("m").ok());
  EXPECT_EQ(repo.unload("zebra").code, base::Code::kNotFound);
  EXPECT_TRUE(repo.becomes("m/1 UNAVAILABLE (unloaded)\nslow/1 LOADING\n"));
  loads.release("slow");
  EXPECT_TRUE(slow.get().ok());
  EXPECT_TRUE(repo.becomes("m/1 UNAVAILABLE (unloaded)\nslow/1 READY\n"));
}

TEST(ParallelLoads, TheStartLoadsAsManyAsThereArePlacesAndEachServesWhenItIsReady) {
  test::Disk disk({{"a/1/model.onnx", "a"}, {"b/1/model.onnx", "a"}, {"c/1/model.onnx", "a"}, {"d/1/model.onnx", "a"}});
  HeldLoads loads;
  for (const char* name : {"a", "b", "c", "d"}) loads.hold(name);
  HeldRepo repo(disk, loads, with_threads(3, Control::kNone));
  auto started = repo.begin_start();
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(loads.begins(name));
  EXPECT_FALSE(loads.is_inside("d"));
  loads.release("b");
  EXPECT_TRUE(loads.begins("d"));
  EXPECT_TRUE(repo.becomes("a/1 LOADING\nb/1 READY\nc/1 LOADING\nd/ LOADING\n"));
  EXPECT_EQ(started.wait_for(0s), std::future_status::timeout);
  for (const char* name : {"a", "c", "d"}) loads.release(name);
  EXPECT_TRUE(started.get().ok());
  EXPECT_EQ(loads.most_at_once(), 3u);
}

constexpr const char* kOfA = "engine: pipeline\ndag: {nodes: [{model: a}]}";

TEST(ParallelLoads, AtTheStartAPipelineFollowsItsNodesAndNoOthers) {
  test::Disk disk({{"a/1/model.onnx", "a"},
                   {"slow/1/model.onnx", "a"},
                   {"0/model.yaml", kOfA},
                   {"1/model.yaml", "engine: pipeline\ndag: {nodes: [{model: slow}]}"}});
  HeldLoads loads;
  loads.hold("a"), loads.hold("slow");
  auto options = with_threads(2, Control::kNone);
  options.strict = true;
  HeldRepo repo(disk, loads, std::move(options));
  auto started = repo.begin_start();
  ASSERT_TRUE(loads.begins("a") && loads.begins("slow"));
  EXPECT_TRUE(repo.becomes("0/ LOADING\n1/ LOADING\na/ LOADING\nslow/ LOADING\n"));
  loads.release("a");
  EXPECT_TRUE(repo.becomes("0/1 READY\n1/ LOADING\na/1 READY\nslow/1 LOADING\n"));
  loads.release("slow");
  EXPECT_TRUE(started.get().ok());
  EXPECT_EQ(repo.rows(), "0/1 READY\n1/1 READY\na/1 READY\nslow/1 READY\n");
}

TEST(ParallelLoads, AStrictStartSaysTheFirstFailureInOrderWhicheverIsTheFirstInTime) {
  test::Disk disk({{"a/1/model.onnx", "broken"}, {"b/1/model.onnx", "broken"}});
  HeldLoads loads;
  loads.hold("a");
  auto options = with_threads(2, Control::kNone);
  options.strict = true;
  HeldRepo repo(disk, loads, std::move(options));
  auto started = repo.begin_start();
  while (!repo.now() || repo.rows().find("b/1 UNAVAILABLE") == std::string::npos) std::this_thread::yield();
  loads.release("a");
  EXPECT_EQ(started.get().text, "model 'a': cannot parse a/1/model.onnx");
}

TEST(ParallelLoads, WhatIsAskedOfAModelThatIsBeingLoadedIsDoneAfterwardsInItsTurn) {
  test::Disk disk({{"m/1/model.onnx", "a"}});
  HeldLoads loads;
  HeldRepo repo(disk, loads, with_threads(4));
  ASSERT_TRUE(repo.repository->start().ok());
  loads.hold("m");
  auto first = repo.begin_load("m");
  ASSERT_TRUE(loads.begins("m"));
  auto again = repo.begin_load("m");
  auto away = repo.begin_unload("m");
  auto back = repo.begin_load("m");
  for (auto* later : {&again, &away, &back}) EXPECT_EQ(later->wait_for(10ms), std::future_status::timeout);
  loads.release("m");
  for (auto* one : {&first, &again, &away, &back}) EXPECT_TRUE(one->get().ok());
  EXPECT_TRUE(repo.now()->find("m", ""));
  EXPECT_EQ(loads.made("m"), 2) << "the second load found it loaded";
  EXPECT_FALSE(loads.overlapped());
}

TEST(ParallelLoads, WhatChangesOnDiskDuringALoadIsLoadedAfterwards) {
  test::Disk disk({{"m/1/model.onnx", "a"}});
  HeldLoads loads;
  HeldRepo repo(disk, loads, with_threads(2));
  ASSERT_TRUE(repo.repository->start().ok());
  loads.hold("m");
  auto loaded = repo.begin_load("m");
  ASSERT_TRUE(loads.begins("m"));
  disk.write("m/1/model.onnx", "b");
  auto scanned = repo.begin_rescan();
  EXPECT_EQ(scanned.wait_for(10ms), std::future_status::timeout);
  loads.release("m");
  EXPECT_TRUE(loaded.get().ok());
  scanned.get();
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.platform, "b");
}

TEST(ParallelLoads, AModelWhoseFolderGoesDuringItsLoadGoesAfterwards) {
  test::Disk disk({{"n/1/model.onnx", "a"}});
  HeldLoads loads;
  HeldRepo repo(disk, loads, with_threads(2, Control::kNone));
  ASSERT_TRUE(repo.repository->start().ok());
  disk.write("m/1/model.onnx", "a");
  loads.hold("m");
  auto came = repo.begin_rescan();
  ASSERT_TRUE(loads.begins("m"));
  disk.remove("m");
  auto went = repo.begin_rescan();
  EXPECT_EQ(went.wait_for(10ms), std::future_status::timeout);
  loads.release("m");
  came.get(), went.get();
  EXPECT_TRUE(repo.becomes("n/1 READY\n"));
}

TEST(ParallelLoads, PollingGoesOnBesideALoadThatHangsAndAsksForItOnce) {
  test::Disk disk({{"n/1/model.onnx", "a"}});
  HeldLoads loads;
  auto options = with_threads(2, Control::kPoll);
  options.poll_interval = 1ms;
  HeldRepo repo(disk, loads, std::move(options));
  ASSERT_TRUE(repo.repository->start().ok());
  loads.hold("m");
  disk.write("m/1/model.onnx", "a");
  ASSERT_TRUE(loads.begins("m"));
  disk.write("n/2/model.onnx", "b");
  while (repo.rows().find("n/2 READY") == std::string::npos) std::this_thread::yield();
  std::this_thread::sleep_for(50ms);  // many looks
  loads.release("m");
  EXPECT_TRUE(repo.becomes("m/1 READY\nn/2 READY\n"));
  EXPECT_EQ(loads.made("m"), 1);
}

TEST(ParallelLoads, TheEndTellsThoseThatRunAndRefusesTheRest) {
  test::Disk disk({{"a/1/model.onnx", "a"}, {"b/1/model.onnx", "a"}, {"c/1/model.onnx", "a"}});
  HeldLoads loads;
  HeldRepo repo(disk, loads, with_threads(2));
  ASSERT_TRUE(repo.repository->start().ok());
  for (const char* name : {"a", "b", "c"}) loads.hold(name);
  auto a = repo.begin_load("a"), b = repo.begin_load("b"), c = repo.begin_load("c");
  ASSERT_TRUE(loads.begins("a") && loads.begins("b"));
  EXPECT_TRUE(repo.repository->stop_within(20s));
  for (auto* one : {&a, &b, &c}) EXPECT_EQ(one->get().code, base::Code::kUnavailable);
  EXPECT_EQ(repo.load("a").code, base::Code::kUnavailable);
}

TEST(ParallelLoads, TheEndIsTheEndOfTheStartToo) {
  test::Disk disk({{"a/1/model.onnx", "a"}, {"b/1/model.onnx", "a"}, {"0/model.yaml", kOfA}});
  HeldLoads loads;
  loads.hold("a");
  HeldRepo repo(disk, loads, with_threads(1, Control::kNone));
  auto started = repo.begin_start();
  ASSERT_TRUE(loads.begins("a"));
  EXPECT_TRUE(repo.repository->stop_within(20s));
  (void)started.get();
  EXPECT_EQ(loads.made("b"), 0);
}

TEST(ParallelLoads, NothingStartsBehindTheEnd) {
  test::Disk disk({{"a/1/model.onnx", "a"}});
  HeldLoads loads;
  HeldRepo repo(disk, loads, with_threads(1, Control::kNone));
  repo.repository->stop();
  EXPECT_EQ(repo.repository->start().code, base::Code::kUnavailable);
  EXPECT_EQ(loads.made("a"), 0);
}

TEST(ParallelLoads, WhatIsReplacedEndsBesideAllElse) {
  test::Disk disk({{"m/1/model.onnx", "a"}, {"n/1/model.onnx", "a"}});
  HeldLoads loads;
  HeldRepo repo(disk, loads, with_threads(1));
  ASSERT_TRUE(repo.repository->start().ok());
  EXPECT_TRUE(repo.load("m").ok());
  loads.hold_ends("m");
  EXPECT_TRUE(repo.unload("m").ok());
  ASSERT_TRUE(loads.ends("m"));
  EXPECT_EQ(repo.rows(), "m/1 UNLOADING\nn/ UNAVAILABLE (not loaded)\n");
  EXPECT_TRUE(repo.load("n").ok());
  EXPECT_TRUE(repo.load("m").ok()) << "beside the one that ends";
  EXPECT_EQ(repo.rows(), "m/1 READY\nn/1 READY\n");
  loads.release_ends("m");
}

TEST(ParallelLoads, AVersionThatMakesWayKeepsNobodyElseWaiting) {
  test::Disk disk({{"m/1/model.onnx", "scarce"}, {"n/1/model.onnx", "a"}});
  HeldLoads loads;
  auto options = with_threads(2);
  options.startup = {"m"};
  HeldRepo repo(disk, loads, std::move(options));
  ASSERT_TRUE(repo.repository->start().ok());
  loads.hold_ends("m");
  disk.write("m/1/model.onnx", "scarce");
  auto reloaded = repo.begin_rescan();
  ASSERT_TRUE(loads.ends("m"));
  EXPECT_TRUE(repo.load("n").ok());
  EXPECT_TRUE(repo.unload("n").ok());
  EXPECT_EQ(reloaded.wait_for(10ms), std::future_status::timeout);
  loads.release_ends("m");
  reloaded.get();
  EXPECT_TRUE(repo.now()->find("m", ""));
  EXPECT_EQ(loads.made("m"), 2);
}

// "breaks" does so while it is being made.
TEST(ParallelLoads, AnEngineThatBreaksBeforeItsLoadHasEndedIsMadeAnew) {
  test::Disk disk({{"m/1/model.onnx", "a"}});
  HeldLoads loads;
  std::atomic<int> made{0};
  AnyRepo repo(disk,
               {{"onnx",
                 [&](const LoadArgs& args) {
                   if (++made == 1) {
                     args.broken(base::failure(base::Code::kUnavailable, "lost"));
                     std::this_thread::sleep_for(20ms);  // the repository's thread has heard of it
                   }
                   return loads.make(args);
                 }}},
               with_threads(2, Control::kNone));
  ASSERT_TRUE(repo.repository->start().ok());
  while (made < 2 || repo.rows() != "m/1 READY\n") std::this_thread::yield();
}

TEST(ParallelLoads, ABrokenModelIsLoadedAnewBesideALoadThatHangs) {
  test::Disk disk({{"m/1/model.onnx", "a"}});
  HeldLoads loads;
  std::mutex mutex;
  std::function<void(base::Status)> broken;
  AnyRepo repo(disk,
               {{"onnx",
                 [&](const LoadArgs& args) {
                   if (args.wanted.name == "m") {
                     std::lock_guard lock(mutex);
                     broken = args.broken;
                   }
                   return loads.make(args);
                 }}},
               with_threads(2, Control::kNone));
  ASSERT_TRUE(repo.repository->start().ok());
  loads.hold("slow");
  disk.write("slow/1/model.onnx", "a");
  repo.repository->rescan([] {});
  ASSERT_TRUE(loads.begins("slow"));
  {
    std::lock_guard lock(mutex);
    std::exchange(broken, nullptr)(base::failure(base::Code::kUnavailable, "lost"));
  }
  while (loads.made("m") < 2 || repo.rows() != "m/1 READY\nslow/1 LOADING\n") std::this_thread::yield();
  loads.release("slow");
}

TEST(ParallelLoads, OneThatWaitsForAnotherServerHasNoPlace) {
  test::Disk disk({{"a/model.yaml", "engine: there"}, {"b/model.yaml", "engine: there"}, {"c/1/model.onnx", "a"}});
  HeldLoads loads;
  auto there = [&](const LoadArgs& args) -> base::Result<Instance> {
    const auto aside = args.aside();
    return loads.make(args);
  };
  loads.hold("a"), loads.hold("b");
  AnyRepo repo(disk, {{"onnx", loads.maker()}, {"there", there}}, with_threads(2));
  ASSERT_TRUE(repo.repository->start().ok());
  std::promise<base::Status> a, b;
  repo.repository->load("a", {}, [&](auto status) { a.set_value(status); });
  repo.repository->load("b", {}, [&](auto status) { b.set_value(status); });
  ASSERT_TRUE(loads.begins("a") && loads.begins("b"));
  EXPECT_TRUE(repo.load("c").ok());
  loads.release("a"), loads.release("b");
  EXPECT_TRUE(a.get_future().get().ok());
  EXPECT_TRUE(b.get_future().get().ok());
}

TEST(ParallelLoads, OneThatWaitsForItsTurnHasNoPlace) {
  test::Disk disk({{"a/model.yaml", "engine: gpu"}, {"b/model.yaml", "engine: gpu"}, {"c/1/model.onnx", "a"}});
  HeldLoads loads;
  std::atomic<int> inside{0}, most{0};
  auto on_gpu = [&](const LoadArgs& args) -> base::Result<Instance> {
    const auto turn = args.turn("cuda:0");
    if (!turn) return base::failure(base::Code::kUnavailable, "nobody wants it");
    most = std::max<int>(most, ++inside);
    auto made = loads.make(args);
    --inside;
    return made;
  };
  loads.hold("a"), loads.hold("b");
  AnyRepo repo(disk, {{"onnx", loads.maker()}, {"gpu", on_gpu}}, with_threads(2));
  ASSERT_TRUE(repo.repository->start().ok());
  std::promise<base::Status> a, b;
  repo.repository->load("a", {}, [&](auto status) { a.set_value(status); });
  ASSERT_TRUE(loads.begins("a"));
  repo.repository->load("b", {}, [&](auto status) { b.set_value(status); });
  EXPECT_TRUE(repo.load("c").ok()) << "both places are taken, or one is given away";
  EXPECT_FALSE(loads.is_inside("b"));
  loads.release("b"), loads.release("a");
  EXPECT_TRUE(a.get_future().get().ok());
  EXPECT_TRUE(b.get_future().get().ok());
  EXPECT_EQ(most, 1);
}

// Whatever the order: loads of one model do not overlap, all is answered, and what is loaded last serves.
TEST(ParallelLoads, ManyRequestsOfManyClients) {
  test::Disk disk({{"a/1/model.onnx", "a"}, {"b/1/model.onnx", "a"}, {"p/model.yaml", kOfA}});
  HeldLoads loads;
  HeldRepo repo(disk, loads, with_threads(3));
  ASSERT_TRUE(repo.repository->start().ok());
  const std::string names[] = {"a", "b", "p"};
  auto client = [&](uint32_t seed) {
    std::minstd_rand random(seed);
    for (int i = 0; i < 60; ++i) {
      const auto& name = names[random() % 3];
      const auto what = random() % 8;
      if (what < 4)
        (void)repo.load(name);
      else if (what < 7)
        (void)repo.unload(name, what == 6 ? Repository::Dependents::kUnload : Repository::Dependents::kKeep);
      else
        repo.rescan();
    }
  };
  std::vector<std::thread> clients;
  for (uint32_t seed = 1; seed <= 4; ++seed) clients.emplace_back(client, seed);
  for (int i = 0; i < 30; ++i) {
    disk.write("a/1/model.onnx", std::string(1, char('a' + i % 26)));
    std::this_thread::sleep_for(2ms);
  }
  for (auto& thread : clients) thread.join();
  EXPECT_FALSE(loads.overlapped());
  for (const auto& name : names) EXPECT_TRUE(repo.load(name).ok()) << name;
  EXPECT_EQ(repo.rows(), "a/1 READY\nb/1 READY\np/1 READY\n");
  EXPECT_EQ((*repo.now()->find("a", ""))->spec.platform, std::string(1, char('a' + 29 % 26)));
}

}  // namespace
}  // namespace weir::models
