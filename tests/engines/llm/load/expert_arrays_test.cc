// Experts that lie in one array for each layer: what becomes of them, and of files that lie.
#include "engines/llm/load/expert_arrays.h"

#include "base/encoding.h"
#include "engines/llm/load/details.h"
#include "engines/llm/load/weight.h"
#include "support.h"

namespace weir::llm {
namespace {

constexpr const char* kMlp = "model.layers.0.mlp.";

std::string refusal_of(const std::string& name, const Array& array) {
  Arrays arrays{{name, array}};
  auto status = part_packed_experts(arrays);
  return status.ok() ? "" : status.text;
}

TEST(ExpertArrays, BecomeThoseOfEachExpert) {
  std::vector<float> both(2 * 4 * 3), down(2 * 2 * 3);
  for (size_t i = 0; i < both.size(); ++i) both[i] = float(i);
  for (size_t i = 0; i < down.size(); ++i) down[i] = float(100 + i);
  const std::string granite = "model.layers.3.block_sparse_moe.";
  Arrays arrays{{granite + "input_linear.weight", {Stored::kF32, {2, 4, 3}, std::as_bytes(std::span(both))}},
                {granite + "router.layer.weight", {Stored::kF32, {2, 3}}},
                {std::string(kMlp) + "experts.down_proj", {Stored::kF32, {2, 2, 3}, std::as_bytes(std::span(down))}},
                {std::string(kMlp) + "router.bias", {Stored::kF32, {2}}}};
  ASSERT_TRUE(part_packed_experts(arrays).ok());
  EXPECT_TRUE(arrays.contains("model.layers.3.mlp.gate.weight"));
  EXPECT_TRUE(arrays.contains("model.layers.0.mlp.gate.bias"));
  uint64_t numbers = 0;
  for (const auto& [name, array] : arrays) numbers += array.elements();
  EXPECT_EQ(numbers, both.size() + down.size() + 8) << "each number is there once";
  float row[6];
  const Array& up = arrays.at("model.layers.3.mlp.experts.1.up_proj.weight");
  EXPECT_EQ(up.shape, (std::vector<uint64_t>{2, 3}));
  read_floats(up, 0, 6, row);
  EXPECT_EQ(row[0], 18);
  const Array& swapped = arrays.at("model.layers.0.mlp.experts.1.down_proj.weight");
  EXPECT_EQ(swapped.shape, (std::vector<uint64_t>{3, 2}));
  read_floats(swapped, 0, 6, row);
  EXPECT_EQ(std::vector<float>(row, row + 6), (std::vector<float>{106, 109, 107, 110, 108, 111}));
  EXPECT_EQ(Weight(swapped).whole(), nullptr) << "its rows are no rows of the file";
}

TEST(ExpertArrays, WhatCannotBeIsNamed) {
  const std::string granite = "m.block_sparse_moe.input_linear.weight", blocks = "m.mlp.experts.down_proj_blocks",
                    bias = "m.mlp.experts.gate_up_proj_bias";
  for (const auto& [name, array] :
       {std::pair(granite, Array{Stored::kF32, {2, 3, 4}}), std::pair(granite, Array{Stored::kF32, {0, 2, 4}}),
        std::pair(granite, Array{Stored::kF32, {4096, 2, 4}}), std::pair(granite, Array{Stored::kF32, {2, 2}}),
        std::pair(granite, Array{Stored::kF32, {}}), std::pair(blocks, Array{Stored::kUint8, {2, 2, 16}}),
        std::pair(bias, Array{Stored::kF32, {2}}),
        std::pair(std::string(300, 'm') + granite, Array{Stored::kF32, {1, 2, 4}})})
    EXPECT_EQ(refusal_of(name, array), "'" + base::presentable(name, 100) + "' is not the experts of a layer");
  EXPECT_EQ(refusal_of("model.norm.weight", Array{Stored::kF32, {}}), "");
}

// Blocks and scales of a folder, of sizes and types that do not fit each other.
TEST(ExpertArrays, BlocksAndScalesThatDoNotFitAreNamed) {
  const auto folder = std::filesystem::temp_directory_path() / ("weir_mxfp4_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  auto refusal = [&](const std::string& blocks, const std::string& scales, uint32_t inputs, size_t bytes = 34) {
    std::string head =
        R"({"m.mlp.experts.down_proj_blocks":{)" + blocks + R"(},"m.mlp.experts.down_proj_scales":{)" + scales + "}}";
    head += std::string((8 - head.size() % 8) % 8, ' ');
    const uint64_t size = head.size();
    std::ofstream(folder / "model.safetensors", std::ios::binary)
        .write(reinterpret_cast<const char*>(&size), 8)
        .write(head.data(), std::streamsize(size))
        .write(std::string(bytes, '\1').data(), std::streamsize(bytes));
    auto store = Store::open(*Folder::open(folder.string()));
    if (!store) return store.error().text;
    auto weight = Weight::find(*store, {.method = QuantMethod::kMxfp4}, "m.mlp.experts.0.down_proj", 2, inputs);
    if (!weight) return weight.error().text;
    std::vector<float> row(inputs);
    weight->floats(1, row.data());
    return std::to_string(row[31]);
  };
  const std::string good = R"("dtype":"U8","shape":[2,2,1,16],"data_offsets":[0,64])",
                    one = R"("dtype":"U8","shape":[1,2,1,16],"data_offsets":[0,32])",
                    scales = R"("dtype":"U8","shape":[1,2,1],"data_offsets":[32,34])";
  EXPECT_NE(refusal(one, scales, 64).find("'m.mlp.experts.0.down_proj.blocks' has shape [2,1,16]; [2,2,16]"),
            std::string::npos);
  EXPECT_NE(refusal(one, scales, 33).find("no whole blocks of 32 inputs"), std::string::npos);
  EXPECT_NE(refusal(one, R"("dtype":"I8","shape":[1,2,1],"data_offsets":[32,34])", 32).find("is not of type U8"),
            std::string::npos);
  EXPECT_NE(refusal(one, R"("dtype":"U8","shape":[1,1,2],"data_offsets":[32,34])", 32).find("has shape [1,2]"),
            std::string::npos);
  EXPECT_NE(refusal(good, R"("dtype":"U8","shape":[1,2,1],"data_offsets":[64,66])", 32, 66).find("0.000000"),
            std::string::npos);
  const auto details =
      details_of(*Folder::open(folder.string()), R"({"quantization_config":{"quant_method":"mxfp4"}})");
  EXPECT_EQ(details->parameters, 128u) << "a byte has two numbers, and a scale is none";
  EXPECT_EQ(details->quantization, "MXFP4");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weir::llm
