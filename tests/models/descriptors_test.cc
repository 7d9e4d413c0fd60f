// Folders that cannot be read, for want of descriptors or of the volume that they lie on, are neither gone nor changed.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "models/root_scan.h"
#include "repository_fixture.h"
#include "support/few_descriptors.h"

namespace weir::models {
namespace {

TEST(Repository, AScanWithoutDescriptorsTakesNothingAway) {
  test::Disk disk({{"m/1/model.onnx", "a"}, {"m/2/model.onnx", "b"}, {"n/1/model.onnx", "c"}});
  Repo repo(disk, [](auto& o) { o.control = Control::kPoll, o.poll_interval = std::chrono::hours(1); });
  EXPECT_TRUE(repo.repository->start().ok());
  const std::string before = repo.rows();
  const int made_before = made;
  for (int left : {0, 1}) {
    test::FewDescriptors few(left);
    for (int i = 0; i < 3; ++i) repo.rescan();
    EXPECT_EQ(repo.rows(), before) << left;
  }
  EXPECT_EQ(made, made_before) << "nothing is loaded anew";
  disk.remove("n");
  repo.rescan();
  while (repo.rows() != "m/2 READY\n") std::this_thread::yield();  // its last version goes a moment later
}

TEST(Repository, ALoadWithoutDescriptorsTakesNothingAway) {
  test::Disk disk({{"m/1/model.onnx", "a"}});
  Repo repo(disk, [](auto& o) { o.control = Control::kExplicit, o.startup = {"m"}; });
  EXPECT_TRUE(repo.repository->start().ok());
  test::FewDescriptors none(0);
  auto status = repo.load("m");
  EXPECT_EQ(status.code, base::Code::kUnavailable) << status.text;
  EXPECT_TRUE(base::worth_trying_again(status));
  EXPECT_EQ(repo.rows(), "m/1 READY\n");
}

// As the folder below a volume that is no longer mounted: nobody has taken the models away.
TEST(Repository, ARootThatTurnsUpEmptyTakesNothingAwayUntilSomebodySaysSo) {
  for (const bool comes_back : {true, false}) {
    test::Disk first, disk({{"repo/m/1/model.onnx", "a"}});
    Repo repo(first, [&](auto& o) {
      o.roots = {disk.root() + "/repo"};
      o.control = Control::kPoll, o.poll_interval = std::chrono::milliseconds(1);
    });
    EXPECT_TRUE(repo.repository->start().ok());
    const std::string before = repo.rows();
    std::filesystem::rename(disk.root() + "/repo", disk.root() + "/elsewhere");
    while (repo.repository->trouble().empty()) std::this_thread::yield();  // it is not there
    std::filesystem::create_directory(disk.root() + "/repo");
    while (repo.repository->trouble().find("is empty, and had ") == std::string::npos) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(repo.rows(), before);
    if (comes_back) {
      std::filesystem::remove(disk.root() + "/repo");
      std::filesystem::rename(disk.root() + "/elsewhere", disk.root() + "/repo");
      while (!repo.repository->trouble().empty()) std::this_thread::yield();
      EXPECT_EQ(repo.rows(), before);
    } else {
      repo.rescan();
      while (!repo.rows().empty()) std::this_thread::yield();
      EXPECT_EQ(repo.repository->trouble(), "");
    }
  }
}

TEST(RootScan, ModelsThatAreTakenOutOfTheFolderAreGone) {
  using Settle = Watch::Settle;
  test::Disk disk({{"m/1/model.onnx", "a"}, {"n/1/model.onnx", "b"}});
  RootScan scan({disk.root()});
  EXPECT_EQ(scan.scan(Settle::kYes)->folders.size(), 2u);
  disk.remove("m"), disk.remove("n");
  EXPECT_TRUE(scan.scan(Settle::kYes)->folders.empty());
}

TEST(RootScan, ARootThatIsNotBelievedKeepsItsModelsAndTheOthersGoOn) {
  using Settle = Watch::Settle;
  test::Disk disk({{"one/m/1/model.onnx", "a"}, {"two/n/1/model.onnx", "b"}});
  const std::string two = disk.root() + "/two";
  RootScan scan({disk.root() + "/one", two});
  const auto names = [&](Settle settle) {
    std::string out;
    auto found = scan.scan(settle);
    if (!found) return found.error().text;
    for (const auto& [name, folder] : found->folders) out += name;
    return out;
  };
  EXPECT_EQ(names(Settle::kNo), "mn");
  std::filesystem::rename(two, disk.root() + "/elsewhere");
  EXPECT_EQ(names(Settle::kYes), "mn") << "it is not there";
  std::filesystem::create_directory(two);
  disk.write("one/p/1/model.onnx", "c"), disk.remove("one/m");
  EXPECT_EQ(names(Settle::kYes), "np") << "it is empty";
  std::filesystem::remove(two);
  std::filesystem::rename(disk.root() + "/elsewhere", two);
  disk.write("two/q/1/model.onnx", "d");
  EXPECT_EQ(names(Settle::kYes), "npq");
  std::filesystem::rename(two, disk.root() + "/elsewhere");
  std::filesystem::create_directory(two);
  EXPECT_EQ(names(Settle::kNo), "p") << "somebody says so";
}

}  // namespace
}  // namespace weir::models
