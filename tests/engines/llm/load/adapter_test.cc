// Folders of adapters: what is refused, and in which words.
#include "engines/llm/load/adapter.h"

#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>

#include "engines/llm/cpu/transformer.h"
#include "engines/llm/support.h"

namespace weir::llm {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kModel =
    R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 160, "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2})";

// A safetensors file; the arrays are of 1s, or of `value`.
struct FileOf {
  std::map<std::string, std::vector<uint64_t>> shapes;
  std::string dtype = "F32";
  float value = 1;
  std::string bytes() const {
    json header = json::object();
    uint64_t at = 0;
    for (const auto& [name, shape] : shapes) {
      uint64_t size = dtype == "I8" ? 1 : 4;
      for (uint64_t d : shape) size *= d;
      header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {at, at + size}}};
      at += size;
    }
    const std::string text = header.dump();
    const uint64_t length = text.size();
    std::string out(8, 0);
    std::memcpy(out.data(), &length, 8);
    out += text;
    for (uint64_t i = 0; i < at / 4; ++i) out.append(reinterpret_cast<const char*>(&value), 4);
    return out;
  }
};

std::string array(uint32_t layer, const std::string& module, char which) {
  return "base_model.model.model.layers." + std::to_string(layer) + "." + module + ".lora_" + which + ".weight";
}

class AdapterFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(path / "adapters/sql");
    config = {{"peft_type", "LORA"}, {"r", 4}, {"lora_alpha", 8}, {"target_modules", {"q_proj", "v_proj"}}};
    for (uint32_t layer : {0u, 1u})
      for (auto [module, outputs] : {std::pair("self_attn.q_proj", 64), std::pair("self_attn.v_proj", 32)}) {
        file.shapes[array(layer, module, 'A')] = {4, 64};
        file.shapes[array(layer, module, 'B')] = {uint64_t(outputs), 4};
      }
  }
  void TearDown() override { std::filesystem::remove_all(path); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(path / "adapters/sql" / name, std::ios::binary) << text;
  }
  // Why it does not load; empty: it does.
  std::string why(const std::string& where = "adapters/sql") {
    if (write_config) write("adapter_config.json", config.dump());
    if (write_file) write("adapter_model.safetensors", file.bytes());
    const auto shape = parse_shape(kModel);
    auto adapter = Adapter::open(*Folder::open(path), where, *shape);
    if (!adapter) return adapter.error().text;
    ThreadTeam team(1);
    Model model;
    model.shape = *shape, model.form = WeightFormat::kBf16;
    auto weights = load_adapter(*adapter, model, team);
    return weights ? "" : weights.error().text;
  }

  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("weir_llm_adapter_" + std::to_string(getpid()));
  json config;
  FileOf file;
  bool write_config = true, write_file = true;
};

TEST_F(AdapterFolder, AGoodOneLoads) { EXPECT_EQ(why(), ""); }

