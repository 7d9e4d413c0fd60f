// Mixtures of experts on a device, with the kernels' host versions: against the CPU engine and the reference in torch,
// against themselves in other company, as graphs, and folders that lie about them.
#include <map>
#include <nlohmann/json.hpp>

#include "device/fake_device.h"
#include "device/host_device.h"
#include "device_support.h"

namespace weir::llm {
namespace {

using namespace std::chrono_literals;

class LlmDeviceExperts : public testing::Test {
 protected:
  void SetUp() override {
    if (models().empty()) GTEST_SKIP() << "no python3-torch here";
  }
  static std::string folder(const std::string& name) { return models() + "/" + name; }
  static std::vector<uint32_t> ids(const std::string& name, size_t most) {
    auto all = Expected(folder(name) + "/expected.safetensors").ids();
    all.resize(std::min(all.size(), most));
    return all;
  }
};

constexpr const char* kMixtures[] = {"mixtral", "qwen2_moe", "qwen3_moe", "granitemoe"};

// Rounding to bfloat16 now and then makes another expert the second best, in which case a token is far off: of the same
// weights, rounded in the same way, the CPU engine is the nearest there is.
TEST_F(LlmDeviceExperts, LogitsOfAlmostAllTokensAreTheReferences) {
  for (auto* name : kMixtures) {
    device::HostDevice host;
    Expected expect(folder(name) + "/expected.safetensors");
    auto engine = on_device(folder(name), host);
    ASSERT_TRUE(engine);
    const size_t vocabulary = engine->text().vocabulary;
    DeviceStepper stepper(*engine);
    Sequence s{expect.ids(), {}};
    stepper.add(s, uint32_t(s.ids.size()), Wanted::kAll);
    const auto ours = stepper.run(), theirs = expect.floats("logits");
    ASSERT_EQ(ours.size(), theirs.size());
    size_t near = 0;
    for (size_t at = 0; at < ours.size(); at += vocabulary)
      near += worst({ours.begin() + ptrdiff_t(at), ours.begin() + ptrdiff_t(at + vocabulary)},
                    {theirs.begin() + ptrdiff_t(at), theirs.begin() + ptrdiff_t(at + vocabulary)}, vocabulary) < 4e-2;
    EXPECT_GE(near * 10, ours.size() / vocabulary * 9) << name;
  }
}

TEST_F(LlmDeviceExperts, GreedyTextIsTheCpuEngines) {
  for (auto* name : {"mixtral", "qwen3_moe_bf16"}) {
    device::HostDevice host;
    auto ours = on_device(folder(name), host);
    ASSERT_TRUE(ours);
    auto cpu = make_transformer(folder(name), WeightFormat::kBf16);
    const std::vector<std::vector<uint32_t>> prompts{ids(name, 3), ids(name, 20)};
    EXPECT_EQ(talk(*ours, prompts, 6, greedy()).tokens, talk(*cpu, prompts, 6, greedy()).tokens) << name;
    EXPECT_GT(ours->graphs(), 0u);
  }
}

// How a device keeps the experts of a model's last layer.
std::pair<cuda::Format, cuda::Format> expert_formats_of(const std::string& path, Keep keep) {
  device::HostDevice host;
  auto folder = Folder::open(path);
  auto shape = parse_shape(folder->read("config.json", 1 << 20).value());
  auto store = Store::open(*folder);
  auto weights = cuda::load_device_weights(*shape, {}, *store, host, {}, {keep, 2});
  EXPECT_TRUE(bool(weights)) << path << (weights ? "" : weights.error().text);
  if (!weights) return {};
  const cuda::DeviceExperts& experts = weights->layers.back().experts;
  return {experts.gate_up.format, experts.down.format};
}

// All experts are used in this model: none becomes another one's second best.
TEST_F(LlmDeviceExperts, InCodesTheyAreTheCpuEngines) {
  const std::string path = folder("qwen3_moe_bf16");
  const auto prompt = ids("qwen3_moe_bf16", 30);
  auto logits = [&](auto& engine) {
    BasicStepper stepper(engine);
    Sequence s{prompt, {}};
    std::vector<float> out;
    for (uint32_t chunk : {24u, 3u, 1u, 1u, 1u}) {  // of tiles, and of pairs one by one
      stepper.add(s, chunk, Wanted::kLast);
      const auto more = stepper.run();
      out.insert(out.end(), more.begin(), more.end());
    }
    return out;
  };
  device::HostDevice host;
  auto whole = on_device(path, host);
  ASSERT_TRUE(whole);
  const auto all = logits(*whole);
  for (Keep keep : {Keep::kInt8, Keep::kInt4}) {
    const auto format = keep == Keep::kInt8 ? cuda::Format::kInt8 : cuda::Format::kInt4;
    EXPECT_EQ(expert_formats_of(path, keep), std::pair(format, format));
    auto ours = try_device(path, host, {}, cuda::reference::table(), {}, {keep, 2});
    ASSERT_TRUE(ours);
    auto theirs = make_transformer(path, WeightFormat::kBf16, 2, kernels(), 16, KvFormat::kAsComputed, keep);
    const auto here = logits(**ours);
    const uint32_t vocabulary = whole->text().vocabulary;
    EXPECT_LT(worst(here, logits(*theirs), vocabulary), 2e-2) << int(keep);
    EXPECT_GT(worst(here, all, vocabulary), keep == Keep::kInt4 ? 4e-2 : 0.) << "nothing was rounded";
  }
}

// gpt-oss's: gates and ups in turn in one array, and four bits that fit into eight.
TEST_F(LlmDeviceExperts, CodesOfACheckpointStayCodesAndGiveItsLogits) {
  if (quantized().empty()) GTEST_SKIP() << "no python3-torch here";
  const std::string path = quantized() + "/mxfp4";
  EXPECT_EQ(expert_formats_of(path, Keep::kAsStored), std::pair(cuda::Format::kInt8, cuda::Format::kInt8));
  EXPECT_EQ(expert_formats_of(path, Keep::kWhole), std::pair(cuda::Format::kBf16, cuda::Format::kBf16));
  const Expected expected(path + "/expected.safetensors");
  device::HostDevice host;
  auto engine = on_device(path, host);
  ASSERT_TRUE(engine);
  DeviceStepper stepper(*engine);
  Sequence s{expected.ids(), {}};
  stepper.add(s, uint32_t(s.ids.size()), Wanted::kAll);
  EXPECT_LT(worst(stepper.run(), expected.floats("logits"), engine->text().vocabulary), 5e-2);
}

// Whether pairs are multiplied one by one or by expert: the same bits.
TEST_F(LlmDeviceExperts, LogitsDoNotDependOnChunksOrCompany) {
  for (auto* name : kMixtures) {
    device::HostDevice host;
    auto engine = on_device(folder(name), host);
    ASSERT_TRUE(engine);
    for (uint32_t chunk : {1u, 17u}) expect_whole(*engine, ids(name, 40), chunk, 5, name);
  }
}

TEST_F(LlmDeviceExperts, GraphsDrawTheSame) {
  std::vector<std::vector<uint32_t>> tokens;
  for (auto graphs : {Graphs::kOn, Graphs::kOff}) {
    device::HostDevice host;
    cuda::DeviceOptions options;
    options.step_tokens = 64, options.max_running = 8, options.graphs = graphs, options.capture_time = 1h;
    auto engine = on_device(folder("qwen2_moe"), host, options);
    ASSERT_TRUE(engine);
    EXPECT_EQ(engine->graphs() > 0, graphs == Graphs::kOn);
    auto here = talk(*engine, std::vector(6, ids("qwen2_moe", 5)), 4, greedy()).tokens;
    if (tokens.empty()) tokens = here;
    EXPECT_EQ(here, tokens);
  }
}

// A folder's weights, and a config.json that says something else.
base::Status lied(const std::string& path, const std::map<std::string, int>& said, device::Device& device) {
  auto folder = Folder::open(path);
  auto config = nlohmann::json::parse(folder->read("config.json", 1 << 20).value());
  for (const auto& [name, value] : said) config[name] = value;
  auto shape = parse_shape(config.dump());
  if (!shape) return shape.error();
  auto store = Store::open(*folder);
  auto weights = cuda::load_device_weights(*shape, {}, *store, device);
  return weights ? base::Status() : weights.error();
}

TEST_F(LlmDeviceExperts, AFolderThatLiesAboutThemIsRefused) {
  device::HostDevice host;
  EXPECT_EQ(lied(folder("mixtral"), {}, host), base::Status());
  EXPECT_EQ(lied(folder("mixtral"), {{"num_local_experts", 7}}, host).text,
            "'model.layers.0.block_sparse_moe.gate.weight' has shape [6,64]; [7,64] is expected");
  EXPECT_EQ(lied(folder("mixtral"), {{"num_local_experts", 5}}, host).code, base::Code::kInvalidArgument);
  EXPECT_EQ(lied(folder("mixtral"), {{"intermediate_size", 8}}, host).code, base::Code::kInvalidArgument);
  EXPECT_EQ(lied(folder("mixtral"), {{"num_experts_per_tok", 7}}, host).code, base::Code::kInvalidArgument);
  EXPECT_EQ(lied(folder("qwen2_moe"), {{"shared_expert_intermediate_size", 8}}, host).code,
            base::Code::kInvalidArgument);
}

// Before anything is brought there.
TEST_F(LlmDeviceExperts, WeightsThatDoNotFitAreRefusedWithTheirSize) {
  device::FakeDevice device(device::FakeDevice::Drive::kThread, uint64_t(100) << 10);
  auto status = lied(folder("mixtral"), {}, device);
  EXPECT_EQ(status.code, base::Code::kResourceExhausted);
  EXPECT_EQ(status.text.rfind("the weights take ", 0), 0u) << status.text;
}

}  // namespace
}  // namespace weir::llm
