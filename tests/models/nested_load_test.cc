// Models that load and unload others while they are being loaded.
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "held_loads.h"
#include "repository_fixture.h"

namespace weir::models {
namespace {

using namespace std::chrono_literals;

// A model "load.b" of engine "asking" loads "b" while it is loaded, and "unload.b" unloads it.
class AskingRepo {
 public:
  explicit AskingRepo(test::Disk& disk, const Change& change = explicitly, EngineMaker onnx = make_fake)
      : repo_(disk, {{"onnx", std::move(onnx)}, {"asking", [this](const LoadArgs& args) { return make(args); }}},
              options_with(change)) {
    EXPECT_TRUE(repo_.repository->start().ok());
  }
  AnyRepo& operator*() { return repo_; }
  AnyRepo* operator->() { return &repo_; }

 private:
  base::Result<Instance> make(const LoadArgs& args) {
    const std::string& name = args.wanted.name;
    const std::string other = name.substr(name.find('.') + 1);
    auto outcome = std::make_shared<std::promise<base::Status>>();
    auto done = [outcome](base::Status status) { outcome->set_value(std::move(status)); };
    if (name.starts_with("unload."))
      repo_.repository->unload(other, Repository::Dependents::kKeep, done, name);
    else
      repo_.repository->load(other, {}, done, {name, args.made});
    auto answer = outcome->get_future();
    if (answer.wait_for(10s) != std::future_status::ready)
      return base::failure(base::Code::kDeadlineExceeded, "nobody has answered");
    if (auto status = answer.get(); !status.ok()) return status;
    std::unique_ptr<sched::Engine> engine(new FakeEngine(args, "b"));
    return Instance(std::move(engine));
  }

