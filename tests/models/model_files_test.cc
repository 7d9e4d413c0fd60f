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

TEST(ModelFiles, AnAdaptersWeightsAreNotTheModels) {
  constexpr const char* kAdapter = "adapters/x/adapter_model.safetensors";
  EXPECT_EQ(chosen({kAdapter, "a.gguf"}), "llm a.gguf");
  EXPECT_EQ(chosen({kAdapter, "a.gguf"}, {"llm", ""}), "llm a.gguf");
  EXPECT_EQ(chosen({kAdapter, "a.gguf", "config.json"}), "llm a.gguf");
  EXPECT_EQ(chosen({kAdapter, "config.json", "model.safetensors"}), "llm config.json");
}

TEST(ModelFiles, AFileThatBeginsAsGgufIsOneWhateverItIsCalled) {
  test::Disk disk({{"blobs/sha256-12", "GGUF and so on"},
                   {"blobs/sha256-34", "GGU"},
                   {"blobs/resnet.onnx", "x"},
                   {"q.gguf", "x"},
                   {"s/model.py", "GGUF = 1"}});
  const std::string blobs = disk.root() + "/blobs/";
  EXPECT_TRUE(is_gguf_file(blobs + "sha256-12"));
  EXPECT_TRUE(is_gguf_file(disk.root() + "/q.gguf")) << "what is wrong with it is for the engine to say";
  for (auto* other : {"sha256-34", "resnet.onnx", "none.gguf", ""}) EXPECT_FALSE(is_gguf_file(blobs + other)) << other;
  disk.link("llama.gguf", "blobs/sha256-12");
  auto source = [](const std::string& root, const char* name) {
    auto folder = read_model_folder(root, name);
    if (!folder) return folder.error().text;
    auto lone = lone_source(*folder, "");
    auto found = choose_source(std::move(lone), folder->versions.at(1), "m/1/");
    return found ? found->engine + ' ' + found->file : found.error().text;
  };
  EXPECT_EQ(source(disk.root() + "/llama.gguf", "llama"), "llm sha256-12");
  EXPECT_EQ(source(blobs + "sha256-12", "sha256-12"), "llm sha256-12");
  EXPECT_EQ(source(blobs + "resnet.onnx", "resnet"), "onnx resnet.onnx");
  EXPECT_EQ(source(disk.root() + "/q.gguf", "q"), "llm q.gguf");
  EXPECT_EQ(source(disk.root() + "/s", "s"), "python model.py");
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
