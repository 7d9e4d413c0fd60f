// A model that several devices compute together: what one device alone gives, faults of one of them, refusals. The
// devices are the host, or threads of it; the collectives are the host's.
#include <atomic>

#include "device/devices.h"
#include "device/fake_device.h"
#include "device/host_device.h"
#include "device_support.h"
#include "engines/llm/llm.h"
#include "support/open_home.h"

namespace weir::llm {
namespace {

using device::FakeDevice;
class LlmTensorParallel : public testing::Test {
 protected:
  void SetUp() override {
    if (models().empty()) GTEST_SKIP() << "no python3-torch here";
  }
  static std::string folder(const std::string& name) { return models() + "/" + name; }
  static Expected expected(const std::string& name) { return Expected(folder(name) + "/expected.safetensors"); }

  device::HostDevice first_, second_, third_, fourth_;
};

template <class Engine>
std::vector<float> logits_of(Engine& engine, const std::vector<uint32_t>& ids) {
  BasicStepper<Engine> stepper(engine);
  Sequence s{ids, {}};
  stepper.add(s, uint32_t(ids.size()), Wanted::kAll);
  return stepper.run();
}

constexpr const char* kSplit[] = {"llama",      "llama3",  "bias",    "qwen2",        "qwen3", "llama_bf16",
                                  "qwen3_bf16", "granite", "smollm3", "smollm3_said", "phi3"};

TEST_F(LlmTensorParallel, TwoDevicesGiveTheReferencesLogitsWithinBfloat16) {
  for (auto* name : kSplit) {
    auto expect = expected(name);
    auto engine = on_ranks(folder(name), {&first_, &second_});
    ASSERT_TRUE(bool(engine)) << name << ": " << engine.error().text;
    const uint32_t vocabulary = (*engine)->text().vocabulary;
    auto together = logits_of(**engine, expect.ids());
    EXPECT_LT(worst(together, expect.floats("logits"), vocabulary), 3e-2) << name;
    EXPECT_LT(worst(together, logits_of(*on_device(folder(name), first_), expect.ids()), vocabulary), 2e-2) << name;
  }
}

TEST_F(LlmTensorParallel, FourDevicesHaveAHeadEach) {
  auto expect = expected("llama_bf16");
  auto engine = on_ranks(folder("llama_bf16"), {&first_, &second_, &third_, &fourth_});
  ASSERT_TRUE(bool(engine)) << engine.error().text;
  EXPECT_LT(worst(logits_of(**engine, expect.ids()), expect.floats("logits"), (*engine)->text().vocabulary), 3e-2);
}

// Prompts in pieces and token by token, beside others: decode and prefill, the same bits as at once and alone.
TEST_F(LlmTensorParallel, LogitsDoNotDependOnChunksOrCompany) {
  for (auto* name : {"qwen3", "bias", "qwen2"}) {
    auto ids = expected(name).ids();
    ids.resize(std::min<size_t>(ids.size(), 80));
    auto engine = on_ranks(folder(name), {&first_, &second_});
    ASSERT_TRUE(bool(engine)) << engine.error().text;
    for (uint32_t chunk : {1u, 17u}) expect_whole(**engine, ids, chunk, 5, name);
  }
}

TEST_F(LlmTensorParallel, AForkGoesOnAsTheOriginal) {
  auto ids = expected("llama_bf16").ids();
  auto engine = on_ranks(folder("llama_bf16"), {&first_, &second_}).value();
  expect_fork(*engine, ids);
}

TEST_F(LlmTensorParallel, PicturesAndSumsAreTheReferences) {
  auto seen = expected("vision");
  auto looking = on_ranks(folder("vision"), {&first_, &second_}).value();
  auto features = seen.floats("features");
  DeviceStepper stepper(*looking);
  Sequence image{seen.ids(), {}, 0, features.data(), 3, 16, 64};
  stepper.add(image, uint32_t(image.ids.size()), Wanted::kAll);
  EXPECT_LT(worst(stepper.run(), seen.floats("logits"), looking->text().vocabulary), 3e-2);

  auto expect = expected("llama");
  auto engine = on_ranks(folder("llama"), {&first_, &second_}).value();
  DeviceStepper other(*engine);
  Sequence s{expect.ids(), {}};
  other.add(s, uint32_t(s.ids.size()), Wanted::kNone);
  other.step.pools.push_back({0, {}});
  ASSERT_TRUE(engine->step(other.step).ok());
  const auto& pooled = other.step.pools[0].sum;
  std::vector<float> sum(pooled.begin(), pooled.end()), theirs(sum.size(), 0);
  auto last = expect.floats("last");
  for (size_t i = 0; i < last.size(); ++i) theirs[i % sum.size()] += last[i];
  EXPECT_LT(worst(sum, theirs, sum.size()), 3e-2);
}

TEST_F(LlmTensorParallel, ARankHasItsShareOfWeightsAndOfKeysAndValues) {
  auto alone = on_device(kChat, first_);
  auto together = on_ranks(kChat, {&first_, &second_}).value();
  EXPECT_EQ(together->kv_bytes(100) * 2, alone->kv_bytes(100));
  const uint64_t other = together->weight_bytes() - alone->weight_bytes() / 2;  // about: the first has the embedding
  EXPECT_LT(other, alone->weight_bytes());
}

TEST(LlmTensorParallelCodes, KeysAndValuesOfAllRanksAreCodes) {
  device::HostDevice first, second;
  auto alone = on_device(kChat, first, {.kv_codes = cuda::KvCodes::kInt8});
  auto together = on_ranks(kChat, {&first, &second}, {.kv_codes = cuda::KvCodes::kInt8}).value();
  EXPECT_EQ(together->kv_bytes(100) * 2, alone->kv_bytes(100));
  EXPECT_EQ(talk(*together, prompts(), 12, greedy()).tokens, talk(*alone, prompts(), 12, greedy()).tokens);
}

// --- devices that are late, break and hang: the demo model ---------------------------------------------------------

TEST(LlmTensorParallelFakes, DrawsAreOneDevicesAsGraphsToo) {
  device::HostDevice host;
  FakeDevice first(FakeDevice::Drive::kThread), second(FakeDevice::Drive::kThread, uint64_t(64) << 20, 1);
  auto alone = on_device(kChat, host);
  for (auto graphs : {Graphs::kOn, Graphs::kOff}) {
    auto together = on_ranks(kChat, {&first, &second}, {.graphs = graphs}).value();
    for (float temperature : {0.0f, 0.8f}) {
      msg::Generation params;
      params.sampling.temperature = temperature, params.sampling.top_p = 0.9f;
      EXPECT_EQ(talk(*together, prompts(), 12, params).tokens, talk(*alone, prompts(), 12, params).tokens);
    }
    EXPECT_EQ(together->graphs() > 0, graphs == Graphs::kOn);
  }
}

// Steps until one fails; none does: OK.
base::Status failure_of(DeviceTransformer& engine, uint32_t steps) {
  DeviceStepper stepper(engine);
  Sequence s{prompts()[0], {}};
  s.ids.resize(s.ids.size() + steps, 5);
  while (s.stored < s.ids.size()) {
    stepper.add(s, s.stored == 0 ? uint32_t(prompts()[0].size()) : 1, Wanted::kLast);
    if (auto status = engine.step(stepper.step); !status.ok()) return status;
    stepper.step.clear();
  }
  return {};
}

TEST(LlmTensorParallelFakes, AFaultOfAnyDeviceFaultsTheModelOnce) {
  for (size_t faulty : {size_t(0), size_t(1)})
    for (uint32_t operations : {3u, 20u, 70u}) {
      FakeDevice first(FakeDevice::Drive::kThread), second(FakeDevice::Drive::kThread, uint64_t(64) << 20, 1);
      Ranks ranks{&first, &second};
      int told = 0;
      auto engine = on_ranks(kChat, ranks, {.broken = [&](const base::Status&) { ++told; }}).value();
      static_cast<FakeDevice*>(ranks[faulty])->break_after(operations);
      auto status = failure_of(*engine, 20);
      EXPECT_EQ(status.code, base::Code::kUnavailable) << faulty << ' ' << operations << ' ' << status.text;
      EXPECT_TRUE(base::worth_trying_again(status) || faulty == 0) << status.text;
      EXPECT_EQ(failure_of(*engine, 2).code, base::Code::kUnavailable);
      EXPECT_EQ(told, 1);
      engine.reset();
      for (auto* device : ranks) EXPECT_TRUE(device->restart().ok());
      auto again = on_ranks(kChat, ranks);
      ASSERT_TRUE(bool(again)) << again.error().text;
      EXPECT_TRUE(failure_of(**again, 3).ok());
    }
}

TEST(LlmTensorParallelFakes, OneThatHangsKeepsTheOthersNoLongerThanItsPatience) {
  FakeDevice first(FakeDevice::Drive::kThread), second(FakeDevice::Drive::kThread, uint64_t(64) << 20, 1);
  int told = 0;
  auto engine = on_ranks(kChat, {&first, &second},
                         {.broken = [&](const base::Status&) { ++told; }, .patience = std::chrono::seconds(2)})
                    .value();
  EXPECT_TRUE(failure_of(*engine, 2).ok());
  second.have(FakeDevice::Trouble::kHang);
  EXPECT_EQ(failure_of(*engine, 2).code, base::Code::kUnavailable);
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(first.fault().ok()) << first.fault().text;
  EXPECT_FALSE(second.fault().ok());
}

// --- as model.yaml asks for it ---------------------------------------------------------------------------------------

class LlmTensorParallelLoad : public testing::Test {
 protected:
  base::Status error_of(const std::string& path, std::map<std::string, std::string> parameters) {
    wanted_.parameters.insert({"threads", "1"});
    for (auto& [name, value] : parameters) wanted_.parameters.insert_or_assign(name, value);
    auto loaded = load(wanted_, path + "/config.json", {&devices_, [this](const base::Status&) { ++broken_; }});
    if (!loaded) return loaded.error();
    model_ = std::move(*loaded);
    return {};
  }
  // The last event of so many greedy tokens, whose ids are added.
  static msg::Event ask(msg::Inbox& inbox, uint32_t tokens, std::vector<uint32_t>& ids) {
    support::OpenHome answers;
    msg::Call call;
    call.home = &answers, call.credit = 1000;
    call.generation = std::make_unique<msg::Generation>(greedy());
    call.generation->append = prompts()[0];
    call.generation->max_tokens = tokens, call.generation->ignore_eos = true;
    inbox.put(&call);
    auto last = answers.until_last();
    for (auto& mail : answers.mail)
      if (auto* token = std::get_if<msg::Token>(&mail.event.what)) ids.push_back(token->id);
    return last;
  }
  FakeDevice& fake(const char* id) { return static_cast<FakeDevice&>(**devices_.find(id)); }