TEST_F(AdapterFolder, WhatIsNotServedIsNamed) {
  const std::tuple<const char*, json, const char*> cases[] = {
      {"peft_type", "IA3", "'peft_type' is not LORA"},
      {"use_dora", true, "'use_dora' asks for DoRA"},
      {"bias", "lora_only", "'bias' is not none"},
      {"modules_to_save", {"lm_head"}, "'modules_to_save' names modules with weights of their own"},
      {"target_modules",
       {"q_proj", "lm_head"},
       "'target_modules' names 'lm_head': of this model adapters can change "
       "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj and down_proj"},
      {"target_modules", {"embed_tokens"}, "'target_modules' names 'embed_tokens'"},
      {"fan_in_fan_out", true, "'fan_in_fan_out'"},
      {"init_lora_weights", "pissa_niter_4", "'init_lora_weights' is pissa"},
      {"rank_pattern", {{"^model.*q_proj", 3}}, "'rank_pattern' has a regular expression"},
      {"r", 1000000000, "'r' is not a whole number from 1 to 1024"},
      {"r", 0, "'r' is not a whole number from 1 to 1024"},
      {"r", -4, "'r' is not a whole number from 1 to 1024"},
      {"rank_pattern", {{"q_proj", 1000000000}}, "'rank_pattern.q_proj' is not a whole number from 1 to 1024"},
      {"rank_pattern", {{"q_proj", 0}}, "'rank_pattern.q_proj' is not a whole number from 1 to 1024"},
      {"alpha_pattern", {{"q_proj", 1e300}}, "'alpha_pattern.q_proj' is out of range"},
      {"rank_pattern", {{"q_proj", 4}, {"self_attn.q_proj", 5}}, "'rank_pattern' has two values for one module"},
      {"lora_alpha", 1e300, "'lora_alpha' is out of range"},
      {"lora_alpha", nullptr, "'lora_alpha' is missing"},
      {"layers_to_transform", {0, "1"}, "'layers_to_transform' is neither the number of a layer nor a list of such"},
      {"target_modules", json::array(), "'target_modules' is not a list"}};
  for (const auto& [name, value, text] : cases) {
    const json before = config;
    config[name] = value;
    EXPECT_THAT(why(), HasSubstr(std::string("adapters/sql/adapter_config.json: ") + text)) << name;
    config = before;
  }
}

