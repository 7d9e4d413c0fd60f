// Mixtures of experts: what config.json may say of them, whom a row goes to, and what becomes of it in company.
#include "engines/llm/cpu/experts.h"

#include <nlohmann/json.hpp>
#include <tuple>

#include "support.h"

namespace weir::llm {
namespace {

std::string mixture_config(const std::string& architecture, const std::string& more) {
  return R"({"architectures":[")" + architecture + R"("],"vocab_size":32,"hidden_size":16,"num_hidden_layers":4,)" +
         R"("num_attention_heads":4,"intermediate_size":24,"max_position_embeddings":64)" + more + "}";
}

const char* const kTenExperts = R"(,"num_experts":10,"num_experts_per_tok":3,"moe_intermediate_size":12)";

TEST(MixtureShapes, SayWhichLayersAreMixtures) {
  auto mixtral = parse_shape(
      mixture_config("MixtralForCausalLM", R"(,"num_local_experts":8,"num_experts_per_tok":2,"sliding_window":null)"));
  ASSERT_TRUE(bool(mixtral)) << mixtral.error().text;
  EXPECT_EQ(mixtral->experts->width, 24u);
  EXPECT_TRUE(mixtral->experts->normalised);
  EXPECT_EQ(mixtral->experts->layers, std::vector<bool>({true, true, true, true}));
  auto qwen = parse_shape(mixture_config(
      "Qwen3MoeForCausalLM", std::string(kTenExperts) + R"(,"decoder_sparse_step":2,"mlp_only_layers":[3])"));
  ASSERT_TRUE(bool(qwen)) << qwen.error().text;
  EXPECT_EQ(qwen->experts->width, 12u);
  EXPECT_FALSE(qwen->experts->normalised);
  EXPECT_EQ(qwen->experts->layers, std::vector<bool>({false, true, false, false}));
  EXPECT_TRUE(qwen->qk_norm);
  auto shared = parse_shape(
      mixture_config("Qwen2MoeForCausalLM", std::string(kTenExperts) + R"(,"shared_expert_intermediate_size":20)"));
  ASSERT_TRUE(bool(shared)) << shared.error().text;
  EXPECT_EQ(shared->experts->shared_width, 20u);
  EXPECT_TRUE(shared->qkv_bias);
}

TEST(MixtureShapes, WhatIsWrongIsNamed) {
  for (auto [architecture, more, field] : std::initializer_list<std::tuple<const char*, const char*, const char*>>{
           {"LlamaForCausalLM", R"(,"num_experts":4)", "num_experts"},
           {"MixtralForCausalLM", R"(,"num_experts_per_tok":2)", "num_local_experts"},
           {"MixtralForCausalLM", R"(,"num_local_experts":0,"num_experts_per_tok":2)", "num_local_experts"},
           {"MixtralForCausalLM", R"(,"num_local_experts":4,"num_experts_per_tok":5)", "num_experts_per_tok"},
           {"MixtralForCausalLM", R"(,"num_local_experts":9999999,"num_experts_per_tok":5)", "num_local_experts"},
           {"MixtralForCausalLM", R"(,"num_local_experts":4,"num_experts_per_tok":2,"mlp_bias":true)", "mlp_bias"},
           {"Qwen3MoeForCausalLM", R"(,"num_experts":4,"num_experts_per_tok":2)", "moe_intermediate_size"},
           {"Qwen2MoeForCausalLM", R"(,"num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":8)",
            "shared_expert_intermediate_size"},
           {"Qwen3MoeForCausalLM",
            R"(,"num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":8,"decoder_sparse_step":0)",
            "decoder_sparse_step"}}) {
    auto s = parse_shape(mixture_config(architecture, more));
    ASSERT_FALSE(bool(s)) << more;
    EXPECT_NE(s.error().text.find(field), std::string::npos) << s.error().text;
  }
}

// Four experts of one unit each; expert e answers (e + 1) * silu(x0) * x0 in every place.
class FourExperts : public testing::Test {
 protected:
  static constexpr uint32_t kHidden = 4;

