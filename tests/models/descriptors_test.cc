// Folders that cannot be read for want of descriptors are neither gone nor changed.
#include <gtest/gtest.h>

#include <thread>

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

}  // namespace
}  // namespace weir::models
