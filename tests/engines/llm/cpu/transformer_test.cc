// The forward pass against the reference in torch, and against itself in other company.
#include "support.h"

namespace weir::llm {
namespace {

using Wanted = Stepper::Wanted;

class Llm : public testing::Test {
 protected:
  void SetUp() override {
    if (models().empty()) GTEST_SKIP() << "no python3-torch here";
  }
  static std::string folder(const std::string& name) { return models() + "/" + name; }
  static Expected expected(const std::string& name) { return Expected(folder(name) + "/expected.safetensors"); }
};

void expect_logits(const std::string& name, WeightFormat form, double tolerance, const Kernels& with = kernels()) {
  Expected expected(models() + "/" + name + "/expected.safetensors");
  auto engine = make_transformer(models() + "/" + name, form, 2, with);
  Stepper stepper(*engine);
  Sequence s{expected.ids(), {}};
  stepper.add(s, uint32_t(s.ids.size()), Wanted::kAll);
  EXPECT_LT(worst(stepper.run(), expected.floats("logits"), engine->text().vocabulary), tolerance)
      << name << " with " << with.name;
}

TEST_F(Llm, LogitsAreTheReferencesInFloat32) {
  for (auto* name :
       {"llama",        "llama3",        "bias",      "mistral",   "qwen2", "qwen3",      "gemma2",  "gemma3",
        "gemma3_types", "gemma3_seeing", "phi3",      "phi3_long", "olmo2", "olmo3",      "granite", "smollm3",
        "smollm3_said", "mixtral",       "qwen2_moe", "qwen3_moe", "gemma", "granitemoe", "gpt_oss"})
    expect_logits(name, WeightFormat::kF32, 1e-4);
}

TEST_F(Llm, LogitsAreTheReferencesInBfloat16) {
  for (auto* name : {"llama_bf16", "qwen3_bf16", "gemma3_bf16", "phi3_bf16", "olmo2_bf16", "qwen3_moe_bf16"})
    expect_logits(name, WeightFormat::kBf16, 2e-2);
}

TEST_F(Llm, EveryInstructionSetGivesTheReferencesLogits) {
  for (auto* isa : {"portable", "avx2", "avx512", "avx512_bf16"}) {
    auto* with = kernels(isa);
    if (!with) continue;
    expect_logits("qwen3", WeightFormat::kF32, 1e-4, *with);
    expect_logits("bias", WeightFormat::kF32, 1e-4, *with);
    expect_logits("qwen2_moe", WeightFormat::kF32, 1e-4, *with);
    expect_logits("gemma2", WeightFormat::kF32, 1e-4, *with);
    expect_logits("gpt_oss", WeightFormat::kF32, 1e-4, *with);
    expect_logits("gpt_oss_bf16", WeightFormat::kBf16, 5e-2, *with);
    expect_logits("llama_bf16", WeightFormat::kBf16, 2e-2, *with);
  }
}

// Prefilled in one piece, in pieces, and token by token, alone and beside others: the same bits.
TEST_F(Llm, LogitsDoNotDependOnChunksOrCompany) {
  for (auto [name, form] : {std::pair("qwen3", WeightFormat::kF32), std::pair("llama_bf16", WeightFormat::kBf16),
                            std::pair("mistral", WeightFormat::kF32), std::pair("bias", WeightFormat::kBf16),
                            std::pair("mixtral", WeightFormat::kF32), std::pair("qwen2_moe", WeightFormat::kBf16),
                            std::pair("gemma2", WeightFormat::kF32), std::pair("gemma3_bf16", WeightFormat::kBf16),
                            std::pair("phi3_long", WeightFormat::kF32), std::pair("olmo3", WeightFormat::kF32),
                            std::pair("granite", WeightFormat::kBf16), std::pair("granitemoe", WeightFormat::kF32),
                            std::pair("gpt_oss", WeightFormat::kF32), std::pair("gpt_oss_bf16", WeightFormat::kBf16)}) {
    auto ids = expected(name).ids();
    auto engine = make_transformer(folder(name), form);
    for (uint32_t chunk : {1u, 3u, 17u, 64u}) expect_whole(*engine, ids, chunk, 0, name);
  }
}

TEST_F(Llm, ManyRowsInOneStepGiveEachItsOwnLogits) {
  auto ids = expected("llama_bf16").ids();
  auto engine = make_transformer(folder("llama_bf16"), WeightFormat::kBf16);
  std::vector<std::vector<float>> alone;
  for (uint32_t i = 0; i < 20; ++i) {
    Stepper stepper(*engine);
    Sequence s{{ids.begin() + i, ids.begin() + i + 9}, {}};
    stepper.add(s, 8, Wanted::kNone);
    stepper.run();
    stepper.add(s, 1, Wanted::kLast);
    alone.push_back(stepper.run());
  }
  Stepper stepper(*engine);
  std::vector<Sequence> all;
  for (uint32_t i = 0; i < 20; ++i) all.push_back({{ids.begin() + i, ids.begin() + i + 9}, {}});
  for (auto& s : all) stepper.add(s, 8, Wanted::kNone);
  stepper.run();
  for (auto& s : all) stepper.add(s, 1, Wanted::kLast);
  auto together = stepper.run();
  const size_t v = engine->text().vocabulary;
  for (uint32_t i = 0; i < 20; ++i) EXPECT_EQ(std::memcmp(alone[i].data(), together.data() + i * v, v * 4), 0) << i;
}

TEST_F(Llm, LargerBlocksAndCopiedBlocksChangeNothing) {
  auto expect = expected("qwen3");
  auto engine = make_transformer(folder("qwen3"), WeightFormat::kF32, 1, kernels(), 64);
  Stepper stepper(*engine, 64);
  Sequence s{expect.ids(), {}};
  const auto n = uint32_t(s.ids.size());
  stepper.add(s, n - 1, Wanted::kNone);
  stepper.run();
  Sequence fork = s;
  stepper.add(s, 1, Wanted::kLast);
  auto first = stepper.run();
  engine->copy_block(fork.blocks.back(), 60, (n - 1) % 64);
  fork.blocks.back() = 60;
  stepper.add(fork, 1, Wanted::kLast);
  EXPECT_EQ(stepper.run(), first);
  auto logits = expect.floats("logits");
  logits.erase(logits.begin(), logits.end() - engine->text().vocabulary);
  EXPECT_LT(worst(first, logits, logits.size()), 1e-4);
}

TEST_F(Llm, ReadoutsAreTheStatesTimesTheConcepts) {
  auto expect = expected("llama");
  auto team = std::make_unique<ThreadTeam>(1);
  Model model = load_model(folder("llama"), WeightFormat::kF32, *team);
  const uint32_t h = model.shape.hidden, n = uint32_t(expect.ids().size());
  auto& r = model.readouts;
  r.concepts = {"a", "b"}, r.layers = {2, 0};
  for (uint32_t i = 0; i < 4 * h; ++i) r.vectors.push_back(std::sin(float(i)));
  auto vectors = r.vectors;
  Transformer engine(std::move(model), kernels(), std::move(team), 512);
  ASSERT_TRUE(engine.reserve(256, 16).ok());
  Stepper stepper(engine);
  Sequence s{expect.ids(), {}};
  stepper.add(s, n, Wanted::kNone);
  for (uint32_t t : {3u, n - 1}) stepper.step.readouts.push_back({t, {}});
  ASSERT_TRUE(engine.step(stepper.step).ok());
  auto states = expect.floats("states");
  for (const auto& readout : stepper.step.readouts) {
    ASSERT_EQ(readout.values.size(), 4u);
    for (uint32_t l = 0; l < 2; ++l)
      for (uint32_t c = 0; c < 2; ++c) {
        double sum = 0;
        for (uint32_t d = 0; d < h; ++d)
          sum += double(states[(size_t(l == 0 ? 2 : 0) * n + readout.token) * h + d]) * vectors[(l * 2 + c) * h + d];
        EXPECT_NEAR(readout.values[l * 2 + c], sum, 1e-3);
      }
  }
}

TEST_F(Llm, PooledStatesAreSumsOverTheRow) {
  auto expect = expected("llama");
  auto engine = make_transformer(folder("llama"), WeightFormat::kF32);
  Stepper stepper(*engine);
  Sequence s{expect.ids(), {}};
  stepper.add(s, uint32_t(s.ids.size()), Wanted::kNone);
  stepper.step.pools.push_back({0, {}});
  ASSERT_TRUE(engine->step(stepper.step).ok());
  auto last = expect.floats("last");
  const auto& pooled = stepper.step.pools[0].sum;
  std::vector<float> sum(pooled.begin(), pooled.end());
  std::vector<float> theirs(sum.size(), 0);
  for (size_t i = 0; i < last.size(); ++i) theirs[i % sum.size()] += last[i];
  EXPECT_LT(worst(sum, theirs, sum.size()), 1e-4);
}

TEST_F(Llm, ImagesTakeThePlaceOfTheirPads) {
  auto expect = expected("vision");
  auto engine = make_transformer(folder("vision"), WeightFormat::kF32);
  auto features = expect.floats("features");
  Stepper stepper(*engine);
  Sequence s{expect.ids(), {}, 0, features.data(), 3, 16, 64};
  stepper.add(s, uint32_t(s.ids.size()), Wanted::kAll);
  EXPECT_LT(worst(stepper.run(), expect.floats("logits"), engine->text().vocabulary), 1e-4);
}

TEST_F(Llm, PicturesBecomeTheReferencesFeatures) {
  Expected expect(folder("vision") + "/pictures.safetensors");
  for (auto [form, tolerance] : {std::pair(WeightFormat::kF32, 1e-4), std::pair(WeightFormat::kBf16, 2e-2)}) {
    auto engine = make_transformer(folder("vision"), form);
    for (auto* name : {"same", "other"}) {
      msg::Image image;
      image.data = base::Bytes::copy_of(slurp(folder("vision") + "/" + name + ".png"));
      auto features = engine->encode_image(image);
      ASSERT_TRUE(bool(features)) << features.error().text;
      EXPECT_EQ(features->count, 16u);
      EXPECT_LT(worst(features->rows, expect.floats(name), 64), tolerance) << name;
    }
  }
}

TEST_F(Llm, StepsThatMakeNoSenseAreRefused) {
  auto engine = make_transformer(folder("llama"), WeightFormat::kF32);
  Stepper stepper(*engine);
  auto refused = [&](auto&& spoil) {
    Sequence s{{7, 8, 9}, {}};
    stepper.step.clear();
    stepper.add(s, 3, Wanted::kLast);
    spoil(stepper.step);
    return !engine->step(stepper.step).ok();
  };
  EXPECT_TRUE(refused([](auto& step) { step.ids[1] = 160; }));
  EXPECT_TRUE(refused([](auto& step) { step.slots[2] = 1 << 20; }));
  EXPECT_TRUE(refused([](auto& step) { step.tables[0] = 1 << 20; }));
  EXPECT_TRUE(refused([](auto& step) { step.rows[0].length = 400; }));
  EXPECT_TRUE(refused([](auto& step) { step.positions[2] = 7; }));
  EXPECT_FALSE(refused([](auto&) {}));
}

}  // namespace
}  // namespace weir::llm
