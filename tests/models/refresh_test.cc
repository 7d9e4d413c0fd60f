// Folders that the server itself writes, of models of other nodes.
#include <future>
#include <thread>

#include "held_loads.h"
#include "repository_fixture.h"
#include "support/few_descriptors.h"

namespace weir::models {
namespace {

// Nodes of a cluster may name thousands of models.
TEST(Repository, TheEndDoesNotWaitForFoldersOfOthers) {
  test::Disk disk;
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i) {
    names.push_back("m" + std::to_string(i));
    disk.write(names.back() + "/1/model.onnx", "a");
  }
  std::promise<void> begun, go;
  std::atomic<int> loads{0};
  auto maker = [&](const LoadArgs& args) -> base::Result<Instance> {
    if (++loads == 1) begun.set_value(), go.get_future().wait();
    auto engine = make_fake(args);
    if (!engine) return engine.error();
    return Instance(std::move(*engine));
  };
  RepositoryOptions options;
  options.roots = {disk.root()};
  options.control = Control::kExplicit;
  options.load_threads = 1;
  Repository repository(std::move(options), {{"onnx", maker}}, base::heap(),
                        [](std::shared_ptr<const bus::Catalog>, std::function<void()> settled) { settled(); });
  ASSERT_TRUE(repository.start().ok());
  for (int i = 0; i < 100; ++i) repository.refresh(disk.root(), names);
  begun.get_future().wait();
  auto stopped = std::async(std::launch::async, [&] { repository.stop(); });
  std::atomic<bool> refused{false};
  while (!refused)
    repository.load("m0", {}, [&](const base::Status& status) {
      if (status.code == base::Code::kUnavailable) refused = true;
    });
  go.set_value();
  stopped.get();
  EXPECT_LE(loads, 2);
}

TEST(Repository, TheEndRefusesWhatWaitsBehindALoadAndTellsTheEngine) {
  test::Disk disk({{"slow/1/model.onnx", "a"}, {"m/1/model.onnx", "a"}});
  std::promise<void> begun, go;
  std::atomic<int> others{0};
  std::atomic<bool> wanted{true};
  auto maker = [&](const LoadArgs& args) -> base::Result<Instance> {
    if (args.wanted.name != "slow") return ++others, base::invalid("nobody waits for it");
    begun.set_value(), go.get_future().wait();
    wanted = args.loading();
    return base::failure(base::Code::kUnavailable, "stopped");
  };
  RepositoryOptions options;
  options.roots = {disk.root()};
  options.control = Control::kExplicit;
  options.load_threads = 1;
  Repository repository(std::move(options), {{"onnx", maker}}, base::heap(),
                        [](std::shared_ptr<const bus::Catalog>, std::function<void()> settled) { settled(); });
  ASSERT_TRUE(repository.start().ok());
  repository.load("slow", {}, [](const base::Status&) {});
  begun.get_future().wait();
  std::vector<base::Code> codes;
  auto note = [&](const base::Status& status) { codes.push_back(status.code); };
  repository.load("m", {}, note);
  repository.unload("m", Repository::Dependents::kKeep, note);
  repository.refresh(disk.root(), {"m"});
  EXPECT_FALSE(repository.stop_within(std::chrono::milliseconds(1)));
  go.set_value();
  repository.stop();
  EXPECT_EQ(codes, (std::vector<base::Code>{base::Code::kUnavailable, base::Code::kUnavailable}));
  EXPECT_EQ(others, 0);
  EXPECT_FALSE(wanted);
}

TEST(Repository, FoldersOfOthersAreLoadedOnceHoweverOftenTheyAreNamed) {
  test::Disk disk;
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) {
    names.push_back("m" + std::to_string(i));
    disk.write(names.back() + "/1/model.onnx", "a");
  }
  Repo repo(disk, [](RepositoryOptions& o) { o.control = Control::kExplicit; });
  ASSERT_TRUE(repo.repository->start().ok());
  const int before = made;
  for (int i = 0; i < 50; ++i) repo.repository->refresh(disk.root(), names);
  while (repo.now()->models.size() < names.size()) continue;
  EXPECT_EQ(int(names.size()), made - before);
}

