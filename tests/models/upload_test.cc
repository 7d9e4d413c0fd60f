// Models whose configuration, or whose files, come with a load request.
#include "models/upload.h"

#include "repository_fixture.h"

namespace weir::models {
namespace {

TEST(Upload, OverridesAreRefusedUnlessAllowed) {
  test::Disk disk({{"m/1/model.onnx", "a"}});
  Repo repo(disk, explicitly);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.load("m", {{"config", "{}"}}).code, base::Code::kPermissionDenied);
}

TEST(Upload, AConfigurationAndFilesCanComeWithTheLoad) {
  test::Disk disk({{"m/1/model.onnx", "a"}});
  Repo repo(disk, [](auto& o) { o.control = Control::kExplicit, o.allow_config_override = true; });
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_TRUE(repo.load("m", {{"config", R"({"max_batch_size":5})"}}).ok());
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.max_batch, 5u);
  EXPECT_TRUE(repo.load("m").ok());
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.max_batch, 5u) << "kept until the folder changes";
  disk.write("m/1/model.onnx", "broken");
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(repo.load("m").ok()) << i << ": a folder that does not load is tried again";
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.max_batch, 5u);
  disk.write("m/1/model.onnx", "longest");
  EXPECT_TRUE(repo.load("m").ok());
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.max_batch, 32u);
  EXPECT_TRUE(repo.load("m", {{"config", R"({"max_batch_size":6})"}}).ok());
  EXPECT_TRUE(repo.unload("m").ok());
  EXPECT_TRUE(repo.load("m").ok());
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.max_batch, 32u) << "it goes with the model";
  auto status = repo.load("m", {{"config", R"({"backend":"onnxruntime"})"}, {"file:7/model.onnx", "z"}});
  EXPECT_TRUE(status.ok()) << status.text;
  EXPECT_EQ(repo.rows(), "m/7 READY\n");
  EXPECT_TRUE(repo.load("m").ok());  // back to what lies in the repository
  EXPECT_EQ(repo.rows(), "m/1 READY\n");
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.max_batch, 32u);
  for (const char* bad : {"file:../x", "file:1/../../x", "file:model.onnx", "file:0/x", "fil"})
    EXPECT_EQ(repo.load("m", {{"config", "{}"}, {bad, "z"}}).code, base::Code::kInvalidArgument) << bad;
  EXPECT_EQ(repo.load("m", {{"file:1/model.onnx", "z"}}).code, base::Code::kInvalidArgument);
  for (const char* config : {R"({"backend":"python"})", "{}"})
    EXPECT_EQ(repo.load("m", {{"config", config}, {"file:1/model.py", "z"}}).code, base::Code::kInvalidArgument)
        << "a program: " << config;
  const char* elsewhere = R"({"backend":"forward","parameters":{"key_file":{"string_value":"/a/secret"}}})";
  EXPECT_NE(repo.load("m", {{"config", elsewhere}}).text.find("engine forward"), std::string::npos);
  EXPECT_EQ(repo.load("m", {{"config", "{"}}).code, base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace weir::models
