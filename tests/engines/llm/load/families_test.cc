// The fields of config.json that each family has for itself.
#include <gtest/gtest.h>

#include <cmath>

#include "device/host_device.h"
#include "engines/llm/cuda/choice.h"
#include "engines/llm/load/shape.h"

namespace weir::llm {
namespace {

// config.json of a small model of that architecture.
std::string small(const std::string& architecture, const std::string& more = {}) {
  return R"({"architectures":[")" + architecture +
         R"("],"vocab_size":32,"hidden_size":16,"intermediate_size":32,"num_hidden_layers":4,"num_attention_heads":4,
            "num_key_value_heads":2,"head_dim":4)" +
         more + "}";
}

Shape shape_of(const std::string& config) {
  auto shape = parse_shape(config);
  EXPECT_TRUE(bool(shape)) << shape.error().text;
  return shape ? *shape : Shape();
}

std::string refusal(const std::string& config) {
  auto shape = parse_shape(config);
  return shape ? "" : shape.error().text;
}

// As the published files of Gemma 3 have it.
TEST(Families, GemmasFilesLeaveOutWhatIsUsual) {
  auto s = shape_of(R"({"architectures":["Gemma3ForConditionalGeneration"],"eos_token_id":[1,106],
    "image_token_index":262144,"model_type":"gemma3","vision_config":{"hidden_size":1152,"image_size":896},
    "text_config":{"hidden_size":2560,"intermediate_size":10240,"model_type":"gemma3_text","num_hidden_layers":34,
                   "rope_scaling":{"factor":8.0,"rope_type":"linear"},"sliding_window":1024}})");
  EXPECT_EQ(s.architecture, "Gemma3ForCausalLM");
  EXPECT_EQ(s.vocabulary, 262208u);
  EXPECT_EQ(s.heads, 8u);
  EXPECT_EQ(s.kv_heads, 4u);
  EXPECT_EQ(s.head_dim, 256u);
  EXPECT_EQ(s.layers, 34u);
  EXPECT_EQ(s.max_length, 131072u) << "its rotary scaling is counted already";
  EXPECT_EQ(s.eos_ids, (std::vector<uint32_t>{1, 106}));
  EXPECT_TRUE(s.tied && s.qk_norm && !s.vision);
  EXPECT_FLOAT_EQ(s.score_scale(), 1 / 16.0f);
  EXPECT_EQ(s.windows[4], 1024u);
  EXPECT_EQ(s.windows[5], 0u);
  ASSERT_TRUE(s.local_rope);
  EXPECT_FLOAT_EQ(s.rope.frequencies[64], float(1e-3 / 8));
  EXPECT_FLOAT_EQ(s.local_rope->frequencies[64], 1e-2f);
  EXPECT_EQ(&s.rope_of(4), &*s.local_rope);
  EXPECT_EQ(&s.rope_of(5), &s.rope);
}

TEST(Families, RotaryPositionsMayBeSaidPerKindOfLayer) {
  auto s = shape_of(small("Gemma3ForCausalLM", R"(,"layer_types":["sliding_attention","full_attention",
    "sliding_attention","full_attention"],"rope_parameters":{"sliding_attention":{"rope_theta":400,
    "rope_type":"default"},"full_attention":{"rope_theta":10000,"rope_type":"linear","factor":2}})"));
  EXPECT_FLOAT_EQ(s.rope_of(0).frequencies[1], 1 / 20.0f);
  EXPECT_FLOAT_EQ(s.rope_of(1).frequencies[1], 1 / 200.0f);
}

TEST(Families, Gemma2CapsUnlessItsFileSaysOtherwise) {
  EXPECT_EQ(shape_of(small("Gemma2ForCausalLM")).attention_cap, 50);
  EXPECT_EQ(shape_of(small("Gemma2ForCausalLM")).logits_cap, 30);
  EXPECT_EQ(shape_of(small("Gemma3ForCausalLM")).logits_cap, 0);
  EXPECT_EQ(shape_of(small("Gemma2ForCausalLM")).windows, (std::vector<uint32_t>{4096, 0, 4096, 0}));
}

