// The transformer on a device, with the kernels' host versions: against the reference in torch, and against itself in
// other company.
#include <map>

#include "device/host_device.h"
#include "device_support.h"

namespace weir::llm {
namespace {

class LlmDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (models().empty()) GTEST_SKIP() << "no python3-torch here";
  }
  static std::string folder(const std::string& name) { return models() + "/" + name; }
  static Expected expected(const std::string& name) { return Expected(folder(name) + "/expected.safetensors"); }
};

TEST_F(LlmDevice, LogitsAreTheReferencesWithinBfloat16) {
  for (auto* name : {"llama", "llama3", "bias", "mistral", "qwen2", "qwen3", "llama_bf16", "qwen3_bf16", "granite",
                     "smollm3", "smollm3_said", "phi3", "phi3_long", "phi3_bf16", "qwen3_moe_bf16"}) {
    device::HostDevice host;
    auto expect = expected(name);
    auto engine = on_device(folder(name), host);
    ASSERT_TRUE(engine);
    DeviceStepper stepper(*engine);
    Sequence s{expect.ids(), {}};
    stepper.add(s, uint32_t(s.ids.size()), Wanted::kAll);
    EXPECT_LT(worst(stepper.run(), expect.floats("logits"), engine->text().vocabulary), 3e-2) << name;
  }
}

// Prefilled in one piece, in pieces, and token by token, alone and beside others: the same bits.
TEST_F(LlmDevice, LogitsDoNotDependOnChunksOrCompany) {
  for (auto* name : {"qwen3", "mistral", "bias", "phi3_long"}) {
    device::HostDevice host;
    auto ids = expected(name).ids();
    ids.resize(std::min<size_t>(ids.size(), 80));
    auto engine = on_device(folder(name), host);
    ASSERT_TRUE(engine);
    for (uint32_t chunk : {1u, 17u}) expect_whole(*engine, ids, chunk, 5, name);
  }
}

// Rows of each product, noted.
std::vector<uint32_t> multiplied_rows;
const cuda::Kernels& noting_kernels() {
  static cuda::Kernels table = cuda::reference::table();
  table.matmul = [](const cuda::Launch& launch, cuda::Matmuls* with, const cuda::Matmul& a) {
    multiplied_rows.push_back(a.rows);
    return cuda::reference::table().matmul(launch, with, a);
  };
  table.norm_matmul = [](const cuda::Launch& launch, const cuda::NormMatmul& a) {
    multiplied_rows.push_back(a.rows);
    return cuda::reference::table().norm_matmul(launch, a);
  };
  return table;
}

// The last layer of a prompt goes on for tokens whose logits are wanted: these get the same.
TEST_F(LlmDevice, TokensWhoseLogitsNobodyWantsAreLeftOutOfTheLastLayer) {
  for (auto* name : {"qwen3", "mistral"}) {
    device::HostDevice host;
    auto ids = expected(name).ids();
    ids.resize(120);
    auto engine = try_device(folder(name), host, {}, noting_kernels()).value();
    const size_t vocabulary = engine->text().vocabulary;
    std::vector<float> all, last;
    for (auto wanted : {Wanted::kAll, Wanted::kLast}) {
      DeviceStepper stepper(*engine);
      Sequence s{ids, {}}, other{ids, {}}, single{{ids.rbegin(), ids.rend()}, {}};
      stepper.add(other, 40, Wanted::kNone);
      stepper.add(s, 100, wanted);
      stepper.add(single, 1, Wanted::kNone);
      multiplied_rows.clear();
      auto logits = stepper.run();
      auto rows = multiplied_rows;
      stepper.add(s, 20, wanted), stepper.add(other, 1, Wanted::kLast);  // the keys and values of all are there
      auto more = stepper.run();
      auto& to = wanted == Wanted::kAll ? all : last;
      to.assign(logits.end() - ptrdiff_t(vocabulary), logits.end());
      to.insert(to.end(), more.end() - ptrdiff_t(2 * vocabulary), more.end());
      const size_t from = rows.size() - 3 - (logits.size() / vocabulary + 63) / 64;  // what follows attention
      EXPECT_EQ(rows[from - 1], 141u);
      EXPECT_EQ(rows[from], wanted == Wanted::kAll ? 101u : 2u);
    }
    EXPECT_EQ(std::memcmp(all.data(), last.data(), all.size() * 4), 0) << name;
    DeviceStepper stepper(*engine);
    Sequence s{ids, {}};
    stepper.add(s, 40, Wanted::kNone);
    multiplied_rows.clear();
    stepper.run();
    EXPECT_EQ(multiplied_rows.back(), 40u);  // queries, keys and values
  }
}

TEST_F(LlmDevice, AForkGoesOnAsTheOriginal) {
  device::HostDevice host;
  auto ids = expected("llama_bf16").ids();
  auto engine = on_device(folder("llama_bf16"), host);
  ASSERT_TRUE(engine);
  expect_fork(*engine, ids);
}

// Wherever a prompt is cut, to the last bit.
TEST_F(LlmDevice, SumsOfStatesDoNotDependOnTheChunks) {
  device::HostDevice host;
  auto ids = expected("llama_bf16").ids();
  auto engine = on_device(folder("llama_bf16"), host);
  ASSERT_TRUE(engine);
  ids.resize(std::min<size_t>(ids.size(), 40));
  std::vector<double> whole;
  for (uint32_t chunk : {uint32_t(ids.size()), 7u, 31u}) {
    DeviceStepper stepper(*engine);
    Sequence s{ids, {}};
    std::vector<double> sum;
    while (s.stored < ids.size()) {
      stepper.add(s, std::min(chunk, uint32_t(ids.size()) - s.stored), Wanted::kNone);
      stepper.step.pools.push_back({0, std::move(sum)});
      ASSERT_TRUE(engine->step(stepper.step).ok());
      sum = std::move(stepper.step.pools[0].sum);
      stepper.step.clear();
    }
    if (whole.empty()) whole = sum;
    EXPECT_EQ(sum, whole) << "in chunks of " << chunk;
  }
}

TEST_F(LlmDevice, ReadoutsPoolsAndPatchesAreTheReferences) {
  device::HostDevice host;
  auto expect = expected("llama");
  auto engine = on_device(folder("llama"), host);
  ASSERT_TRUE(engine);
  DeviceStepper stepper(*engine);
  Sequence s{expect.ids(), {}};
  stepper.add(s, uint32_t(s.ids.size()), Wanted::kNone);
  stepper.step.pools.push_back({0, {}});
  ASSERT_TRUE(engine->step(stepper.step).ok());
  auto last = expect.floats("last");
  const auto& pooled = stepper.step.pools[0].sum;
  std::vector<float> sum(pooled.begin(), pooled.end());
  std::vector<float> theirs(sum.size(), 0);
  for (size_t i = 0; i < last.size(); ++i) theirs[i % sum.size()] += last[i];
  EXPECT_LT(worst(sum, theirs, sum.size()), 3e-2);

  auto seen = expected("vision");
  auto looking = on_device(folder("vision"), host);
  ASSERT_TRUE(looking);
  auto features = seen.floats("features");
  DeviceStepper other(*looking);
  Sequence image{seen.ids(), {}, 0, features.data(), 3, 16, 64};
  other.add(image, uint32_t(image.ids.size()), Wanted::kAll);
  EXPECT_LT(worst(other.run(), seen.floats("logits"), looking->text().vocabulary), 3e-2);
}

}  // namespace
}  // namespace weir::llm