  FourExperts() {
    shape_.hidden = kHidden;
    shape_.experts = ExpertShape{.count = 4, .used = 2, .width = 1, .normalised = true, .layers = {true}};
  }
  Matrix matrix(const std::vector<float>& rows, uint32_t inputs, uint32_t outputs,
                std::vector<std::pair<uint32_t, Lay>> places) {
    const uint32_t each = uint32_t(rows.size()) / inputs / uint32_t(places.size());
    std::vector<Array> arrays;
    std::vector<Weight> weights;
    std::vector<Source> sources;
    for (size_t i = 0; i < places.size(); ++i)
      arrays.push_back(
          {Stored::kF32, {each, inputs}, std::as_bytes(std::span(rows).subspan(i * each * inputs, each * inputs))});
    for (const Array& array : arrays) weights.emplace_back(array);
    for (size_t i = 0; i < places.size(); ++i) sources.push_back({&weights[i], places[i].first, places[i].second});
    return pack(plan_matrix(WeightFormat::kF32, Keep::kWhole, outputs, inputs, sources), sources, team_).value();
  }
  // The answers to rows whose scores the router copies from their places.
  std::vector<float> run(const std::vector<float>& x, uint32_t max_rows) {
    std::vector<float> identity(16), ones, twice;
    for (uint32_t i = 0; i < 4; ++i) identity[5 * i] = 1;
    for (uint32_t e = 0; e < 4; ++e) {
      ones.insert(ones.end(), {1, 0, 0, 0, 1, 0, 0, 0});
      twice.insert(twice.end(), kHidden, float(e + 1));
    }
    using Places = std::vector<std::pair<uint32_t, Lay>>;
    Places gates, downs;
    for (uint32_t e = 0; e < 4; ++e) {
      gates.push_back({2 * e, Lay::kEveryOtherPanel}), gates.push_back({2 * e + 1, Lay::kEveryOtherPanel});
      downs.push_back({16 * e, Lay::kInOrder});
    }
    ExpertWeights weights;
    weights.router = matrix(identity, 4, 4, {{0, Lay::kInOrder}});
    weights.gate_up = matrix(ones, 4, 4 * 32, gates);
    weights.down = matrix(twice, 1, 4 * 16, downs);
    const auto rows = uint32_t(x.size() / kHidden);
    const size_t stride = activation_stride(WeightFormat::kF32, kHidden);
    Memory normed(rows * stride);
    for (uint32_t r = 0; r < rows; ++r)
      kernels().convert[0](x.data() + r * kHidden, kHidden, normed.data() + r * stride);
    Multiplier multiply(kernels(), team_, max_rows);
    Experts experts(shape_, WeightFormat::kF32, multiply, team_, max_rows);
    std::vector<float> out(x.size());
    experts.run({normed.data(), stride}, rows, weights, out.data());
    return out;
  }
  Shape shape_;
  ThreadTeam team_{2};
};

TEST_F(FourExperts, ARowGoesToThoseWithTheHighestScoresOfEqualsToTheFirst) {
  auto expert = [](float x0) { return x0 / (1 + std::exp(-x0)) * x0; };
  auto out = run({2, 2, 2, 2,   // the first two, half each
                  1, 0, 3, 1},  // the third; of the two with 1 the first
                 8);
  EXPECT_NEAR(out[0], expert(2) * (0.5 * 1 + 0.5 * 2), 1e-5);
  const double third = 1 / (1 + std::exp(-2.0));
  EXPECT_NEAR(out[4], expert(1) * (third * 3 + (1 - third) * 1), 1e-5);
  EXPECT_EQ(out[4], out[7]);
}

TEST_F(FourExperts, ARowOfNoNumbersCostsNoOther) {
  const float nan = std::nanf("");
  auto out = run({1, nan, 0, 1, 2, 2, 2, 2, nan, nan, nan, nan}, 8);
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_TRUE(std::isnan(out[8]));
  EXPECT_EQ(out[4], run({2, 2, 2, 2}, 1)[0]);
}

TEST_F(FourExperts, MoreRowsThanABlockHasAreWorkedOnInTurns) {
  std::vector<float> x;
  for (uint32_t i = 0; i < 5000 * kHidden; ++i) x.push_back(float(int(i * 37 % 23) - 11) / 4);
  auto together = run(x, 5000);  // 8192 slots are 4096 rows
  for (uint32_t r : {0u, 1u, 4095u, 4096u, 4999u}) {
    auto alone = run({x.begin() + r * kHidden, x.begin() + (r + 1) * kHidden}, 1);
    EXPECT_EQ(std::memcmp(alone.data(), together.data() + size_t(r) * kHidden, kHidden * 4), 0) << r;
  }
}

TEST(Mixtures, AreQuantizedWhileTheyAreLoadedAsOtherLayersAre) {
  if (models().empty()) GTEST_SKIP() << "no python3-torch here";
  const std::string folder = models() + "/qwen3_moe_bf16";
  Expected expected(folder + "/expected.safetensors");
  auto engine = make_transformer(folder, WeightFormat::kBf16, 2, kernels(), 16, KvFormat::kAsComputed, Keep::kInt8);
  Stepper stepper(*engine);
  Sequence s{expected.ids(), {}};
  stepper.add(s, uint32_t(s.ids.size()), LogitsOf::kAll);
  EXPECT_LT(worst(stepper.run(), expected.floats("logits"), engine->text().vocabulary), 5e-2);
  expect_whole(*engine, expected.ids(), 7, 3, "int8 experts");
}

TEST(Mixtures, MoreExpertsThanThereAreAreNamed) {
  if (models().empty()) GTEST_SKIP() << "no python3-torch here";
  auto folder = Folder::open(models() + "/mixtral");
  auto config = nlohmann::json::parse(folder->read("config.json", 1 << 20).value());
  config["num_local_experts"] = 7;
  ThreadTeam team(1);
  auto weights =
      load_weights(parse_shape(config.dump()).value(), Store::open(*folder).value(), WeightFormat::kF32, team);
  ASSERT_FALSE(bool(weights));
  EXPECT_EQ(weights.error().text, "'model.layers.0.block_sparse_moe.gate.weight' has shape [6,64]; [7,64] is expected");
}

}  // namespace
}  // namespace weir::llm
