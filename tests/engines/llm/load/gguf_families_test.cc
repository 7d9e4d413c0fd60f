// The fields and tensors of GGUF files that one architecture alone has: what config.json they become. The numbers are
// compared in cpu/gguf_model_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "engines/llm/load/gguf_families.h"
#include "engines/llm/load/gguf_model.h"
#include "engines/llm/load/gguf_texts.h"
#include "engines/llm/load/shape.h"

namespace weir::llm {
namespace {

// Four layers of four heads of 16.
Gguf gguf_of(const std::string& architecture) {
  Gguf g;
  g.fields["general.architecture"] = architecture;
  const std::pair<const char*, int64_t> counts[] = {{".context_length", 64},      {".embedding_length", 64},
                                                    {".block_count", 4},          {".feed_forward_length", 32},
                                                    {".attention.head_count", 4}, {".attention.head_count_kv", 2}};
  for (const auto& [name, n] : counts) g.fields[architecture + name] = n;
  g.fields[architecture + ".attention.layer_norm_rms_epsilon"] = 1e-5;
  g.tensors["token_embd.weight"] = Array{Stored::kF32, {260, 64}};
  return g;
}

Shape shape_of(const Gguf& gguf) {
  auto config = config_of(gguf);
  EXPECT_TRUE(config) << config.error().text;
  auto shape = parse_shape(config ? *config : "{}");
  EXPECT_TRUE(shape) << shape.error().text;
  return shape ? *shape : Shape();
}

std::string refusal_of(const Gguf& gguf) {
  auto config = config_of(gguf);
  if (!config) return config.error().text;
  auto shape = parse_shape(*config);
  return shape ? "" : shape.error().text;
}

using Windows = std::vector<uint32_t>;

TEST(GgufFamilies, Gemma2SlidesInEveryOtherLayerAndCapsItsScores) {
  Gguf g = gguf_of("gemma2");
  Shape s = shape_of(g);
  EXPECT_EQ(s.architecture, "Gemma2ForCausalLM");
  EXPECT_FALSE(s.norms_less_one) << "llama.cpp's files have the norms' weights whole";
  EXPECT_EQ(s.windows, (Windows{4096, 0, 4096, 0}));
  EXPECT_EQ(s.attention_cap, 50);
  EXPECT_EQ(s.logits_cap, 30);
  EXPECT_FLOAT_EQ(s.score_scale(), 0.25f);
  EXPECT_EQ(s.head_dim, 16u);
  g.fields["gemma2.attention.sliding_window"] = int64_t(8);
  g.fields["gemma2.attn_logit_softcapping"] = 4.0;
  g.fields["gemma2.final_logit_softcapping"] = 3.0;
  g.fields["gemma2.rope.freq_base_swa"] = 10000.0;
  s = shape_of(g);
  EXPECT_EQ(s.windows, (Windows{8, 0, 8, 0}));
  EXPECT_EQ(s.attention_cap, 4);
  EXPECT_EQ(s.logits_cap, 3);
  g.fields["gemma2.final_logit_softcapping"] = 0.0;
  EXPECT_EQ(shape_of(g).logits_cap, 0) << "0 is said, and is no cap";
  g.fields["gemma2.rope.freq_base_swa"] = 5000.0;
  EXPECT_EQ(refusal_of(g), "GGUF: 'gemma2.rope.freq_base_swa' is not that of all layers");
}

TEST(GgufFamilies, TheLargestGemmasScaleTheirScoresByTheirWidth) {
  for (const auto& [architecture, layers] : {std::pair("gemma2", 46), std::pair("gemma3", 62)}) {
    Gguf g = gguf_of(architecture);
    g.fields[std::string(architecture) + ".attention.key_length"] = int64_t(32);
    EXPECT_FLOAT_EQ(shape_of(g).score_scale(), 1 / std::sqrt(32.0f));
    g.fields[std::string(architecture) + ".block_count"] = int64_t(layers);
    EXPECT_FLOAT_EQ(shape_of(g).score_scale(), 0.25f);
  }
}

TEST(GgufFamilies, Gemma3SaysWhichLayersSlideOrTheyAreFiveOfSix) {
  Gguf g = gguf_of("gemma3");
  EXPECT_EQ(shape_of(g).windows, (Windows{0, 0, 0, 0})) << "without a window none slides";
  g.fields["gemma3.attention.sliding_window"] = int64_t(8);
  g.fields["gemma3.block_count"] = int64_t(7);
  EXPECT_EQ(shape_of(g).windows, (Windows{8, 8, 8, 8, 8, 0, 8}));
  g.fields["gemma3.block_count"] = int64_t(4);
  const std::string pattern = "gemma3.attention.sliding_window_pattern";
  g.fields[pattern] = int64_t(3);
  EXPECT_EQ(shape_of(g).windows, (Windows{8, 8, 0, 8}));
  g.fields[pattern] = std::vector<int64_t>{0, 1, 1, 0};
  EXPECT_EQ(shape_of(g).windows, (Windows{0, 8, 8, 0}));
  g.fields[pattern] = std::vector<int64_t>{1, 1};
  EXPECT_EQ(refusal_of(g), "GGUF: '" + pattern + "' is not one for each layer");
  g.fields["gemma3.block_count"] = int64_t(1) << 22;
  g.fields[pattern] = std::vector<int64_t>(1 << 22, 1);
  EXPECT_EQ(refusal_of(g), "GGUF: '" + pattern + "' is not one for each layer");
}

TEST(GgufFamilies, Gemma3HasTwoRotaryBases) {
  Gguf g = gguf_of("gemma3");
  g.fields["gemma3.attention.sliding_window"] = int64_t(8);
  g.fields["gemma3.rope.freq_base"] = 1e6;
  g.fields["gemma3.rope.scaling.type"] = std::string("linear");
  g.fields["gemma3.rope.scaling.factor"] = 8.0;
  Shape s = shape_of(g);
  EXPECT_FLOAT_EQ(s.rope.frequencies[0], 1 / 8.0f);
  EXPECT_FLOAT_EQ(s.local_rope->frequencies[0], 1);
  EXPECT_FLOAT_EQ(s.local_rope->frequencies[4], 0.01f);
  EXPECT_EQ(s.max_length, 64u) << "the length has the factor already";
  g.fields["gemma3.rope.freq_base_swa"] = 16.0;
  EXPECT_FLOAT_EQ(shape_of(g).local_rope->frequencies[4], 0.25f);
}

TEST(GgufFamilies, Gemma3AsOllamaWritesItNeedsNoEpsilonAndNoPictures) {
  Gguf g = gguf_of("gemma3");
  g.fields.erase("gemma3.attention.layer_norm_rms_epsilon");
  g.fields["gemma3.rope.global.freq_base"] = 16.0;
  g.fields["gemma3.rope.local.freq_base"] = 256.0;
  g.fields["gemma3.attention.sliding_window"] = int64_t(8);
  g.tensors["v.blk.0.attn_q.weight"] = Array{Stored::kF32, {4, 4}};
  g.tensors["mm.mm_input_projection.weight"] = Array{Stored::kF32, {4, 4}};
  Shape s = shape_of(g);
  EXPECT_FLOAT_EQ(s.epsilon, 1e-6f);
  EXPECT_FLOAT_EQ(s.rope.frequencies[4], 0.25f);
  EXPECT_FLOAT_EQ(s.local_rope->frequencies[4], 1 / 16.0f);
  EXPECT_EQ(named_arrays(g)->size(), 1u);
  g.fields["gemma3.context_length"] = int64_t(131072);
  EXPECT_FLOAT_EQ(shape_of(g).rope.frequencies[0], 1 / 8.0f) << "the longer ones are stretched, which it does not say";
}

TEST(GgufFamilies, Phi3TurnsAPartOfItsHeadsByFactorsForShortAndForLongTexts) {
  Gguf g = gguf_of("phi3");
  g.fields["phi3.rope.dimension_count"] = int64_t(12);
  g.fields["phi3.attention.sliding_window"] = int64_t(8);
  Shape s = shape_of(g);
  EXPECT_EQ(s.rope.frequencies.size(), 6u);
  EXPECT_EQ(s.windows, (Windows{8, 8, 8, 8}));
  EXPECT_TRUE(s.fused);
  for (int64_t dims = 2; dims <= 16; dims += 2) {
    g.fields["phi3.rope.dimension_count"] = dims;
    EXPECT_EQ(shape_of(g).rope.frequencies.size(), size_t(dims / 2));
  }
  const float factors[] = {2, 2, 2, 2, 2, 2, 2, 2};
  const auto bytes = std::as_bytes(std::span(factors));
  g.fields["phi3.attention.sliding_window"] = int64_t(0);
  g.fields["phi3.rope.scaling.original_context_length"] = int64_t(32);
  g.fields["phi3.rope.scaling.attn_factor"] = 1.25;
  g.tensors["rope_factors_long.weight"] = Array{Stored::kF32, {8}, bytes};
  EXPECT_EQ(refusal_of(g), "GGUF: no tensor 'rope_factors_short.weight'");
  g.tensors["rope_factors_short.weight"] = Array{Stored::kF32, {4}, bytes.first(16)};
  s = shape_of(g);
  EXPECT_FLOAT_EQ(s.rope.frequencies[0], 0.5f);
  EXPECT_FLOAT_EQ(s.rope.scale, 1.25f);
  EXPECT_EQ(s.windows, (Windows{0, 0, 0, 0}));
  g.fields["phi3.rope.scaling.original_context_length"] = int64_t(64);
  EXPECT_NE(refusal_of(g).find("short_factor' is not a list of 8 numbers"), std::string::npos);
  g.tensors["rope_factors_short.weight"] = Array{Stored::kF16, {8}, bytes.first(16)};
  EXPECT_EQ(refusal_of(g), "GGUF: 'rope_factors_short.weight' is no list of factors");
}

TEST(GgufFamilies, GraniteHasScales) {
  Gguf g = gguf_of("granite");
  g.fields["granite.logit_scale"] = 7.0;
  Shape s = shape_of(g);
  EXPECT_EQ(s.logits_divisor, 7);
  EXPECT_EQ(s.embedding_scale, 1);
  EXPECT_FLOAT_EQ(s.score_scale(), 0.25f) << "the usual, where the file does not say it";
  g.fields["granite.embedding_scale"] = 12.0;
  g.fields["granite.residual_scale"] = 0.25;
  g.fields["granite.attention.scale"] = 0.125;
  s = shape_of(g);
  EXPECT_EQ(s.embedding_scale, 12);
  EXPECT_EQ(s.residual_scale, 0.25);
  EXPECT_EQ(s.score_scale(), 0.125);
  g.tensors["blk.0.attn_q.weight"] = Array{Stored::kF32, {64, 64}};
  EXPECT_EQ(named_arrays(g)->at("model.layers.0.self_attn.q_proj.weight").head_rows, 16u);
  g.fields["granite.rope.scaling.finetuned"] = false;
  EXPECT_EQ(refusal_of(g), "GGUF: 'granite.rope.scaling.finetuned' is false, which is not supported");
}

// Ollama's files are called gptoss, and do not say how their positions are scaled.
TEST(GgufFamilies, GptOssSlidesInEveryOtherLayerAndEndsNoAnswerWithAMessage) {
  for (const std::string name : {"gpt-oss", "gptoss"}) {
    Gguf g = gguf_of(name);
    g.fields[name + ".expert_count"] = int64_t(4), g.fields[name + ".expert_used_count"] = int64_t(2);
    g.fields[name + ".attention.key_length"] = int64_t(16);
    g.fields[name + ".attention.sliding_window"] = int64_t(8);
    g.fields[name + ".rope.scaling.factor"] = 4.0;
    g.fields[name + ".rope.scaling.original_context_length"] = int64_t(16);
    if (name == "gpt-oss") g.fields[name + ".rope.scaling.type"] = std::string("yarn");
    g.fields["tokenizer.ggml.tokens"] = std::vector<std::string>{"<|end|>", "<|return|>", "<|call|>", "a"};
    g.fields["tokenizer.ggml.token_type"] = std::vector<int64_t>{3, 3, 3, 1};
    g.tensors["blk.0.attn_q.bias"] = Array{Stored::kF32, {64}};
    g.tensors[name == "gpt-oss" ? "blk.0.attn_sinks.weight" : "blk.0.attn_sinks"] = Array{Stored::kF32, {4}};
    Shape s = shape_of(g);
    EXPECT_EQ(s.windows, (Windows{8, 0, 8, 0}));
    EXPECT_TRUE(s.qkv_bias && s.out_bias && s.sinks && s.experts->biased);
    EXPECT_EQ(s.eos_ids, (std::vector<uint32_t>{1, 2}));
    EXPECT_NEAR(s.rope.scale, 1 + 0.1 * std::log(4), 1e-6);
    const auto arrays = named_arrays(g);
    ASSERT_TRUE(arrays) << arrays.error().text;
    EXPECT_TRUE(arrays->contains("model.layers.0.self_attn.sinks.weight"));
  }
}

TEST(GgufFamilies, BiasesOfExpertsAreThoseOfEach) {
  Gguf g = gguf_of("gpt-oss");
  std::vector<float> bias(4 * 32);
  g.tensors["blk.1.ffn_gate_exps.bias"] = Array{Stored::kF32, {4, 32}, std::as_bytes(std::span(bias))};
  const auto arrays = named_arrays(g);
  ASSERT_TRUE(arrays) << arrays.error().text;
  EXPECT_EQ(arrays->at("model.layers.1.mlp.experts.3.gate_proj.bias").shape, (std::vector<uint64_t>{32}));
  for (const auto& shape : {std::vector<uint64_t>{4}, {4, 2, 16}, {0, 32}}) {
    g.tensors["blk.1.ffn_gate_exps.bias"].shape = shape;
    EXPECT_EQ(named_arrays(g).error().text, "GGUF: 'blk.1.ffn_gate_exps.bias' is not the experts of a layer");
  }
}

TEST(GgufFamilies, GraniteMoeAndTheFirstGemmaAreKnown) {
  Gguf g = gguf_of("granitemoe");
  g.fields["granitemoe.expert_count"] = int64_t(4), g.fields["granitemoe.expert_used_count"] = int64_t(2);
  g.fields["granitemoe.residual_scale"] = 0.25;
  EXPECT_EQ(shape_of(g).residual_scale, 0.25);
  EXPECT_EQ(shape_of(g).experts->count, 4u);
  g = gguf_of("gemma");
  Shape s = shape_of(g);
  EXPECT_EQ(s.architecture, "GemmaForCausalLM");
  EXPECT_EQ(s.embedding_scale, 8);
  EXPECT_EQ(s.head_dim, 16u);
  EXPECT_FALSE(s.norms_less_one);
}

TEST(GgufFamilies, OlmoWithAWindowIsTheThird) {
  Gguf g = gguf_of("olmo2");
  EXPECT_EQ(shape_of(g).architecture, "Olmo2ForCausalLM");
  g.fields["olmo2.attention.sliding_window"] = int64_t(8);
  Shape s = shape_of(g);
  EXPECT_EQ(s.architecture, "Olmo3ForCausalLM");
  EXPECT_EQ(s.windows, (Windows{8, 8, 8, 0}));
  g.fields["olmo2.attention.sliding_window_pattern"] = std::vector<int64_t>{1, 0, 1, 0};
  EXPECT_EQ(shape_of(g).windows, (Windows{8, 0, 8, 0}));
}

TEST(GgufFamilies, EveryFourthLayerOfSmolLm3DoesNotTurn) {
  EXPECT_EQ(shape_of(gguf_of("smollm3")).unturned, (std::vector<uint8_t>{0, 0, 0, 1}));
}

// config.json has no such numbers: they would be taken for fields that are not there.
TEST(GgufFamilies, NumbersThatAreNotFiniteAreRefused) {
  const std::pair<const char*, const char*> cases[] = {{"granite", "logit_scale"},
                                                       {"granite", "embedding_scale"},
                                                       {"granite", "attention.scale"},
                                                       {"gemma2", "final_logit_softcapping"},
                                                       {"gemma2", "attn_logit_softcapping"},
                                                       {"gemma3", "rope.freq_base_swa"},
                                                       {"llama", "attention.layer_norm_rms_epsilon"},
                                                       {"llama", "rope.freq_base"},
                                                       {"llama", "rope.scaling.factor"}};
  for (const auto& [architecture, field] : cases)
    for (double number : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
      Gguf g = gguf_of(architecture);
      const std::string name = std::string(architecture) + "." + field;
      g.fields[name] = number;
      EXPECT_EQ(refusal_of(g), "GGUF: '" + name + "' is no finite number");
    }
  Gguf g = gguf_of("llama");
  g.fields["llama.rope.scaling.type"] = std::string("yarn");
  g.fields["llama.rope.scaling.factor"] = 4.0;
  g.fields["llama.rope.scaling.attn_factor"] = 1.7e308;
  EXPECT_EQ(refusal_of(g), "GGUF: 'llama.rope.scaling.attn_factor' is out of range");
}

TEST(GgufFamilies, FieldsOfOtherFamiliesAreRefused) {
  for (auto field : {"attn_logit_softcapping", "final_logit_softcapping", "logit_scale", "embedding_scale",
                     "residual_scale", "attention.scale", "expert_weights_scale"}) {
    Gguf g = gguf_of("smollm3");
    g.fields[std::string("smollm3.") + field] = 2.0;
    EXPECT_EQ(refusal_of(g), "GGUF: 'smollm3." + std::string(field) + "' is not supported");
  }
  Gguf g = gguf_of("granite");
  g.fields["granite.expert_count"] = int64_t(8);
  EXPECT_EQ(refusal_of(g), "GGUF: 'granite.expert_count' is not supported");
}

TEST(GgufFamilies, TensorsHaveTheNamesOfTheirFamily) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"gemma2", "blk.3.ffn_norm.weight", "model.layers.3.pre_feedforward_layernorm.weight"},
      {"gemma3", "blk.3.post_attention_norm.weight", "model.layers.3.post_attention_layernorm.weight"},
      {"gemma3", "blk.3.attn_norm.weight", "model.layers.3.input_layernorm.weight"},
      {"olmo2", "blk.3.post_ffw_norm.weight", "model.layers.3.post_feedforward_layernorm.weight"},
      {"phi3", "blk.3.attn_qkv.weight", "model.layers.3.self_attn.qkv_proj.weight"},
      {"phi3", "blk.3.ffn_up.weight", "model.layers.3.mlp.gate_up_proj.weight"},
      {"smollm3", "blk.3.ffn_norm.weight", "model.layers.3.post_attention_layernorm.weight"},
  };
  for (const auto& [architecture, theirs, ours] : cases) {
    Gguf g = gguf_of(architecture);
    g.tensors[theirs] = Array{Stored::kF32, {64}};
    auto arrays = named_arrays(g);
    ASSERT_TRUE(arrays) << arrays.error().text;
    EXPECT_TRUE(arrays->contains(ours)) << theirs;
  }
  Gguf g = gguf_of("granite");
  g.tensors["v.blk.0.attn_q.weight"] = Array{Stored::kF32, {4, 4}};
  EXPECT_FALSE(named_arrays(g)) << "an encoder of pictures is left out where it is known";
}

}  // namespace
}  // namespace weir::llm