// A node that hangs keeps the load of its model, and no place of other models' folders.
TEST(Repository, RefreshesOfAModelWhoseLoadHangsDelayNoOthers) {
  test::Disk disk({{"hangs/1/model.onnx", "a"}, {"m/1/model.onnx", "a"}});
  HeldLoads loads;
  HeldRepo repo(disk, loads, with_threads(2));
  ASSERT_TRUE(repo.repository->start().ok());
  loads.hold("hangs");
  repo.repository->refresh(disk.root(), {"hangs"});
  ASSERT_TRUE(loads.begins("hangs"));
  repo.repository->refresh(disk.root(), {"hangs"});
  repo.rescan();  // the thread has seen that one
  disk.write("hangs/1/model.onnx", "b");
  repo.repository->refresh(disk.root(), {"hangs", "m"});
  EXPECT_TRUE(repo.becomes("hangs/1 LOADING\nm/1 READY\n")) << repo.rows();
  loads.release("hangs");
  EXPECT_TRUE(repo.becomes("hangs/1 READY\nm/1 READY\n"));
  for (int i = 0; i < 2000 && loads.made("hangs") < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(loads.made("hangs"), 2) << "and what came meanwhile is taken";
}

TEST(Repository, RefreshesOfAModelWhoseLoadHasNotBegunCountAsOne) {
  test::Disk disk(
      {{"hangs/1/model.onnx", "a"}, {"m/1/model.onnx", "a"}, {"x/1/model.onnx", "a"}, {"y/1/model.onnx", "a"}});
  HeldLoads loads;
  HeldRepo repo(disk, loads, with_threads(2));
  ASSERT_TRUE(repo.repository->start().ok());
  for (const char* model : {"x", "y", "hangs"}) loads.hold(model);
  auto x = repo.begin_load("x"), y = repo.begin_load("y");
  ASSERT_TRUE(loads.begins("x") && loads.begins("y"));
  for (int i = 0; i < 2; ++i) {
    repo.repository->refresh(disk.root(), {"hangs"});
    EXPECT_EQ(repo.unload("zebra").code, base::Code::kNotFound) << "and the thread has seen the refresh";
  }
  repo.repository->refresh(disk.root(), {"m"});
  loads.release("x");
  ASSERT_TRUE(loads.begins("hangs"));
  loads.release("y");
  EXPECT_TRUE(repo.becomes("hangs/1 LOADING\nm/1 READY\nx/1 READY\ny/1 READY\n")) << repo.rows();
  loads.release("hangs");
  EXPECT_TRUE(repo.becomes("hangs/1 READY\nm/1 READY\nx/1 READY\ny/1 READY\n")) << repo.rows();
  EXPECT_TRUE(x.get().ok() && y.get().ok());
}

TEST(Repository, ARefreshWithoutDescriptorsTakesNothingAwayAndIsMadeUpFor) {
  test::Disk disk({{"m/1/model.onnx", "a"}});
  Repo repo(disk, [](RepositoryOptions& o) { o.control = Control::kExplicit, o.startup = {"m"}; });
  ASSERT_TRUE(repo.repository->start().ok());
  disk.write("m/2/model.onnx", "b");
  disk.write("n/1/model.onnx", "c");
  const int before = made;
  {
    test::FewDescriptors none(0);
    repo.repository->refresh(disk.root(), {"m", "n"});
    EXPECT_EQ(repo.load("m").code, base::Code::kUnavailable) << "and behind the refresh";
    EXPECT_EQ(repo.rows(), "m/1 READY\n");
  }
  while (repo.rows() != "m/2 READY\nn/1 READY\n") std::this_thread::yield();
  EXPECT_EQ(made, before + 2);
}

}  // namespace
}  // namespace weir::models