  device::Devices devices_{{.cuda = device::DeviceOptions::Use::kOff, .module = ""}};
  std::atomic<int> broken_{0};
  msg::ModelSpec wanted_;
  Loaded model_;
};

TEST_F(LlmTensorParallelLoad, WhatDoesNotDivideOrIsNotSplitIsRefused) {
  EXPECT_EQ(error_of(kChat, {{"device", "fake"}, {"tensor_parallel_size", "3"}}).text,
            "tensor_parallel_size is 3, which does not divide the model's 2 heads of keys and values");
  EXPECT_EQ(error_of(kChat, {{"device", "fake"}, {"tensor_parallel_size", "17"}}).code, base::Code::kInvalidArgument);
  EXPECT_EQ(error_of(kChat, {{"device", "cpu"}, {"tensor_parallel_size", "2"}}).text,
            "parameter 'tensor_parallel_size' is for GPUs, not for device: cpu");
  EXPECT_EQ(error_of(kChat, {{"device", "host"}}).text, "tensor_parallel_size is 2: device host is one device");
  auto none = error_of(kChat, {{"device", "auto"}});  // the CPU does not take its place
  EXPECT_EQ(none.code, base::Code::kFailedPrecondition);
  EXPECT_EQ(none.text, "no CUDA: it is switched off");
  wanted_.adapters = {{"sql", "adapters/sql"}};
  EXPECT_EQ(error_of(kChat, {{"device", "fake"}}).text, "a model with adapters is for device: cpu; devices apply none");
}

TEST_F(LlmTensorParallelLoad, MixturesOfExpertsAreRefused) {
  if (models().empty()) GTEST_SKIP() << "no python3-torch here";
  auto folder = Folder::open(models() + "/qwen3_moe_bf16");
  auto shape = parse_shape(folder->read("config.json", 1 << 20).value());
  EXPECT_EQ(cuda::check_split(*shape, 2).text,
            "Qwen3MoeForCausalLM (mixtures of experts) is not split over devices; leave out tensor_parallel_size");
}

// Behind the token lane, which submits each step before the last one is read: ids are on the first device alone then.
// A lost device fails its sequences, and the next load restarts it.
TEST_F(LlmTensorParallelLoad, TheLaneGoesOnAfterAFaultWithTheModelLoadedAnew) {
  device::HostDevice host;
  const auto alone = talk(*on_device(kChat, host), {prompts()[0]}, 6, greedy()).tokens[0];
  wanted_.parameters = {{"device", "fake"}, {"kv_cache", "8MiB"}, {"tensor_parallel_size", "2"}};
  for (const char* faulty : {"fake", "fake:1"}) {
    ASSERT_TRUE(error_of(kChat, {}).ok());
    const msg::ModelSpec spec = std::get<generation::TokenModel>(model_).spec;
    EXPECT_EQ(std::get<generation::TokenModel>(model_).other_places, std::vector<std::string>{"fake:1"});
    bus::ModelStats stats;
    std::vector<generation::TokenModel> instances;
    instances.push_back(std::get<generation::TokenModel>(std::move(model_)));
    auto inbox = generation::make_inbox(std::move(instances), spec, stats);
    std::vector<uint32_t> ids;
    EXPECT_TRUE(std::holds_alternative<msg::Done>(ask(*inbox, 6, ids).what));
    EXPECT_EQ(ids, alone);
    fake(faulty).break_after(20);
    auto event = ask(*inbox, 50, ids);
    auto* failed = std::get_if<msg::Failed>(&event.what);
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->status.code, base::Code::kUnavailable);
    EXPECT_EQ(broken_.exchange(0), 1);
  }
  EXPECT_TRUE(error_of(kChat, {}).ok());
}

// The fullest device decides how much each has for keys and values.
TEST_F(LlmTensorParallelLoad, KeysAndValuesFitOnEachDevice) {
  auto taken = fake("fake:1").buffer(size_t(700) << 20);
  ASSERT_TRUE(error_of(kChat, {{"device", "fake"}, {"tensor_parallel_size", "2"}, {"max_running", "4096"}}).ok());
  const auto& model = std::get<generation::TokenModel>(model_);
  EXPECT_GT(model.policy.kv_bytes, uint64_t(50) << 20);
  EXPECT_LT(fake("fake:1").used(), fake("fake:1").info().memory);
  EXPECT_LT(fake("fake").used(), size_t(400) << 20);
  model_ = Loaded();
  auto full = fake("fake:1").buffer(fake("fake:1").memory()->free);
  auto refused = error_of(kChat, {});
  EXPECT_EQ(refused.code, base::Code::kResourceExhausted);
  EXPECT_NE(refused.text.find("of 1GiB of fake:1 "), std::string::npos) << refused.text;
}

// A device is in one group at a time, whatever its place there; of the same model the next version waits.
TEST_F(LlmTensorParallelLoad, ADeviceComputesOneModelTogetherWithOthers) {
  wanted_.name = "one", wanted_.parameters = {{"kv_cache", "8MiB"}, {"tensor_parallel_size", "2"}};
  ASSERT_TRUE(error_of(kChat, {{"device", "fake"}}).ok());
  wanted_.name = "other";
  for (auto [device, shared] : {std::pair("fake", "fake"), {"fake:1", "fake:1"}}) {
    auto refused = error_of(kChat, {{"device", device}});
    EXPECT_EQ(refused.code, base::Code::kFailedPrecondition);
    EXPECT_EQ(refused.text, shared + std::string(" computes model 'one' together with other devices: it can be in one "
                                                 "such group at a time"));
  }
  wanted_.name = "one";
  auto again = error_of(kChat, {{"device", "fake"}});
  EXPECT_EQ(again.code, base::Code::kResourceExhausted);
  EXPECT_TRUE(base::worth_trying_again(again)) << again.text;
  model_ = Loaded();
  wanted_.name = "other";
  EXPECT_TRUE(error_of(kChat, {{"device", "fake:1"}}).ok());
}

}  // namespace
}  // namespace weir::llm
