// A model whose engine cannot go on is loaded again, or fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>

#include "disk.h"
#include "models/repository.h"
#include "support/few_descriptors.h"

namespace weir::models {
namespace {

using Health = sched::Engine::Health;

// An engine that breaks when the test says so.
class Breaking final : public sched::Engine {
 public:
  explicit Breaking(std::atomic<Health>& health) : health_(health) {
    spec_.inputs = {{"x", msg::DType::kFp32, {4}, false, {}}};
    spec_.outputs = {{"y", msg::DType::kFp32, {4}, false, {}}};
  }
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(sched::Batch&) override { return {}; }
  Health health() const override { return health_; }

 private:
  std::atomic<Health>& health_;
  msg::ModelSpec spec_;
};

class Shop {
 public:
  explicit Shop(test::Disk& disk, RepositoryOptions options = {}) {
    options.roots = {disk.root()};
    repository = std::make_unique<Repository>(
        options,
        std::map<std::string, EngineMaker>{{"onnx",
                                            [this](const LoadArgs& args) {
                                              std::lock_guard lock(mutex);
                                              ++made;
                                              breaks.push_back(args.broken);
                                              return base::Result<std::unique_ptr<sched::Engine>>(
                                                  std::make_unique<Breaking>(healths.emplace_back(Health::kTogether)));
                                            }}},
        base::heap(), [this](std::shared_ptr<const bus::Catalog> next, std::function<void()> settled) {
          {
            std::lock_guard lock(mutex);
            states.push_back(next->index.empty() ? bus::ModelState::kUnknown : next->index[0].state);
            reasons.push_back(next->index.empty() ? "" : next->index[0].reason);
            serves.push_back(next->models.contains("m"));
            catalog = std::move(next);
          }
          changed.notify_all();
          settled();
        });
  }
  // A copy, so that it can be called without the lock.
  std::function<void(base::Status)> break_of(size_t engine) {
    std::lock_guard lock(mutex);
    return breaks.at(engine);
  }
  template <class Until>
  void wait(Until until) {
    std::unique_lock lock(mutex);
    changed.wait(lock, until);
  }
  bool ready() const { return catalog->index.size() == 1 && catalog->index[0].state == bus::ModelState::kReady; }

  std::mutex mutex;
  std::condition_variable changed;
  int made = 0;
  std::deque<std::atomic<Health>> healths;
  std::vector<std::function<void(base::Status)>> breaks;
  std::vector<bus::ModelState> states;
  std::vector<std::string> reasons;
  std::vector<bool> serves;
  std::shared_ptr<const bus::Catalog> catalog;
  std::unique_ptr<Repository> repository;
};

base::Status lost() { return base::failure(base::Code::kUnavailable, "cuda:0: an illegal memory access"); }

TEST(BrokenModel, IsNotReadyAndThenLoadedAnew) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  Shop shop(disk);
  ASSERT_TRUE(shop.repository->start().ok());
  ASSERT_EQ(shop.made, 1);
  shop.break_of(0)(lost());
  shop.wait([&] { return shop.made == 2 && shop.ready(); });
  std::lock_guard lock(shop.mutex);
  auto at = std::find(shop.reasons.begin(), shop.reasons.end(), "cuda:0: an illegal memory access; it is loaded anew");
  ASSERT_NE(at, shop.reasons.end());
  EXPECT_EQ(shop.states[size_t(at - shop.reasons.begin())], bus::ModelState::kReturning);
}

TEST(BrokenModel, IsLoadedAnewAlsoWhereThereWasNoDescriptorForThat) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  Shop shop(disk);
  ASSERT_TRUE(shop.repository->start().ok());
  {
    test::FewDescriptors none(0);
    shop.break_of(0)(lost());
    for (int i = 0; i < 2; ++i) {  // the second is behind the first try
      std::promise<void> seen;
      shop.repository->rescan([&] { seen.set_value(); });
      seen.get_future().get();
    }
    std::lock_guard lock(shop.mutex);
    EXPECT_EQ(shop.made, 1);
  }
  shop.wait([&] { return shop.made == 2 && shop.ready(); });
}

TEST(BrokenModel, TakesThePipelinesThatItIsANodeOfAlongAndTheyReturnWithIt) {
  test::Disk disk;
  disk.write("a/model.yaml",
             "engine: pipeline\ndag:\n  type: sequential\n  nodes:\n"
             "    - {model: first}\n    - {model: second, inputs: {x: y}, outputs: {y: z}}\n");
  disk.write("first/1/model.onnx", "a");
  disk.write("second/1/model.onnx", "b");
  Shop shop(disk);
  ASSERT_TRUE(shop.repository->start().ok());
  ASSERT_EQ(shop.made, 2);
  shop.break_of(0)(lost());
  shop.wait([&] { return shop.made == 3 && shop.catalog->index[0].state == bus::ModelState::kReady; });
  std::lock_guard lock(shop.mutex);
  auto at = std::find_if(shop.reasons.begin(), shop.reasons.end(),
                         [](const auto& reason) { return reason.find("an illegal memory access") != reason.npos; });
  ASSERT_NE(at, shop.reasons.end());
  EXPECT_EQ(shop.states[size_t(at - shop.reasons.begin())], bus::ModelState::kReturning) << *at;
}

