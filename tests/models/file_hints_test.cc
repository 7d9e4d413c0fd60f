#include "models/file_hints.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "disk.h"

namespace weir::models {
namespace {

using Files = std::map<std::string, std::string>;

// The hint for version 1 of a model that has these files.
std::string hint(const Files& files, const std::string& engine = "llm") {
  test::Disk disk;
  for (const auto& [name, content] : files) disk.write("m/1/" + name, content);
  auto folder = read_model_folder(disk.root(), "m");
  return folder ? hint_of_files(*folder, 1, engine) : folder.error().text;
}

TEST(FileHints, APointerOfGitLfsIsNamed) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 132344\n";
  EXPECT_EQ(hint({{"config.json", "{}"}, {"model.safetensors", pointer}}),
            "; model.safetensors is a Git LFS pointer: run 'git lfs pull' where it was cloned");
  EXPECT_EQ(hint({{"model.onnx", pointer}}, "onnx"),
            "; model.onnx is a Git LFS pointer: run 'git lfs pull' where it was cloned");
  EXPECT_EQ(hint({{"model.onnx", pointer + std::string(1024, 'x')}}, "onnx"), "");
}

TEST(FileHints, PickledWeightsAreToBeConverted) {
  const Files alone{{"config.json", "{}"}, {"pytorch_model.bin", "x"}};
  EXPECT_NE(hint(alone).find("safetensors alone, not from pytorch_model.bin"), std::string::npos) << hint(alone);
  EXPECT_EQ(hint(alone, "python"), "") << "which may read them itself";
  EXPECT_EQ(hint({{"model.safetensors", "x"}, {"pytorch_model.bin", "x"}}), "");
}

TEST(FileHints, BackendsOfTritonAreToldWhatServesTheirModels) {
  EXPECT_NE(hint_of_engine("tensorrt_plan").find("export the model to ONNX"), std::string::npos);
  EXPECT_NE(hint_of_engine("vllm").find("backend: \"llm\""), std::string::npos);
  EXPECT_NE(hint_of_engine("my_backend").find("engine process"), std::string::npos);
}

}  // namespace
}  // namespace weir::models
