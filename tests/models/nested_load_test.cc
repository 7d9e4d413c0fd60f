// Models that load and unload others while they are being loaded.
#include <chrono>
#include <optional>

#include "repository_fixture.h"

namespace weir::models {
namespace {

using namespace std::chrono_literals;

void explicitly(RepositoryOptions& options) { options.control = Control::kExplicit; }

// A model "load.b" of engine "asking" loads "b" while it is loaded, and "unload.b" unloads it.
class AskingRepo {
 public:
  explicit AskingRepo(test::Disk& disk, const Change& change = explicitly)
      : repo_(disk, {{"onnx", make_fake}, {"asking", [this](const LoadArgs& args) { return make(args); }}},
              options_with(change)) {
    EXPECT_TRUE(repo_.repository->start().ok());
  }
  AnyRepo& operator*() { return repo_; }
  AnyRepo* operator->() { return &repo_; }

 private:
  base::Result<Instance> make(const LoadArgs& args) {
    const std::string& name = args.wanted.name;
    const std::string other = name.substr(name.find('.') + 1);
    auto outcome = std::make_shared<std::optional<base::Status>>();
    auto done = [outcome](base::Status status) { *outcome = std::move(status); };  // on this thread
    if (name.starts_with("unload."))
      repo_.repository->unload(other, Repository::Dependents::kKeep, done, Repository::Asks::kModel);
    else
      repo_.repository->load(other, {}, done, Repository::Asks::kModel);
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (!*outcome && std::chrono::steady_clock::now() < until) args.loading();
    if (!*outcome) return base::failure(base::Code::kDeadlineExceeded, "nobody has answered");
    if (!(*outcome)->ok()) return **outcome;
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
  AskingRepo repo(disk);
  EXPECT_TRUE(repo->load("load.load.leaf").ok());
  EXPECT_TRUE(repo->now()->find("load.leaf", ""));
  EXPECT_TRUE(repo->now()->find("leaf", ""));
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