TEST(BrokenModel, ServesOnWithTheInstancesThatAreLeftUntilAllAreThereAgain) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  disk.write("m/model.yaml", "instances: 2\n");
  Shop shop(disk);
  ASSERT_TRUE(shop.repository->start().ok());
  ASSERT_EQ(shop.made, 2);
  size_t before;
  {
    std::lock_guard lock(shop.mutex);
    before = shop.serves.size();
    shop.healths[0] = Health::kLost, shop.healths[1] = Health::kAlive;
  }
  shop.break_of(0)(lost());
  shop.wait([&] { return shop.made == 4 && shop.ready() && shop.reasons.back().empty(); });
  {
    std::lock_guard lock(shop.mutex);
    EXPECT_EQ(std::count(shop.serves.begin() + ptrdiff_t(before), shop.serves.end(), false), 0);
    EXPECT_NE(std::find(shop.reasons.begin(), shop.reasons.end(),
                        "cuda:0: an illegal memory access; it is loaded anew, and its other instances serve on"),
              shop.reasons.end());
    shop.healths[2] = shop.healths[3] = Health::kLost;
  }
  shop.break_of(2)(lost());
  shop.wait([&] { return shop.made == 6 && shop.ready() && shop.reasons.back().empty(); });
  std::lock_guard lock(shop.mutex);
  EXPECT_NE(std::find(shop.states.begin(), shop.states.end(), bus::ModelState::kReturning), shop.states.end());
}

TEST(BrokenModel, IsNotLoadedAnewWhereItsConfigurationCameWithARequest) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  RepositoryOptions options;
  options.control = Control::kExplicit, options.allow_config_override = true;
  Shop shop(disk, options);
  ASSERT_TRUE(shop.repository->start().ok());
  std::promise<base::Status> loaded;
  shop.repository->load("m", {{"config", R"({"backend":"onnxruntime"})"}}, [&](auto s) { loaded.set_value(s); });
  auto status = loaded.get_future().get();
  ASSERT_TRUE(status.ok()) << status.text;
  shop.break_of(0)(lost());
  shop.wait([&] { return shop.reasons.back().starts_with("cuda:0: an illegal memory access"); });
  std::lock_guard lock(shop.mutex);
  EXPECT_EQ(shop.reasons.back(), "cuda:0: an illegal memory access; whoever loaded it has to load it again");
  EXPECT_EQ(shop.states.back(), bus::ModelState::kUnavailable);
}

// A load that brings no configuration would leave it so.
TEST(BrokenModel, IsLoadedAnewByAnyLoadWhereItsConfigurationCameWithOne) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  RepositoryOptions options;
  options.control = Control::kExplicit, options.allow_config_override = true;
  Shop shop(disk, options);
  ASSERT_TRUE(shop.repository->start().ok());
  const auto load = [&](LoadParameters parameters) {
    std::promise<base::Status> loaded;
    shop.repository->load("m", std::move(parameters), [&](auto s) { loaded.set_value(s); });
    return loaded.get_future().get();
  };
  ASSERT_TRUE(load({{"config", R"({"backend":"onnxruntime","instance_group":[{"count":2,"kind":"KIND_CPU"}]})"}}).ok());
  ASSERT_TRUE(load({}).ok());
  ASSERT_EQ(shop.made, 2) << "it is in force";
  shop.healths[0] = Health::kLost, shop.healths[1] = Health::kAlive;
  shop.break_of(0)(lost());
  shop.wait([&] { return shop.reasons.back().ends_with("and its other instances serve on"); });
  ASSERT_TRUE(load({}).ok());
  shop.wait([&] { return shop.reasons.back().empty(); });
  std::lock_guard lock(shop.mutex);
  EXPECT_EQ(shop.made, 3) << "one instance, as the folder says";
}

TEST(BrokenModel, WhatAnOldEngineSaysLateIsOfNoInterest) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  Shop shop(disk);
  ASSERT_TRUE(shop.repository->start().ok());
  shop.break_of(0)(lost());
  shop.wait([&] { return shop.made == 2 && shop.ready(); });
  shop.break_of(0)(lost());
  shop.break_of(0)(lost());
  std::promise<void> seen;
  shop.repository->rescan([&] { seen.set_value(); });  // behind them
  seen.get_future().get();
  std::lock_guard lock(shop.mutex);
  EXPECT_EQ(shop.made, 2);
  EXPECT_TRUE(shop.ready());
}

TEST(BrokenModel, MayBreakWhileTheRepositoryStops) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  Shop shop(disk);
  ASSERT_TRUE(shop.repository->start().ok());
  auto broken = shop.break_of(0);
  shop.repository->stop();
  broken(lost());
  shop.repository.reset();
  broken(lost());
}

}  // namespace
}  // namespace weir::models
