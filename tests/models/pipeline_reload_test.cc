// A pipeline that is reloaded while a node of its new version is not there.
#include <gtest/gtest.h>

#include "pipeline_repo.h"

namespace weir::models {
namespace {

constexpr std::string_view kOfGone =
    "engine: pipeline\ndag: {nodes: [{model: first}, {name: last, model: gone, inputs: {x: y}}]}\n";

TEST(PipelineModel, AReloadThatNamesANodeThatIsNotThereLeavesWhatServesUntilItIs) {
  test::Disk disk;
  PipelineRepo repo(two(disk));
  auto* before = repo.served("a");
  disk.write("a/model.yaml", std::string(kOfGone));
  repo.rescan();
  EXPECT_EQ(repo.served("a"), before);
  EXPECT_NE(repo.rows().find("a/1 READY (the reload failed, what was loaded before serves on: node 'last': there is no "
                             "model 'gone')"),
            std::string::npos)
      << repo.rows();
  disk.write("first/1/model.onnx", "x y 4 3");
  repo.rescan();
  EXPECT_EQ(repo.tensors("a"), "3: x[-1,4] -> z[-1,4]") << "what serves has the nodes of now";
  EXPECT_NE(repo.rows().find("a/1 READY (the reload failed"), std::string::npos) << repo.rows();
  disk.write("gone/1/model.onnx", "x q 4 2");
  repo.rescan();
  EXPECT_EQ(repo.tensors("a"), "2: x[-1,4] -> q[-1,4]");
  disk.write("a/model.yaml", std::string(kTwo));
  repo.rescan();
  EXPECT_EQ(repo.tensors("a"), "3: x[-1,4] -> z[-1,4]");
}

TEST(PipelineModel, AReloadThatWaitsForANodeIsForgottenByTheNextOne) {
  test::Disk disk;
  PipelineRepo repo(two(disk));
  disk.write("a/model.yaml", std::string(kOfGone));
  repo.rescan();
  disk.write("a/model.yaml", std::string(kTwo));
  repo.rescan();
  EXPECT_EQ(repo.rows(), "a/1 READY\nfirst/1 READY\nsecond/1 READY\n");
  disk.write("gone/1/model.onnx", "x q 4 2");
  repo.rescan();
  EXPECT_EQ(repo.tensors("a"), "6: x[-1,4] -> z[-1,4]");
}

TEST(PipelineModel, WhatServesInPlaceOfAReloadLeavesWithItsNode) {
  test::Disk disk;
  PipelineRepo repo(two(disk));
  disk.write("a/model.yaml", std::string(kOfGone));
  repo.rescan();
  disk.remove("second");
  repo.rescan();
  EXPECT_EQ(repo.served("a"), nullptr);
  EXPECT_NE(repo.rows().find("a/1 UNAVAILABLE (node 'last': there is no model 'gone')"), std::string::npos)
      << repo.rows();
  disk.write("gone/1/model.onnx", "x q 4 2");
  repo.rescan();
  EXPECT_EQ(repo.tensors("a"), "2: x[-1,4] -> q[-1,4]");
}

TEST(PipelineModel, AModelThatIsToBecomeAPipelineServesUntilThatCanBeBuilt) {
  test::Disk disk;
  two(disk).write("m/1/model.onnx", "u v 7 0");
  PipelineRepo repo(disk);
  disk.write("m/model.yaml", std::string(kOfGone));
  repo.rescan();
  EXPECT_EQ(repo.tensors("m"), "0: u[7] -> v[7]");
  disk.write("gone/1/model.onnx", "x q 4 2");
  repo.rescan();
  EXPECT_EQ(repo.tensors("m"), "2: x[-1,4] -> q[-1,4]");
}

TEST(PipelineModel, AReloadThatWaitsForItsNodeMakesNoRing) {
  test::Disk disk;
  PipelineRepo repo(two(disk));
  disk.write("a/model.yaml", std::string(kOfGone));
  repo.rescan();
  disk.write("gone/model.yaml", "engine: pipeline\ndag: {nodes: [{model: a}]}");
  repo.rescan();
  EXPECT_EQ(repo.tensors("a"), "6: x[-1,4] -> z[-1,4]");
  EXPECT_NE(repo.rows().find("gone/1 UNAVAILABLE (node 'a': the pipeline would be a part of itself)"),
            std::string::npos)
      << repo.rows();
}

}  // namespace
}  // namespace weir::models
