// The parts under the forward pass: threads, packed products, what config.json may say, parameters.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "engines/llm/cpu/matrix.h"
#include "engines/llm/cpu/thread_team.h"
#include "engines/llm/cpu/weights.h"
#include "engines/llm/load/shape.h"
#include "engines/llm/options.h"

namespace weir::llm {
namespace {

TEST(Teams, WhatAPieceThrowsIsThrownToTheCallerOnceAllAreDone) {
  ThreadTeam team(4);
  for (int round = 0; round < 100; ++round) {
    std::atomic<uint32_t> done{0};
    EXPECT_THROW(team.run(64, 1,
                          [&](uint32_t from, uint32_t, uint32_t) {
                            ++done;
                            if (from % 7 == 0) throw std::bad_alloc();
                          }),
                 std::bad_alloc);
    EXPECT_EQ(done, 64u);
    team.run(64, 1, [&](uint32_t, uint32_t, uint32_t) { ++done; });
    EXPECT_EQ(done, 128u);
  }
}

// Also where there is one thread: between pieces it gives way to shards.
TEST(Teams, EveryPieceIsDoneOnceAndBeforeRunReturns) {
  ThreadTeam one(1), four(4);
  for (uint32_t round = 0; round < 6000; ++round) {
    ThreadTeam& team = round % 2 ? one : four;
    uint32_t count = round / 2 % 57, grain = 1 + round / 2 % 5;
    std::vector<std::atomic<int>> done(count);
    team.run(count, grain, [&](uint32_t from, uint32_t to, uint32_t thread) {
      EXPECT_LT(thread, team.size());
      EXPECT_LE(to - from, grain);
      for (uint32_t i = from; i < to; ++i) ++done[i];
    });
    for (auto& d : done) ASSERT_EQ(d.load(), 1);
  }
}

TEST(Products, AreTheSumsWhateverTheSizes) {
  ThreadTeam team(2);
  for (auto* name : {"portable", "avx2", "avx512", "avx512_bf16"})
    for (WeightFormat form : {WeightFormat::kF32, WeightFormat::kBf16})
      for (auto [outputs, inputs] : {std::pair(1u, 2u), std::pair(33u, 31u), std::pair(160u, 1100u)})
        for (uint32_t rows : {1u, 5u, 7u, 13u, 30u}) {
          auto* with = kernels(name);
          if (!with) continue;
          std::vector<float> w(size_t(outputs) * inputs), x(size_t(rows) * inputs);
          for (size_t i = 0; i < w.size(); ++i) w[i] = float(int(i * 37 % 17) - 8) / 8;  // exact in 16 bits
          for (size_t i = 0; i < x.size(); ++i) x[i] = float(int(i * 53 % 13) - 6) / 4;
          Array array{Stored::kF32, {outputs, inputs}, std::as_bytes(std::span(w))};
          const Weight weight(array);
          const Source source{&weight};
          Matrix m = pack(plan_matrix(form, Keep::kWhole, outputs, inputs, {&source, 1}), {&source, 1}, team).value();
          const size_t stride = activation_stride(form, inputs);
          Memory acts(rows * stride);
          for (uint32_t r = 0; r < rows; ++r)
            with->convert[size_t(form)](x.data() + size_t(r) * inputs, inputs, acts.data() + r * stride);
          std::vector<float> out(size_t(rows) * outputs, 1);
          Multiplier multiply(*with, team, 32);
          multiply.run({acts.data(), stride}, rows, m, Multiplier::Into::kAdd, out.data(), outputs);
          for (uint32_t r = 0; r < rows; ++r)
            for (uint32_t o = 0; o < outputs; ++o) {
              double sum = 1;
              for (uint32_t i = 0; i < inputs; ++i)
                sum += double(x[size_t(r) * inputs + i]) * w[size_t(o) * inputs + i];
              ASSERT_NEAR(out[size_t(r) * outputs + o], sum, 1e-3) << name << " " << outputs << "x" << inputs;
            }
        }
}

TEST(Curves, AreGeluAndItsApproximation) {
  for (auto* name : {"portable", "avx2", "avx512", "avx512_bf16"}) {
    auto* with = kernels(name);
    if (!with) continue;
    std::vector<float> x;
    for (int i = 0; i < 4000; ++i) x.push_back(float(i - 2000) / 200);
    x.insert(x.end(), {0.0f, -0.0f, 1e-6f, -40.0f, 40.0f, 1e30f, -1e30f});
    std::vector<float> out((x.size() + 15) / 16 * 16);
    auto differ = [&](auto* curve, auto&& right) {
      curve(x.data(), uint32_t(x.size()), reinterpret_cast<std::byte*>(out.data()));
      double worst = 0;
      for (size_t i = 0; i < x.size(); ++i)
        worst = std::max(worst, std::abs(out[i] - right(double(x[i]))) / std::max(1.0, std::abs(double(x[i]))));
      return worst;
    };
    EXPECT_LT(differ(with->gelu[0], [](double v) { return v / 2 * std::erfc(-v / std::sqrt(2.0)); }), 1e-6) << name;
    EXPECT_LT(differ(with->gelu_tanh[0],
                     [](double v) { return v / 2 * (1 + std::tanh(0.7978845608 * (v + 0.044715 * v * v * v))); }),
              1e-6)
        << name;
  }
}

TEST(Curves, SoftCapsAreHyperbolicTangents) {
  for (auto* name : {"portable", "avx2", "avx512", "avx512_bf16"}) {
    auto* with = kernels(name);
    if (!with) continue;
    for (float cap : {3.0f, 50.0f}) {
      std::vector<float> x;
      for (int i = 0; i < 1003; ++i) x.push_back(float(i - 500) * cap / 60);
      x.insert(x.end(), {0.0f, 1e-6f, -1e30f, 1e30f});
      auto out = x;
      with->soft_cap(out.data(), out.size(), cap);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_NEAR(out[i], cap * std::tanh(double(x[i]) / cap), 3e-7 * cap) << name << " of " << x[i];
    }
  }
}

std::string config(const std::string& more) {
  return R"({"architectures":["LlamaForCausalLM"],"vocab_size":32,"hidden_size":16,"intermediate_size":32,
             "num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2)" +
         more + "}";
}

TEST(Shapes, WhatIsMissingHasItsUsualValue) {
  auto s = parse_shape(config(R"(,"eos_token_id":[1,2])"));
  ASSERT_TRUE(bool(s)) << s.error().text;
  EXPECT_EQ(s->head_dim, 4u);
  EXPECT_FALSE(s->tied);
  EXPECT_EQ(s->eos_ids, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(s->windows, (std::vector<uint32_t>{0, 0}));
}

TEST(Shapes, WhatIsWrongIsNamed) {
  for (auto [more, field] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"(,"vocab_size":0)", "vocab_size"},
           {R"(,"vocab_size":-5)", "vocab_size"},
           {R"(,"hidden_size":1e30)", "hidden_size"},
           {R"(,"num_key_value_heads":3)", "num_key_value_heads"},
           {R"(,"head_dim":7)", "head_dim"},
           {R"(,"hidden_size":4096,"num_attention_heads":1,"num_key_value_heads":1)", "'head_dim' is missing"},
           {R"(,"hidden_act":"relu")", "hidden_act"},
           {R"(,"eos_token_id":32)", "eos_token_id"},
           {R"(,"eos_token_id":"x")", "eos_token_id"},
           {R"(,"quantization_config":{})", "quantization_config"},
           {R"(,"partial_rotary_factor":0.5)", "partial_rotary_factor"},
           {R"(,"rope_parameters":{"rope_theta":1e4,"partial_rotary_factor":0.5})",
            "rope_parameters.'partial_rotary_factor"},
           {R"(,"rope_parameters":{"chunked_attention":{"rope_theta":1e4}})", "rope_parameters.'chunked_attention"},
           {R"(,"rope_scaling":{"type":"dynamic","factor":2})", "rope_scaling.'rope_type"},
           {R"(,"rope_scaling":3)", "rope_scaling"},
           {R"(,"architectures":["GPT2LMHeadModel"])", "'architectures' is [\"GPT2LMHeadModel\"]"},
           {R"(,"sliding_window":8,"layer_types":["x","y"])", "layer_types"},
           {R"(,"vision_config":{"image_size":10,"patch_size":3})", "vision_config"}}) {
    auto s = parse_shape(config(more));
    ASSERT_FALSE(bool(s)) << more;
    EXPECT_NE(s.error().text.find(field), std::string::npos) << s.error().text;
  }
  EXPECT_FALSE(bool(parse_shape("")));
  EXPECT_FALSE(bool(parse_shape("[]")));
}

TEST(Shapes, OfValuesNestedDeeplyAreRefused) {
  constexpr size_t kLevels = 1'000'000;
  const std::string deep = std::string(kLevels, '[') + std::string(kLevels, ']');
  for (const char* key : {"architectures", "rope_scaling", "id2label", "x"}) {
    auto s = parse_shape(config(",\"" + std::string(key) + "\":" + deep));
    ASSERT_FALSE(bool(s)) << key;
    EXPECT_EQ(s.error().text, "config.json is nested deeper than 64 levels");
  }
}

TEST(Shapes, AreAsLongAsTheirRotaryScalingMakesThem) {
  auto length = [](const char* scaling) {
    auto s = parse_shape(config(",\"max_position_embeddings\":2048,\"rope_scaling\":" + std::string(scaling)));
    EXPECT_TRUE(bool(s)) << s.error().text;
    return s ? s->max_length : 0;
  };
  EXPECT_EQ(length(R"({"type":"linear","factor":4})"), 8192u);
  EXPECT_EQ(length(R"({"type":"yarn","factor":4,"original_max_position_embeddings":1024})"), 4096u);
  EXPECT_EQ(length(R"({"rope_type":"yarn","factor":4})"), 8192u);
  EXPECT_EQ(length(R"({"type":"yarn","factor":4,"original_max_position_embeddings":256})"), 2048u) << "it says so";
  EXPECT_EQ(length(R"({"type":"yarn","factor":1000000,"original_max_position_embeddings":1000})"), 1u << 24);
  EXPECT_EQ(length(R"({"rope_type":"llama3","factor":8})"), 2048u) << "it is what max_position_embeddings counts";
  EXPECT_EQ(length("null"), 2048u);
}

TEST(StoredWeights, KeepTheirPrecision) {
  EXPECT_EQ(exact_form(Stored::kF32), WeightFormat::kF32);
  EXPECT_EQ(exact_form(Stored::kBf16), WeightFormat::kBf16);
  EXPECT_EQ(exact_form(Stored::kF16), WeightFormat::kF32);
}

TEST(ModelParameters, AreReadAndChecked) {
  auto o = read_options({{"kv_cache", "64MiB"},
                         {"threads", "3"},
                         {"dtype", "float32"},
                         {"max_running", "700"},
                         {"prefix_cache", "off"},
                         {"kernels", "portable"},
                         {"somebody_elses", "x"}});
  ASSERT_TRUE(bool(o)) << o.error().text;
  EXPECT_EQ(o->policy.kv_bytes, size_t(64) << 20);
  EXPECT_EQ(o->threads, 3u);
  EXPECT_EQ(o->form, WeightFormat::kF32);
  EXPECT_FALSE(o->policy.prefix_cache);
  EXPECT_EQ(o->policy.step_tokens, 700u);  // room for all that run
  EXPECT_EQ(o->kernels->name, "portable");
  EXPECT_EQ(read_options({})->keep, Keep::kAsStored);
  EXPECT_EQ(read_options({})->kv_format, KvFormat::kAsComputed);
  EXPECT_EQ(read_options({{"kv_cache_dtype", "int8"}})->kv_format, KvFormat::kInt8);
  for (auto* name : {"fp8", "fp8_e4m3"}) EXPECT_EQ(read_options({{"kv_cache_dtype", name}})->kv_format, KvFormat::kFp8);
  EXPECT_EQ(read_options({{"quantization", "int4"}})->keep, Keep::kInt4);
  auto both = read_options({{"quantization", "int8"}, {"dtype", "float32"}});
  EXPECT_NE(both ? std::string::npos : both.error().text.find("'quantization' is \"int8\": dtype float32"),
            std::string::npos);
  for (auto [name, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"kv_cache", "lots"},
                                                                  {"threads", "0"},
                                                                  {"block_size", "24"},
                                                                  {"dtype", "int8"},
                                                                  {"quantization", "fp4"},
                                                                  {"kv_cache_dtype", "fp4"},
                                                                  {"prefix_cache", "maybe"},
                                                                  {"kernels", "avx1024"},
                                                                  {"max_running", "-1"},
                                                                  {"step_tokens", "99999999999"}}) {
    auto bad = read_options({{name, value}});
    ASSERT_FALSE(bool(bad)) << name;
    EXPECT_NE(bad.error().text.find(name), std::string::npos);
  }
}

}  // namespace
}  // namespace weir::llm
