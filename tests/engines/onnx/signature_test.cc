// Specs derived from a graph's signature and a configuration; no library needed.
#include "engines/onnx/signature.h"

#include <gmock/gmock.h>

namespace weir::onnx {
namespace {

using msg::DType;
using msg::ModelSpec;
using msg::TensorSpec;
using testing::HasSubstr;

GraphTensor graph_tensor(std::string name, msg::Shape shape, std::string symbol = "", DType dtype = DType::kFp32) {
  return {.name = std::move(name), .dtype = dtype, .shape = shape, .first_symbol = std::move(symbol)};
}
TensorSpec listed(std::string name, msg::Shape shape = {}, DType dtype = DType::kInvalid) {
  return {.name = std::move(name), .dtype = dtype, .shape = shape, .labels = {}};
}

const Signature kBatched{{graph_tensor("x", {-1, 3}, "n")}, {graph_tensor("y", {-1, 10}, "n")}};
const Signature kWhole{{graph_tensor("x", {2, 3})}, {graph_tensor("y", {2})}};

ModelSpec derived(const Signature& file, const ModelSpec& wanted = {}) {
  auto spec = derive(file, wanted);
  EXPECT_TRUE(spec.has_value()) << spec.error().text;
  return spec ? *spec : ModelSpec();
}
std::string refusal(const Signature& file, const ModelSpec& wanted) {
  auto spec = derive(file, wanted);
  return spec ? "accepted" : spec.error().text;
}

TEST(OnnxSignature, AFreeFirstDimensionEverywhereIsABatch) {
  auto spec = derived(kBatched);
  EXPECT_EQ(spec.max_batch, kDefaultMaxBatch);
  EXPECT_EQ(spec.inputs[0].shape, (msg::Shape{3}));
  EXPECT_EQ(spec.outputs[0].shape, (msg::Shape{10}));
  EXPECT_EQ(derived(kWhole).max_batch, 0u);
  EXPECT_EQ(derived(kWhole).inputs[0].shape, (msg::Shape{2, 3}));
}

TEST(OnnxSignature, DimensionsOfDifferentNamesAreNoBatch) {
  EXPECT_EQ(derived({{graph_tensor("a", {-1, 2}, "n"), graph_tensor("b", {-1}, "m")}, {graph_tensor("y", {-1}, "n")}})
                .max_batch,
            0u);
  EXPECT_EQ(derived({{graph_tensor("a", {-1, 2}, "n")}, {graph_tensor("y", {-1}, "found")}}).max_batch, 0u);
  EXPECT_EQ(derived({{graph_tensor("a", {-1, 2}, "unk__3")}, {graph_tensor("y", {-1}, "unk__9")}}).max_batch,
            kDefaultMaxBatch);
  EXPECT_EQ(derived({{graph_tensor("a", {-1, 2}, "n")}, {graph_tensor("y", {-1})}}).max_batch, kDefaultMaxBatch);
  EXPECT_EQ(derived({{}, {graph_tensor("y", {-1})}}).max_batch, 0u) << "nothing to batch";
}

TEST(OnnxSignature, NamesThatExportersMakeUpAreNoNames) {
  EXPECT_EQ(derived({{graph_tensor("x", {-1, 3}, "DynamicDimension.0")},
                     {graph_tensor("y", {-1, 2}, "p2o.DynamicDimension.7")}})
                .max_batch,
            kDefaultMaxBatch);
  EXPECT_EQ(
      derived({{graph_tensor("x", {-1, 3}, "batch")}, {graph_tensor("y", {-1, 2}, "Softmaxoutput_dim_0")}}).max_batch,
      kDefaultMaxBatch);
}

TEST(OnnxSignature, SaysWhyAModelIsNotBatched) {
  EXPECT_EQ(unbatched(kBatched, {}), "");
  EXPECT_EQ(unbatched(kWhole, {}), "the first dimension of 'x' is not free: [2,3]");
  EXPECT_EQ(unbatched({{graph_tensor("a", {-1, 2}, "n")}, {graph_tensor("y", {-1}, "found")}}, {}),
            "the first dimension of 'a' is 'n', that of 'y' is 'found'");
}

TEST(OnnxSignature, TheConfigurationDecidesTheBatch) {
  ModelSpec wanted;
  wanted.max_batch = 32;
  EXPECT_EQ(derived(kBatched, wanted).max_batch, 32u);
  EXPECT_THAT(refusal(kWhole, wanted), HasSubstr("max_batch is 32, but input 'x' of the model file has shape [2,3]"));
  ModelSpec listed_whole;
  listed_whole.inputs = {listed("x", {-1, 3})};
  EXPECT_EQ(derived(kBatched, listed_whole).max_batch, 0u);
  EXPECT_EQ(derived(kBatched, listed_whole).outputs[0].shape, (msg::Shape{-1, 10}));
  ModelSpec explicit_zero;
  explicit_zero.parameters["max_batch"] = "0";
  EXPECT_EQ(derived(kBatched, explicit_zero).inputs[0].shape, (msg::Shape{-1, 3}));
}

TEST(OnnxSignature, NamesTypesAndDimensionsMustAgree) {
  ModelSpec wanted;
  wanted.max_batch = 4;
  wanted.inputs = {listed("x", {3}, DType::kFp32)};
  wanted.outputs = {listed("y", {-1}, DType::kFp32)};
  EXPECT_EQ(derived(kBatched, wanted).outputs[0].shape, (msg::Shape{10})) << "the file knows better than -1";
  auto with = [&](TensorSpec input) {
    auto w = wanted;
    w.inputs = {std::move(input)};
    return refusal(kBatched, w);
  };
  EXPECT_THAT(with(listed("z", {3})),
              HasSubstr("input 'z' of the configuration is not in the model file, which has 'x'"));
  EXPECT_THAT(with(listed("x", {3}, DType::kInt8)), HasSubstr("the configuration says INT8, the model file FP32"));
  EXPECT_THAT(with(listed("x", {4})), HasSubstr("the configuration says dimensions [4], the model file [3]"));
  EXPECT_THAT(with(listed("x", {1, 3})), HasSubstr("dimensions [1,3]"));
  wanted.inputs = {listed("x", {3}), listed("x", {3})};
  EXPECT_THAT(refusal(kBatched, wanted), HasSubstr("listed twice"));
}

TEST(OnnxSignature, ListedOrderStandsAndRequiredInputsMayNotBeLeftOut) {
  Signature file{{graph_tensor("a", {-1, 1}, "n"), graph_tensor("b", {-1, 2}, "n")},
                 {graph_tensor("p", {-1, 1}, "n"), graph_tensor("q", {-1, 1}, "n")}};
  ModelSpec wanted;
  wanted.max_batch = 2;
  wanted.inputs = {listed("b"), listed("a")};
  wanted.outputs = {listed("q")};
  wanted.outputs[0].labels = {"no", "yes"};
  auto spec = derived(file, wanted);
  EXPECT_EQ(spec.inputs[0].name, "b");
  EXPECT_EQ(spec.inputs[0].shape, (msg::Shape{2}));
  ASSERT_EQ(spec.outputs.size(), 1u);
  EXPECT_EQ(spec.outputs[0].labels.size(), 2u);
  wanted.inputs.pop_back();
  EXPECT_THAT(refusal(file, wanted), HasSubstr("leaves out 'a'"));
}

TEST(OnnxSignature, InputsWithDefaultsAreServedOnlyWhenListed) {
  Signature file{{graph_tensor("x", {-1, 3}, "n"), graph_tensor("bias", {3})}, {graph_tensor("y", {-1, 3}, "n")}};
  file.inputs[1].optional = true;
  EXPECT_EQ(derived(file).inputs.size(), 1u);
  EXPECT_EQ(derived(file).max_batch, kDefaultMaxBatch);
  ModelSpec wanted;
  wanted.inputs = {listed("x", {-1, 3}), listed("bias")};
  EXPECT_TRUE(derived(file, wanted).inputs[1].optional);
}

TEST(OnnxSignature, WhatCannotBeServedIsRefused) {
  Signature map_input{{graph_tensor("x", {-1}, "n", DType::kInvalid)}, {graph_tensor("y", {-1}, "n")}};
  EXPECT_THAT(refusal(map_input, {}), HasSubstr("input 'x' of the model file is no tensor"));
  Signature map_output{{graph_tensor("x", {-1}, "n")}, {graph_tensor("y", {}, "", DType::kInvalid)}};
  EXPECT_THAT(refusal(map_output, {}), HasSubstr("no output that can be served"));
}

}  // namespace
}  // namespace weir::onnx