// Each dot of a key begins another end of a name, which another key may be.
TEST_F(AdapterFolder, AKeyOfManyPartsTakesNoLongTime) {
  std::string key;
  for (int i = 0; i < 200'000; ++i) key += "a.";
  config["rank_pattern"] = {{key + "q_proj", 4}};
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(why(), HasSubstr("'rank_pattern' has a key that is longer than 256 bytes"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(2));
}

TEST_F(AdapterFolder, ARankIsThatOfTheEndsOfItsModulesName) {
  for (auto [ends, rank] : {std::pair("layers.1.self_attn.q_proj", 2), std::pair("0.self_attn.q_proj", 3)}) {
    config["rank_pattern"][ends] = rank;
    const std::string module = "model.layers." + std::string(rank == 2 ? "1" : "0") + ".self_attn.q_proj";
    file.shapes["base_model.model." + module + ".lora_A.weight"] = {uint64_t(rank), 64};
    file.shapes["base_model.model." + module + ".lora_B.weight"] = {64, uint64_t(rank)};
  }
  config["rank_pattern"]["proj"] = 7;
  config["rank_pattern"]["ayers.0.self_attn.v_proj"] = 7;
  EXPECT_EQ(why(), "");
}

TEST_F(AdapterFolder, AConfigThatIsNoJsonIsNamed) {
  write_config = false;
  for (auto* text : {"", "{", R"({"r": NaN})", "\xff"}) {
    write("adapter_config.json", text);
    EXPECT_EQ(why(), "adapters/sql/adapter_config.json is not JSON") << text;
  }
  write("adapter_config.json", "[]");
  EXPECT_EQ(why(), "adapters/sql/adapter_config.json is no object");
}

TEST_F(AdapterFolder, AnArrayOfAnotherShapeIsNamedWithTheOneThatIsExpected) {
  file.shapes[array(1, "self_attn.v_proj", 'B')] = {64, 4};
  EXPECT_EQ(why(),
            "adapters/sql/adapter_model.safetensors: "
            "'base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight' has shape [64,4]; [32,4] is "
            "expected");
  file.shapes[array(1, "self_attn.v_proj", 'B')] = {32, 4};
  file.shapes[array(0, "self_attn.q_proj", 'A')] = {4, 64, 1};
  EXPECT_THAT(why(), HasSubstr("has shape [4,64,1]; [4,64] is expected"));
}

TEST_F(AdapterFolder, AnArrayThatIsMissingIsNamed) {
  auto whole = file.shapes;
  file.shapes.erase(array(1, "self_attn.q_proj", 'A'));
  EXPECT_THAT(why(), HasSubstr("the weights have no '" + array(1, "self_attn.q_proj", 'A') + "'; [4,64] is expected"));
  file.shapes = whole, file.shapes.erase(array(1, "self_attn.q_proj", 'B'));
  EXPECT_THAT(why(), HasSubstr("the weights have no '" + array(1, "self_attn.q_proj", 'B') + "'; [64,4] is expected"));
  file.shapes.erase(array(1, "self_attn.q_proj", 'A'));
  EXPECT_THAT(why(), HasSubstr("the weights have no '" + array(1, "self_attn.q_proj", 'A')));
  config["layers_to_transform"] = 0;
  EXPECT_EQ(why(), "");
  file.shapes.clear();
  EXPECT_THAT(why(), HasSubstr("there are no arrays in it"));
}

TEST_F(AdapterFolder, AnArrayThatChangesSomethingElseIsNamed) {
  for (auto* name :
       {"base_model.model.lm_head.lora_A.weight", "base_model.model.model.embed_tokens.lora_embedding_A",
        "base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.00.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.99999999999.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
        "base_model.model.model.layers.0.mlp.experts.0.gate_proj.lora_A.weight", "base_model.model.layers."}) {
    const auto before = file.shapes;
    file.shapes[name] = {4, 64};
    EXPECT_EQ(why(), "adapters/sql/adapter_model.safetensors: '" + std::string(name) +
                         "' is of nothing that an adapter can change");
    file.shapes = before;
  }
}

TEST_F(AdapterFolder, NumbersThatAreNoneAreNamed) {
  for (float bad : {NAN, INFINITY}) {
    file.value = bad;
    EXPECT_EQ(why(), "layer 0: lora_A of self_attn.q_proj has a number that is not finite");
  }
  file.value = 1e35f, config["lora_alpha"] = 1e6;
  EXPECT_EQ(why(), "layer 0: lora_B of self_attn.q_proj, times its scale, has a number that is not finite");
  file.value = -3.4e38f, config["lora_alpha"] = 4;  // no bfloat16 is so large
  EXPECT_EQ(why(), "layer 0: lora_A of self_attn.q_proj has a number that is not finite");
  file.value = 1, file.dtype = "I8";
  for (auto& [name, shape] : file.shapes) shape[0] *= 1;
  EXPECT_THAT(why(), HasSubstr("is not of type F32, F16 or BF16"));
}

TEST_F(AdapterFolder, AFileThatIsNotWhatItSaysIsNamed) {
  write_file = false;
  EXPECT_EQ(why(), "adapters/sql/adapter_model.safetensors: no file 'adapter_model.safetensors'");
  write("adapter_model.bin", "pickle");
  EXPECT_THAT(why(), HasSubstr("adapter_model.bin is not read: save it with safe_serialization=True"));
  write("adapter_model.safetensors", "");
  EXPECT_EQ(why(), "adapters/sql/adapter_model.safetensors: safetensors: the file is too short");
  std::string huge(8, 0);
  const uint64_t length = uint64_t(99) << 20;
  std::memcpy(huge.data(), &length, 8);
  write("adapter_model.safetensors", huge + "{}");
  EXPECT_THAT(why(), HasSubstr("its header has 103809024 bytes; an adapter's has 16777216 at most"));
  write("adapter_model.safetensors", file.bytes().substr(0, 600));
  EXPECT_THAT(why(), HasSubstr("safetensors: "));
}

TEST_F(AdapterFolder, ItsPathLeavesTheModelsFolderByNoWay) {
  EXPECT_EQ(why(), "");
  std::filesystem::create_directory_symlink(path / "adapters/sql", path / "link");
  EXPECT_EQ(why("link"), "link: 'link' is a link");
  for (auto* where : {"..", "adapters/../adapters/sql", "/tmp", "", "adapters//sql", "."})
    EXPECT_THAT(why(where), HasSubstr("is no name of a file")) << where;
  EXPECT_EQ(why("adapters/none"), "adapters/none: there is no such folder beside the model's own files");
}

}  // namespace
}  // namespace weir::llm