TEST(Families, LongTextsHaveFactorsOfTheirOwn) {
  const std::string config = small("Phi3ForCausalLM", R"(,"max_position_embeddings":4096,
    "original_max_position_embeddings":1024,"rope_scaling":{"type":"su","short_factor":[1,2],"long_factor":[4,5]})");
  auto of_context = [&](uint32_t context) { return parse_shape(config, context)->rope; };
  EXPECT_FLOAT_EQ(of_context(0).frequencies[0], 1 / 4.0f);
  EXPECT_FLOAT_EQ(of_context(1025).frequencies[0], 1 / 4.0f);
  EXPECT_FLOAT_EQ(of_context(1024).frequencies[0], 1);
  EXPECT_FLOAT_EQ(of_context(1024).frequencies[1], 1 / 200.0f);
  EXPECT_FLOAT_EQ(of_context(0).scale, std::sqrt(1.2f)) << "1 + ln 4 / ln 1024";
  EXPECT_FLOAT_EQ(of_context(1024).scale, std::sqrt(1.2f));
  EXPECT_EQ(shape_of(config).max_length, 4096u);
}

TEST(Families, LocalLayersOfOlmo3AreNotStretched) {
  auto s = shape_of(small("Olmo3ForCausalLM", R"(,"rope_theta":100,"rope_scaling":{"type":"linear","factor":2})"));
  EXPECT_EQ(s.windows, (std::vector<uint32_t>{4096, 4096, 4096, 0}));
  EXPECT_FLOAT_EQ(s.rope_of(0).frequencies[1], 1 / 10.0f);
  EXPECT_FLOAT_EQ(s.rope_of(3).frequencies[1], 1 / 20.0f);
}

