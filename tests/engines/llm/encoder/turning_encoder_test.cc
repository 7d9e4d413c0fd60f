// Encoders whose heads turn, nomic-bert and ModernBERT: what their config.json says, and what is refused. Their numbers
// are in encoder_test.cc.
#include <nlohmann/json.hpp>

#include "device/devices.h"
#include "engines/llm/cuda/device_bert.h"
#include "engines/llm/cuda/reference.h"
#include "engines/llm/encoder/bert_shape.h"
#include "engines/llm/encoder/classifier.h"
#include "support.h"

namespace weir::llm {
namespace {

using nlohmann::json;

json nomic() {
  return {{"architectures", {"NomicBertModel"}},
          {"vocab_size", 160},
          {"n_embd", 64},
          {"n_layer", 2},
          {"n_head", 4},
          {"n_inner", 96},
          {"activation_function", "swiglu"},
          {"n_positions", 8192},
          {"max_trained_positions", 2048},
          {"rotary_emb_base", 1000},
          {"rotary_scaling_factor", nullptr},
          {"layer_norm_epsilon", 1e-12},
          {"type_vocab_size", 2}};
}

json modern() {
  return {{"architectures", {"ModernBertModel"}},
          {"vocab_size", 160},
          {"hidden_size", 64},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 4},
          {"intermediate_size", 96},
          {"max_position_embeddings", 8192},
          {"global_attn_every_n_layers", 3},
          {"local_attention", 128},
          {"global_rope_theta", 160000.0},
          {"local_rope_theta", 10000.0}};
}

TEST(TurningEncoders, NomicBertTurnsAndItsScalingShortensIt) {
  json said = nomic();
  auto shape = parse_bert_shape(said.dump());
  ASSERT_TRUE(shape) << shape.error().text;
  EXPECT_EQ(shape->max_length(), 8192u);
  ASSERT_EQ(shape->rope.frequencies.size(), 8u);
  EXPECT_NEAR(shape->rope.frequencies[1], std::pow(1000, -2.0 / 16), 1e-7);
  EXPECT_TRUE(shape->gated && !shape->biased && !shape->norms_first && shape->reaches.empty());
  said["rotary_scaling_factor"] = 2;
  EXPECT_EQ(parse_bert_shape(said.dump())->max_length(), 2048u);
}

TEST(TurningEncoders, ModernBertSeesPositionsNearbyInMostLayers) {
  json said = modern();
  auto shape = parse_bert_shape(said.dump());
  ASSERT_TRUE(shape) << shape.error().text;
  EXPECT_EQ(shape->reaches, (std::vector<uint32_t>{0, 64, 64, 0}));
  EXPECT_FLOAT_EQ(shape->epsilon, 1e-5f);
  EXPECT_EQ(shape->types, 0u);
  said["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
  said["rope_parameters"] = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 5000.0}}},
                             {"sliding_attention", {{"rope_theta", 300.0}}}};
  shape = parse_bert_shape(said.dump());
  ASSERT_TRUE(shape) << shape.error().text;
  EXPECT_EQ(shape->reaches, (std::vector<uint32_t>{64, 0, 64, 0}));
  EXPECT_NEAR(shape->rope.frequencies[1], std::pow(5000, -2.0 / 16), 1e-7);
  EXPECT_NEAR(shape->local_rope->frequencies[1], std::pow(300, -2.0 / 16), 1e-7);
}

TEST(TurningEncoders, WhatWouldChangeAnswersIsRefused) {
  struct Case {
    json said;
    const char *field, *value, *why;
  };
  const Case cases[] = {
      {nomic(), "prenorm", "true", "'prenorm' is not supported"},
      {nomic(), "qkv_proj_bias", "true", "'qkv_proj_bias' is not supported"},
      {nomic(), "rotary_emb_fraction", "0.5", "'rotary_emb_fraction' is not 1"},
      {nomic(), "activation_function", "\"gelu\"", "'activation_function' is not swiglu"},
      {nomic(), "n_head", "64", "heads of an odd size"},
      {nomic(), "n_positions", "1000000000", "'n_positions' is not a whole number from 1 to"},
      {nomic(), "rotary_emb_base", "0", "'rotary_emb_base' is out of range"},
      {modern(), "norm_bias", "true", "'norm_bias' is not supported"},
      {modern(), "hidden_activation", "\"silu\"", "'hidden_activation' is no kind of gelu"},
      {modern(), "hidden_activation", "\"swiglu\"", "'hidden_activation' is no kind of gelu"},
      {modern(), "local_attention", "4294967295", "'local_attention' is not a whole number"},
      {modern(), "global_attn_every_n_layers", "0", "'global_attn_every_n_layers' is not a whole number"},
      {modern(), "layer_types", "[\"full_attention\"]", "'layer_types' is not full_attention or"},
      {modern(), "layer_types", "\"full_attention\"", "'layer_types' is not full_attention or"},
      {modern(), "rope_parameters", R"({"full_attention": {"rope_type": "yarn"}})", "has no rope_type default"},
      {modern(), "rope_parameters", R"({"full_attention": {"rope_theta": "1"}})", "rope_theta that is out of range"},
      {modern(), "rope_parameters", R"({"full_attention": 7})", "has no rope_type default"},
  };
  for (const Case& c : cases) {
    json said = c.said;
    said[c.field] = json::parse(c.value);
    auto shape = parse_bert_shape(said.dump());
    ASSERT_FALSE(shape) << c.field << " " << c.value;
    EXPECT_NE(shape.error().text.find(c.why), std::string::npos) << shape.error().text;
  }
}

TEST(TurningEncoders, TheHeadOfModernBertIsReadAndRefused) {
  json said = modern();
  said["architectures"] = {"ModernBertForSequenceClassification"};
  auto shape = parse_classifier(said.dump());
  ASSERT_TRUE(shape) << shape.error().text;
  EXPECT_EQ(shape->pooling, Pooling::kFirst);
  EXPECT_EQ(shape->norm, "head.norm");
  for (auto [field, value] : {std::pair("classifier_pooling", "max"), std::pair("classifier_activation", "relu")}) {
    json other = said;
    other[field] = value;
    EXPECT_EQ(parse_classifier(other.dump()).error().code, base::Code::kUnimplemented) << field;
  }
}

TEST(TurningEncoders, DevicesRefuseThem) {
  device::Devices devices({device::DeviceOptions::Use::kOff});
  auto device = devices.find("host");
  ASSERT_TRUE(device);
  for (const json& said : {nomic(), modern()}) {
    auto status = cuda::DeviceBert::check(*parse_bert_shape(said.dump()), **device, cuda::reference::table());
    EXPECT_EQ(status.code, base::Code::kUnimplemented);
    EXPECT_NE(status.text.find("use device: cpu"), std::string::npos) << status.text;
  }
}

}  // namespace
}  // namespace weir::llm
