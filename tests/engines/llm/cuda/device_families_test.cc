// Families whose layers do more than a Llama's, on a device with the kernels' host versions: against the reference in
// torch, against the CPU engine, and against themselves in other company. The kernels themselves: tests/gpu/model.cc.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "device/host_device.h"
#include "device_support.h"

namespace weir::llm {
namespace {

class LlmDeviceFamilies : public testing::Test {
 protected:
  void SetUp() override {
    if (models().empty()) GTEST_SKIP() << "no python3-torch here";
  }
  static std::string folder(const std::string& name) { return models() + "/" + name; }
  static Expected expected(const std::string& name) { return Expected(folder(name) + "/expected.safetensors"); }
};

// gpt-oss of four experts uses all: rounding chooses no others. Two kinds of norms, gates, caps, windows with another
// rotary base, heads that turn in part, heads normalised together.
constexpr const char* kFamilies[] = {"gemma", "gemma2", "gemma3",     "gemma3_types", "gemma3_bf16", "gemma3_seeing",
                                     "olmo2", "olmo3",  "olmo2_bf16", "phi3_long",    "gpt_oss_bf16"};

// Rounding to bfloat16 alone moves the CPU engine's logits of gemma2 by 0.031 of the largest, which caps keep small.
constexpr double kLogits = 4e-2;
// The CPU engine's logprobs in bfloat16 are up to 0.014 from those in float32.
constexpr double kLogprob = 0.025;

TEST_F(LlmDeviceFamilies, LogitsAreTheReferencesWithinBfloat16) {
  for (auto* name : kFamilies) {
    device::HostDevice host;
    auto expect = expected(name);
    auto engine = on_device(folder(name), host);
    ASSERT_TRUE(engine) << name;
    DeviceStepper stepper(*engine);
    Sequence s{expect.ids(), {}};
    stepper.add(s, uint32_t(s.ids.size()), Wanted::kAll);
    EXPECT_LT(worst(stepper.run(), expect.floats("logits"), engine->text().vocabulary), kLogits) << name;
  }
}

TEST_F(LlmDeviceFamilies, LogitsDoNotDependOnChunksOrCompany) {
  for (auto* name : {"gemma2", "gemma3", "olmo3", "gpt_oss"}) {
    device::HostDevice host;
    auto ids = expected(name).ids();
    ids.resize(std::min<size_t>(ids.size(), 80));
    auto engine = on_device(folder(name), host);
    ASSERT_TRUE(engine) << name;
    for (uint32_t chunk : {1u, 17u}) expect_whole(*engine, ids, chunk, 5, name);
  }
}

// Logits of two prompts and then of a token each in every step: windows pass the borders of blocks on the way.
template <class Engine>
std::vector<float> logits_of(Engine& engine, const std::vector<uint32_t>& ids) {
  const auto n = uint32_t(ids.size()), prompt = n - 20;
  BasicStepper<Engine> stepper(engine);
  Sequence first{ids, {}}, second{{ids.rbegin(), ids.rend()}, {}};
  std::vector<float> out;
  stepper.add(first, prompt, LogitsOf::kAll), stepper.add(second, prompt / 2, LogitsOf::kLast);
  while (true) {
    auto logits = stepper.run();
    out.insert(out.end(), logits.begin(), logits.end());
    if (first.stored == n) return out;
    stepper.add(first, 1, LogitsOf::kLast), stepper.add(second, 1, LogitsOf::kLast);
  }
}

// The probabilities of one row of logits.
std::vector<double> probabilities(const float* logits, size_t vocabulary) {
  const double most = *std::max_element(logits, logits + vocabulary);
  std::vector<double> out;
  for (size_t i = 0; i < vocabulary; ++i) out.push_back(std::exp(logits[i] - most));
  const double all = std::accumulate(out.begin(), out.end(), 0.0);
  for (double& p : out) p /= all;
  return out;
}

// How far the logprob of a token that is drawn is from theirs, on average; of the row where that is most.
double logprobs_off(const std::vector<float>& ours, const std::vector<float>& theirs, size_t vocabulary) {
  EXPECT_EQ(ours.size(), theirs.size());
  double most = 0;
  for (size_t at = 0; at + vocabulary <= std::min(ours.size(), theirs.size()); at += vocabulary) {
    const auto a = probabilities(&ours[at], vocabulary), b = probabilities(&theirs[at], vocabulary);
    double off = 0;
    for (size_t i = 0; i < vocabulary; ++i) off += b[i] * std::abs(std::log(a[i]) - std::log(b[i]));
    most = off <= most ? most : off;
  }
  return most;
}

TEST_F(LlmDeviceFamilies, LogitsAndLogprobsAreTheCpuEngines) {
  for (auto* name : kFamilies) {
    device::HostDevice host;
    auto engine = on_device(folder(name), host);
    ASSERT_TRUE(engine) << name;
    auto cpu = make_transformer(folder(name), WeightFormat::kBf16);
    const auto ids = expected(name).ids();
    const auto ours = logits_of(*engine, ids), theirs = logits_of(*cpu, ids);
    EXPECT_LT(worst(ours, theirs, engine->text().vocabulary), kLogits) << name;
    EXPECT_LT(logprobs_off(ours, theirs, engine->text().vocabulary), kLogprob) << name;
  }
}

// As graphs, which are captured at load.
TEST_F(LlmDeviceFamilies, GreedyTextIsTheCpuEngines) {
  for (auto* name : {"gemma2", "gemma3_bf16", "olmo2_bf16", "gpt_oss_bf16"}) {
    device::HostDevice host;
    auto ours = on_device(folder(name), host);
    ASSERT_TRUE(ours) << name;
    auto cpu = make_transformer(folder(name), WeightFormat::kBf16);
    auto ids = expected(name).ids();
    const std::vector<std::vector<uint32_t>> prompts{{ids.begin(), ids.begin() + 3}, {ids.begin() + 7, ids.end()}};
    EXPECT_EQ(talk(*ours, prompts, 6, greedy()).tokens, talk(*cpu, prompts, 6, greedy()).tokens) << name;
    EXPECT_GT(ours->graphs(), 0u);
  }
}

}  // namespace
}  // namespace weir::llm