TEST(Families, SmolLm3SaysWhichLayersTurn) {
  auto s = shape_of(small("SmolLM3ForCausalLM"));
  EXPECT_EQ(s.unturned, (std::vector<uint8_t>{0, 0, 0, 1}));
  EXPECT_TRUE(s.rope_of(3).frequencies.empty());
  s = shape_of(small("SmolLM3ForCausalLM", R"(,"no_rope_layers":[0,1,1,0],"use_sliding_window":true,
    "sliding_window":9)"));
  EXPECT_EQ(s.windows, (std::vector<uint32_t>{9, 0, 0, 9}));
  EXPECT_NE(refusal(small("SmolLM3ForCausalLM", R"(,"no_rope_layers":[1])")).find("'no_rope_layers'"),
            std::string::npos);
}

TEST(Families, HeadsOfPhi3MayTurnInPart) {
  EXPECT_EQ(shape_of(small("Phi3ForCausalLM", R"(,"partial_rotary_factor":0.5)")).rope.frequencies.size(), 1u);
  EXPECT_EQ(
      shape_of(small("Phi3ForCausalLM", R"(,"rope_parameters":{"partial_rotary_factor":0.5})")).rope.frequencies.size(),
      1u);
  EXPECT_NE(refusal(small("Phi3ForCausalLM", R"(,"partial_rotary_factor":0.25)")).find("odd"), std::string::npos);
  EXPECT_NE(refusal(small("LlamaForCausalLM", R"(,"partial_rotary_factor":0.5)")).find("'partial_rotary_factor'"),
            std::string::npos);
}

constexpr const char* kExperts = R"(,"num_local_experts":4,"num_experts_per_tok":2)";

TEST(Families, GptOssHasSinksBiasesAndAWindowInEveryOtherLayer) {
  Shape s = shape_of(small("GptOssForCausalLM", kExperts));
  EXPECT_TRUE(s.sinks && s.qkv_bias && s.out_bias && s.experts->biased && s.experts->normalised);
  EXPECT_EQ(s.windows, (std::vector<uint32_t>{128, 0, 128, 0}));
  EXPECT_EQ(s.experts->width, 32u);
  EXPECT_EQ(s.activation, Activation::kClampedSwiglu);
  const std::string said = std::string(kExperts) +
                           R"(,"layer_types":["full_attention","sliding_attention","full_attention","full_attention"])";
  EXPECT_EQ(shape_of(small("GptOssForCausalLM", said)).windows, (std::vector<uint32_t>{0, 128, 0, 0}));
  EXPECT_NE(refusal(small("GptOssForCausalLM", std::string(kExperts) + R"(,"swiglu_limit":5)")).find("'swiglu_limit'"),
            std::string::npos);
  EXPECT_NE(refusal(small("GptOssForCausalLM")).find("'num_local_experts' is missing"), std::string::npos);
}

TEST(Families, GraniteMoeScalesWhatItsExpertsAdd) {
  Shape s = shape_of(small("GraniteMoeForCausalLM", std::string(kExperts) + R"(,"residual_multiplier":0.25)"));
  EXPECT_EQ(s.residual_scale, 0.25f);
  EXPECT_EQ(s.experts->width, 32u);
  EXPECT_FALSE(s.experts->biased);
}

TEST(Families, TheFirstGemmaHasNormsOfInputsAlone) {
  Shape s = shape_of(small("GemmaForCausalLM", R"(,"hidden_act":"gelu","hidden_activation":null)"));
  EXPECT_EQ(s.norms, Norms::kInputs);
  EXPECT_EQ(s.activation, Activation::kGeluTanh);
  EXPECT_TRUE(s.norms_less_one && s.tied && !s.qk_norm);
  EXPECT_EQ(s.embedding_scale, 4);
  EXPECT_EQ(s.attention_cap, 0);
  EXPECT_NE(refusal(small("GemmaForCausalLM", R"(,"hidden_activation":"silu")")).find("'hidden_activation'"),
            std::string::npos);
}

TEST(Families, WhatWouldChangeAnswersIsRefused) {
  EXPECT_NE(refusal(small("Gemma3ForCausalLM", R"(,"hidden_activation":"silu")")).find("'hidden_activation'"),
            std::string::npos);
  EXPECT_NE(refusal(small("Phi3ForCausalLM", R"(,"rope_scaling":{"type":"longrope","short_factor":[1]})"))
                .find("'short_factor' is not a list of 2 numbers"),
            std::string::npos);
  EXPECT_NE(refusal(small("Gemma3nForCausalLM")).find("Gemma3ForConditionalGeneration (its text)"), std::string::npos);
}

TEST(Families, DevicesRefuseByNameWhatTheirKernelsDoNotDo) {
  device::HostDevice host;
  for (const char* family : {"Gemma2ForCausalLM", "Gemma3ForCausalLM", "Olmo2ForCausalLM", "GemmaForCausalLM"})
    EXPECT_TRUE(cuda::check_widths(shape_of(small(family)), host).ok()) << family;
  EXPECT_TRUE(cuda::check_widths(shape_of(small("GptOssForCausalLM", kExperts)), host).ok());
  Shape gelu = shape_of(small("LlamaForCausalLM"));
  gelu.activation = Activation::kGelu;
  const auto refused = cuda::check_widths(gelu, host);
  EXPECT_EQ(refused.code, base::Code::kUnimplemented);
  EXPECT_EQ(refused.text,
            "LlamaForCausalLM (gates by gelu itself) is not known to the kernels of devices; use device: cpu");
  EXPECT_TRUE(cuda::check_widths(shape_of(small("Phi3ForCausalLM", R"(,"partial_rotary_factor":0.5)")), host).ok());
  for (const char* family : {"Qwen3ForCausalLM", "Phi3ForCausalLM", "GraniteForCausalLM", "SmolLM3ForCausalLM"})
    EXPECT_TRUE(cuda::check_widths(shape_of(small(family)), host).ok()) << family;
  for (const char* family : {"MixtralForCausalLM", "GraniteMoeForCausalLM"})
    EXPECT_TRUE(cuda::check_widths(shape_of(small(family, kExperts)), host).ok()) << family;
}

TEST(Families, DevicesRefuseExpertsThatTheirKernelsDoNotTake) {
  device::HostDevice host;
  auto said = [&](uint32_t count, uint32_t used) {
    Shape s = shape_of(small("MixtralForCausalLM", kExperts));
    s.experts->count = count, s.experts->used = used;
    return cuda::check_widths(s, host).text;
  };
  EXPECT_EQ(said(1024, 32), "");
  EXPECT_NE(said(1025, 2).find("more than 1024 experts"), std::string::npos);
  EXPECT_NE(said(64, 33).find("more than 32 experts for a token"), std::string::npos);
}

}  // namespace
}  // namespace weir::llm