  AnyRepo repo_;
};

constexpr const char* kAsking = "engine: asking\n";

TEST(NestedLoad, AModelLoadsAnotherAndIsLoadedThen) {
  test::Disk disk({{"load.leaf/model.yaml", kAsking}, {"leaf/1/model.onnx", "1"}});
  AskingRepo repo(disk);
  EXPECT_TRUE(repo->load("load.leaf").ok());
  EXPECT_EQ(repo->rows(), "leaf/1 READY\nload.leaf/1 READY\n");
}

TEST(NestedLoad, ModelsLieInEachOther) {
  test::Disk disk(
      {{"load.load.leaf/model.yaml", kAsking}, {"load.leaf/model.yaml", kAsking}, {"leaf/1/model.onnx", "1"}});
  AskingRepo repo(disk, [](RepositoryOptions& options) {
    explicitly(options);
    options.load_threads = 1;  // one place is enough
  });
  EXPECT_TRUE(repo->load("load.load.leaf").ok());
  EXPECT_TRUE(repo->now()->find("load.leaf", ""));
  EXPECT_TRUE(repo->now()->find("leaf", ""));
}

TEST(NestedLoad, AModelWaitsForOneThatIsLoadedForOthersAlready) {
  test::Disk disk({{"load.leaf/model.yaml", kAsking}, {"leaf/1/model.onnx", "1"}});
  HeldLoads loads;
  AskingRepo repo(disk, explicitly, loads.maker());
  loads.hold("leaf");
  std::promise<base::Status> leaf, asking;
  repo->repository->load("leaf", {}, [&](auto status) { leaf.set_value(status); });
  ASSERT_TRUE(loads.begins("leaf"));
  repo->repository->load("load.leaf", {}, [&](auto status) { asking.set_value(status); });
  auto asked = asking.get_future();
  EXPECT_EQ(asked.wait_for(20ms), std::future_status::timeout);
  loads.release("leaf");
  EXPECT_TRUE(leaf.get_future().get().ok());
  auto status = asked.get();
  EXPECT_TRUE(status.ok()) << status.text;
  EXPECT_EQ(loads.made("leaf"), 1);
}

// One of two that wait for each other is refused, and the other one fails with it: neither waits for good.
TEST(NestedLoad, ModelsThatAreLoadedAtOnceAndAskForEachOtherFail) {
  test::Disk disk({{"load.load.load.a/model.yaml", kAsking},
                   {"load.load.a/model.yaml", kAsking},
                   {"load.a/model.yaml", kAsking},
                   {"a/model.yaml", kAsking}});
  AskingRepo repo(disk, [](RepositoryOptions& options) {
    explicitly(options);
    options.startup = {"*"}, options.load_threads = 4;
  });
  EXPECT_EQ(repo->rows().find("READY"), std::string::npos) << repo->rows();
}

TEST(NestedLoad, AModelDoesNotWaitForItself) {
  test::Disk disk({{"load.load.a/model.yaml", kAsking}, {"load.a/model.yaml", kAsking}, {"a/model.yaml", kAsking}});
  AskingRepo repo(disk);
  for (const char* name : {"a", "load.a", "load.load.a"}) {  // "a" loads "a"
    auto status = repo->load(name);
    EXPECT_EQ(base::Code::kFailedPrecondition, status.code);
    EXPECT_NE(std::string::npos, status.text.find("model 'a' is being loaded")) << status.text;
  }
}

// One that serves may ask whenever it executes: no load waits for it.
TEST(NestedLoad, AModelThatServesReloadsItself) {
  test::Disk disk({{"leaf/1/model.onnx", "1"}});
  AskingRepo repo(disk);
  EXPECT_TRUE(repo->load("leaf").ok());
  disk.write("leaf/1/model.onnx", "2");
  const int before = made;
  auto status = repo->load("leaf", {}, {"leaf"});
  EXPECT_TRUE(status.ok()) << status.text;
  EXPECT_EQ(made - before, 1);
}

TEST(NestedLoad, AModelThatServesLoadsOneWhoseLoadLoadsIt) {
  test::Disk disk({{"load.leaf/model.yaml", kAsking}, {"leaf/1/model.onnx", "1"}});
  AskingRepo repo(disk);
  EXPECT_TRUE(repo->load("leaf").ok());
  auto status = repo->load("load.leaf", {}, {"leaf"});
  EXPECT_TRUE(status.ok()) << status.text;
}

// Its load that runs beside waits for the instances that come, not for those that ask.
TEST(NestedLoad, AModelThatServesMayAskWhileItIsReloaded) {
  test::Disk disk({{"load.leaf/model.yaml", kAsking}, {"leaf/1/model.onnx", "1"}});
  HeldLoads loads;
  std::shared_ptr<const std::atomic<bool>> first, now;
  AskingRepo repo(disk, explicitly, [&](const LoadArgs& args) {
    EXPECT_FALSE(args.made->load());
    now = args.made;
    return loads.make(args);
  });
  EXPECT_TRUE(repo->load("leaf").ok());
  first = now;
  ASSERT_TRUE(first->load());
  disk.write("leaf/1/model.onnx", "2");
  loads.hold("leaf");
  std::promise<base::Status> reload, asked;
  repo->repository->load("leaf", {}, [&](auto status) { reload.set_value(status); });
  ASSERT_TRUE(loads.begins("leaf"));
  repo->repository->load("load.leaf", {}, [&](auto status) { asked.set_value(status); }, {"leaf", first});
  auto answer = asked.get_future();
  EXPECT_EQ(answer.wait_for(50ms), std::future_status::timeout) << "it waits for the reload of leaf";
  loads.release("leaf");
  EXPECT_TRUE(reload.get_future().get().ok());
  auto status = answer.get();
  EXPECT_TRUE(status.ok()) << status.text;
}

// A load of the same model that is asked for at the same time comes after: it may be one that asks for the first model.
TEST(NestedLoad, NoOtherLoadComesBeforeTheOneThatAModelAsksFor) {
  test::Disk disk({{"leaf/1/model.onnx", "1"}, {"other/1/model.onnx", "1"}});
  std::promise<void> gates[2];
  std::atomic<int> begun{0};
  AskingRepo repo(disk, explicitly, [&](const LoadArgs& args) -> base::Result<Instance> {
    if (args.wanted.name == "other") gates[begun++].get_future().wait_for(20s);
    auto engine = make_fake(args);
    if (!engine) return engine.error();
    return Instance(*std::move(engine));
  });
  std::promise<void> asked_both;
  std::promise<base::Status> nested, client;
  repo->repository->load("leaf", {}, [&](auto) {  // on the repository's thread, which takes both at once then
    repo->repository->load("other", {}, [&](auto status) { nested.set_value(status); }, {"leaf"});
    repo->repository->load("other", {}, [&](auto status) { client.set_value(status); });
    asked_both.set_value();
  });
  asked_both.get_future().wait();
  for (int i = 0; i < 2000 && begun == 0; ++i) std::this_thread::sleep_for(5ms);
  disk.write("other/1/model.onnx", "2");  // so that the second load makes it again
  auto first = nested.get_future();
  auto second = client.get_future();
  gates[0].set_value();
  ASSERT_EQ(first.wait_for(10s), std::future_status::ready);
  EXPECT_TRUE(first.get().ok());
  EXPECT_EQ(second.wait_for(0s), std::future_status::timeout);
  gates[1].set_value();
  EXPECT_TRUE(second.get().ok());
}

TEST(NestedLoad, AModelUnloadsAnotherButNotItself) {
  test::Disk disk({{"unload.leaf/model.yaml", kAsking}, {"leaf/1/model.onnx", "1"}, {"unload.b/model.yaml", kAsking}});
  AskingRepo repo(disk);
  EXPECT_TRUE(repo->load("leaf").ok());
  EXPECT_TRUE(repo->load("unload.leaf").ok());
  EXPECT_FALSE(repo->now()->find("leaf", ""));
  EXPECT_FALSE(repo->load("unload.b").ok());
}

TEST(NestedLoad, TheRulesAreThoseOfTheRepositorysApi) {
  test::Disk disk({{"load.leaf/model.yaml", kAsking}, {"leaf/1/model.onnx", "1"}});
  for (auto [control, text] : {std::pair(Control::kNone, "models.control is 'none'"),
                               std::pair(Control::kDemand, "cannot load others while it is loaded itself")}) {
    AskingRepo repo(disk, [control = control](RepositoryOptions& o) { o.control = control; });
    EXPECT_NE(std::string::npos, repo->rows().find(text)) << repo->rows();
  }
}

TEST(NestedLoad, WhatCannotBeLoadedFailsTheOneThatAsks) {
  test::Disk disk({{"load.gone/model.yaml", kAsking}});
  AskingRepo repo(disk);
  auto status = repo->load("load.gone");
  EXPECT_NE(std::string::npos, status.text.find("no model 'gone'")) << status.text;
}

}  // namespace
}  // namespace weir::models
