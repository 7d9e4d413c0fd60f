#include "models/model_files.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "disk.h"
#include "models/gguf_files.h"

namespace weir::models {
namespace {

Stamps stamps(std::initializer_list<const char*> names) {
  Stamps out;
  for (auto* name : names) out.push_back({name});
  return out;
}

// "ENGINE FILE" or the error.
std::string chosen(std::initializer_list<const char*> names, ModelSource given = {}) {
  auto source = choose_source(std::move(given), stamps(names), "m/1/");
  return source ? source->engine + ' ' + source->file : source.error().text;
}

TEST(ModelFiles, TheFileSaysWhichEngineItIsFor) {
  EXPECT_EQ(chosen({"model.onnx"}), "onnx model.onnx");
  EXPECT_EQ(chosen({"config.json", "model.safetensors"}), "llm config.json");
  EXPECT_EQ(chosen({"model.py"}), "python model.py");
  EXPECT_EQ(chosen({"llama.gguf"}), "llm llama.gguf");
  EXPECT_EQ(chosen({"model.py", "weights.gguf"}), "python model.py") << "it may have a file of its own";
  EXPECT_EQ(chosen({"model.py", "weights.gguf"}, {"llm", ""}), "llm weights.gguf");
  EXPECT_EQ(chosen({"notes.txt"}), "no model file in m/1/ (looked for model.onnx, config.json, *.gguf and model.py)");
}

TEST(ModelFiles, AConfigurationsWordsComeFirst) {
  EXPECT_EQ(chosen({"llama.gguf"}, {"llm", ""}), "llm llama.gguf");
  EXPECT_EQ(chosen({"a.gguf", "b.gguf"}, {"", "b.gguf"}), "llm b.gguf");
  EXPECT_EQ(chosen({"net.onnx"}, {"", "net.onnx"}), "onnx net.onnx");
  EXPECT_EQ(chosen({"llama.gguf"}, {"onnx", ""}), "onnx model.onnx");
  EXPECT_EQ(chosen({}, {"identity", ""}), "identity ");
}

TEST(ModelFiles, OfSeveralGgufFilesOneHasToBeNamed) {
  EXPECT_EQ(chosen({"a-Q4.gguf", "a-Q8.gguf", "mmproj.gguf"}),
            "m/1/ has more than one model: a-Q4.gguf, a-Q8.gguf, …; leave one there, or say in model.yaml which: file: "
            "a-Q4.gguf");
  EXPECT_EQ(chosen({"a-00001-of-00002.gguf", "a-00002-of-00002.gguf"}), "llm a-00001-of-00002.gguf");
  EXPECT_EQ(chosen({"a-00001-of-00002.gguf", "b-00002-of-00002.gguf"}).substr(0, 28), "m/1/ has more than one model");
  EXPECT_EQ(chosen({"sub/a.gguf", "b.gguf"}), "llm b.gguf") << "of the folder itself";
}

// Repositories of GGUF files often have the original's config.json.
TEST(ModelFiles, AConfigurationWithoutItsWeightsIsNotTheModel) {
  EXPECT_EQ(chosen({"config.json", "a.gguf"}), "llm a.gguf");
  EXPECT_EQ(chosen({"a.gguf", "config.json", "model.safetensors"}), "llm config.json");
}

TEST(ModelFiles, AGgufFileOrAFolderWithOneIsAModel) {
  test::Disk disk({{"Qwen3 0.6B/Qwen3-Q8_0.gguf", "a"}, {"two/a.gguf", "a"}, {"two/b.gguf", "b"}});
  const std::string folder = disk.root() + "/Qwen3 0.6B";
  ASSERT_TRUE(is_one_model(folder));
  EXPECT_EQ(list_models(folder).value(), (std::vector<std::string>{"Qwen3_0.6B"}));
  EXPECT_EQ(read_model_folder(folder, "Qwen3_0.6B")->lone_file, "Qwen3-Q8_0.gguf");
  EXPECT_EQ(list_models(folder + "/Qwen3-Q8_0.gguf").value(), (std::vector<std::string>{"Qwen3-Q8_0"}));
  EXPECT_TRUE(is_one_model(disk.root() + "/two")) << "which of them is asked for when it is loaded";
  disk.write("three/a.gguf", "a");
  disk.write("three/m/1/model.onnx", "b");
  EXPECT_FALSE(is_one_model(disk.root() + "/three")) << "a repository, whatever lies in it";
}

TEST(ModelFiles, FilesBesideTheFoldersOfVersionsAreToBeMoved) {
  test::Disk disk({{"m/llama.gguf", "a"}});
  EXPECT_EQ(hint_to_move(*read_model_folder(disk.root(), "m")), "; move llama.gguf into m/1/");
}

}  // namespace
}  // namespace weir::models
