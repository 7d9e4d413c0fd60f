// The demo model on a device, behind the token lane.
#include <mutex>

#include "device/devices.h"
#include "device/fake_device.h"
#include "device/host_device.h"
#include "device_support.h"
#include "engines/llm/llm.h"
#include "support/open_home.h"

namespace weir::llm {
namespace {

struct Heard {
  std::vector<uint32_t> ids;
  std::vector<float> readouts;
};

msg::Event ask(msg::Inbox& inbox, uint32_t tokens, Heard* heard = nullptr, msg::Generation params = greedy()) {
  support::OpenHome answers;
  msg::Call call;
  call.home = &answers;
  call.credit = 1000;
  call.generation = std::make_unique<msg::Generation>(std::move(params));
  call.generation->append = prompts()[0];
  call.generation->max_tokens = tokens, call.generation->ignore_eos = true;
  inbox.put(&call);
  auto last = answers.until_last();
  for (auto& mail : answers.mail) {
    auto* token = std::get_if<msg::Token>(&mail.event.what);
    if (!token || !heard) continue;
    heard->ids.push_back(token->id);
    if (!token->details) continue;
    const auto& readout = token->details->readout;
    heard->readouts.insert(heard->readouts.end(), readout.begin(), readout.end());
  }
  return last;
}

std::unique_ptr<msg::Inbox> inbox_of(Loaded&& loaded, const msg::ModelSpec& spec, bus::ModelStats& stats) {
  std::vector<generation::TokenModel> instances;
  instances.push_back(std::get<generation::TokenModel>(std::move(loaded)));
  return generation::make_inbox(std::move(instances), spec, stats);
}

TEST(LlmDeviceLane, ABrokenDeviceFailsItsSequencesAndTheNextLoadRestartsIt) {
  device::Devices devices({.cuda = device::DeviceOptions::Use::kOff, .module = ""});
  auto& fake = static_cast<device::FakeDevice&>(**devices.find("fake"));
  std::mutex mutex;
  std::vector<base::Status> told;
  msg::ModelSpec wanted;
  wanted.name = "chat";
  wanted.parameters = {{"device", "fake"}, {"kv_cache", "8MiB"}, {"threads", "1"}};
  for (int life = 0; life < 2; ++life) {
    auto loaded = load(wanted, std::string(kChat) + "/config.json", {&devices, [&](base::Status s) {
                                                                       std::lock_guard lock(mutex);
                                                                       told.push_back(std::move(s));
                                                                     }});
    ASSERT_TRUE(bool(loaded)) << loaded.error().text;
    msg::ModelSpec spec = std::get<generation::TokenModel>(*loaded).spec;
    EXPECT_EQ(spec.platform, "weir_llm");
    bus::ModelStats stats;
    auto inbox = inbox_of(std::move(*loaded), spec, stats);
    Heard heard;  // each step is submitted before the last one is read
    EXPECT_TRUE(std::holds_alternative<msg::Done>(ask(*inbox, 5, &heard).what));
    device::HostDevice host;
    EXPECT_EQ(heard.ids, talk(*on_device(kChat, host), {prompts()[0]}, 5, greedy()).tokens[0]);
    fake.break_after(20);
    auto event = ask(*inbox, 50);
    auto* failed = std::get_if<msg::Failed>(&event.what);
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->status.code, base::Code::kUnavailable);
    std::lock_guard lock(mutex);
    EXPECT_EQ(told.size(), size_t(life) + 1);
  }
}

// Keys and values of each take a share of what those before it have left; nobody's memory is counted as free.
TEST(LlmDeviceLane, ModelsShareTheMemoryOfADevice) {
  device::Devices devices({.cuda = device::DeviceOptions::Use::kOff, .module = "", .memory_share = 40});
  auto& fake = static_cast<device::FakeDevice&>(**devices.find("fake"));
  msg::ModelSpec wanted;
  wanted.name = "chat";
  wanted.parameters = {{"device", "fake"}, {"threads", "1"}, {"max_running", "4096"}};
  std::vector<Loaded> loaded;
  uint64_t before = 0, most = fake.info().memory;
  for (int i = 0; i < 2; ++i) {
    auto model = load(wanted, std::string(kChat) + "/config.json", {&devices});
    ASSERT_TRUE(bool(model)) << model.error().text;
    loaded.push_back(std::move(*model));
    const uint64_t taken = fake.used() - before;
    EXPECT_LT(taken, most);
    before = fake.used(), most = taken;
  }
  wanted.parameters["memory_share"] = "100";
  auto greedy = load(wanted, std::string(kChat) + "/config.json", {&devices});
  ASSERT_TRUE(bool(greedy)) << greedy.error().text;
  auto late = load(wanted, std::string(kChat) + "/config.json", {&devices});
  ASSERT_FALSE(bool(late));
  EXPECT_EQ(late.error().code, base::Code::kResourceExhausted);
  EXPECT_TRUE(base::worth_trying_again(late.error()));
  EXPECT_NE(late.error().text.find("are free"), std::string::npos) << late.error().text;
  greedy = base::invalid("");
  EXPECT_TRUE(bool(load(wanted, std::string(kChat) + "/config.json", {&devices})));
}

TEST(LlmDeviceLane, ADeviceRefusesAdaptersAndAutoTakesTheCpu) {
  device::Devices devices({.cuda = device::DeviceOptions::Use::kOff, .module = ""});
  msg::ModelSpec wanted;
  wanted.name = "chat";
  wanted.adapters = {{"sql", "adapters/sql"}};
  wanted.parameters = {{"device", "fake"}, {"threads", "1"}};
  auto refused = load(wanted, std::string(kChat) + "/config.json", {&devices});
  ASSERT_FALSE(bool(refused));
  EXPECT_EQ(refused.error().text, "a model with adapters is for device: cpu; devices apply none");
  wanted.parameters["device"] = "auto";
  auto missing = load(wanted, std::string(kChat) + "/config.json", {&devices});
  ASSERT_FALSE(bool(missing));
  EXPECT_EQ(missing.error().text, "adapter 'sql': adapters/sql: there is no such folder beside the model's own files");
}

msg::Generation penalized() {
  auto params = greedy();
  params.sampling.repetition_penalty = 1.3f, params.sampling.presence_penalty = 0.5f;
  params.sampling.frequency_penalty = 0.25f, params.sampling.logit_bias = {{7, 3.f}};
  params.readouts = {{5, 12}, {15, 100}};
  return params;
}

// Steps run ahead of the tokens that they penalise, and of readouts that are still to come.
TEST(LlmDeviceLane, PenaltiesAndReadoutsAreTheCpuEngines) {
  device::Devices devices({.cuda = device::DeviceOptions::Use::kOff, .module = ""});
  std::map<std::string, Heard> heard;
  for (const std::string device : {"cpu", "host", "fake"}) {
    msg::ModelSpec wanted;
    wanted.parameters = {{"device", device}, {"dtype", "bfloat16"}, {"kv_cache", "8MiB"}, {"threads", "1"}};
    auto loaded = load(wanted, std::string(kChat) + "/config.json", {&devices, {}});
    ASSERT_TRUE(bool(loaded)) << loaded.error().text;
    msg::ModelSpec spec = std::get<generation::TokenModel>(*loaded).spec;
    bus::ModelStats stats;
    auto inbox = inbox_of(std::move(*loaded), spec, stats);
    EXPECT_TRUE(std::holds_alternative<msg::Done>(ask(*inbox, 16, &heard[device], penalized()).what));
  }
  const auto& cpu = heard["cpu"];
  const size_t values = cpu.readouts.size() / (7 + 10);  // positions 5 to 11, 15 to 24
  ASSERT_GT(values, 0u);
  for (auto* device : {"host", "fake"}) {
    EXPECT_EQ(heard[device].ids, cpu.ids) << device;
    EXPECT_LT(worst(heard[device].readouts, cpu.readouts, values), 5e-2) << device;
  }
}

TEST(LlmDeviceLane, WhatCannotRunOnADeviceSaysSo) {
  device::Devices devices({.cuda = device::DeviceOptions::Use::kOff, .module = ""});
  auto refused = [&](std::map<std::string, std::string> parameters, device::Devices* with) {
    msg::ModelSpec wanted;
    wanted.parameters = std::move(parameters);
    auto engine = load(wanted, std::string(kChat) + "/config.json", {with, {}});
    return engine ? base::Status() : engine.error();
  };
  EXPECT_EQ(refused({{"device", "cuda"}}, &devices).text, "no CUDA: it is switched off");
  EXPECT_EQ(refused({{"device", "tpu"}}, &devices).code, base::Code::kInvalidArgument);
  EXPECT_EQ(refused({{"device", "host"}}, nullptr).code, base::Code::kFailedPrecondition);
  const auto float32 = refused({{"device", "host"}, {"dtype", "float32"}}, &devices);
  EXPECT_EQ(float32.code, base::Code::kInvalidArgument);
  EXPECT_EQ(float32.text, "dtype float32 is for device: cpu; devices compute in bfloat16");
  EXPECT_EQ(refused({{"device", "host"}, {"quantization", "int4"}}, &devices), base::Status());
  EXPECT_EQ(refused({{"device", "auto"}, {"kv_cache_dtype", "fp8"}}, &devices), base::Status());
  EXPECT_EQ(refused({{"device", "host"}, {"graphs", "load"}}, &devices).code, base::Code::kInvalidArgument);
  EXPECT_EQ(refused({{"device", "host"}, {"wgmma", "tried"}}, &devices).text,
            "parameter 'wgmma' is \"tried\": on or off is expected");
  EXPECT_EQ(refused({{"device", "host"}, {"wgmma", "off"}}, &devices), base::Status());
  EXPECT_EQ(refused({{"device", "auto"}}, &devices), base::Status());
  EXPECT_EQ(refused({{"device", "cpu"}}, nullptr), base::Status());
}

}  // namespace
}  // namespace weir::llm
