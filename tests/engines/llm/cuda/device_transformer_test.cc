// The transformer on a device, with the kernels' host versions: against the reference in torch, against the CPU engine,
// against itself in other company; and on a device that is late, full, broken or hangs.
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "device/devices.h"
#include "device/fake_device.h"
#include "device/host_device.h"
#include "engines/llm/cuda/device_transformer.h"
#include "engines/llm/cuda/reference.h"
#include "engines/llm/llm.h"
#include "support.h"
#include "support/open_home.h"

namespace weir::llm {
namespace {

using cuda::DeviceTransformer;
using Drive = device::FakeDevice::Drive;
using Wanted = Stepper::Wanted;
using DeviceStepper = BasicStepper<DeviceTransformer>;
using LogitsRequest = generation::TokenStep::LogitsRequest;

constexpr const char* kChat = WEIR_ROOT "/conf/models/chat/1";

base::Result<std::unique_ptr<DeviceTransformer>> try_device(const std::string& path, device::Device& device,
                                                            cuda::DeviceOptions options = {},
                                                            const cuda::Kernels& kernels = cuda::reference::table()) {
  auto folder = Folder::open(path);
  auto shape = parse_shape(folder->read("config.json", 1 << 20).value());
  auto store = Store::open(*folder);
  cuda::DeviceModel model;
  model.shape = *shape;
  model.readouts = load_readouts(*shape, *folder).value();
  auto weights = cuda::load_device_weights(*shape, model.readouts, *store, device);
  if (!weights) return weights.error();
  model.weights = std::move(*weights);
  auto text = std::make_shared<msg::TextSpec>();
  text->vocabulary = shape->vocabulary, text->eos_ids = shape->eos_ids, text->max_length = shape->max_length;
  model.text = text;
  auto out = DeviceTransformer::make(device, kernels, std::move(model), std::move(options));
  if (out)
    if (auto s = (*out)->reserve(256, 16); !s.ok()) return s;
  return out;
}

std::unique_ptr<DeviceTransformer> on_device(const std::string& path, device::Device& device,
                                             cuda::DeviceOptions options = {}) {
  auto out = try_device(path, device, std::move(options));
  EXPECT_TRUE(bool(out)) << (out ? "" : out.error().text);
  return out ? std::move(*out) : nullptr;
}

class LlmDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (models().empty()) GTEST_SKIP() << "no python3-torch here";
  }
  static std::string folder(const std::string& name) { return models() + "/" + name; }
  static Expected expected(const std::string& name) { return Expected(folder(name) + "/expected.safetensors"); }
};

TEST_F(LlmDevice, LogitsAreTheReferencesWithinBfloat16) {
  for (auto* name : {"llama", "llama3", "bias", "mistral", "qwen2", "qwen3", "llama_bf16", "qwen3_bf16"}) {
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
  for (auto* name : {"qwen3", "mistral", "bias"}) {
    device::HostDevice host;
    auto ids = expected(name).ids();
    ids.resize(std::min<size_t>(ids.size(), 80));
    auto engine = on_device(folder(name), host);
    ASSERT_TRUE(engine);
    for (uint32_t chunk : {1u, 17u}) expect_whole(*engine, ids, chunk, 5, name);
  }
}

// Rows of each product, noted.
std::vector<uint32_t> multiplied;
const cuda::Kernels& noting_kernels() {
  static cuda::Kernels table = cuda::reference::table();
  table.matmul = [](const cuda::Launch& launch, cuda::Matmuls* with, const cuda::Matmul& a) {
    multiplied.push_back(a.rows);
    return cuda::reference::table().matmul(launch, with, a);
  };
  return table;
}

// The last layer of a prompt is for its keys and values but where somebody looks: what these see is the same.
TEST_F(LlmDevice, WhatNobodyLooksAtIsLeftOutOfTheLastLayer) {
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
      multiplied.clear();
      auto logits = stepper.run();
      auto rows = multiplied;
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
    multiplied.clear();
    stepper.run();
    EXPECT_EQ(multiplied.back(), 40u);  // queries, keys and values
  }
}

TEST_F(LlmDevice, AForkGoesOnAsTheOriginal) {
  device::HostDevice host;
  auto ids = expected("llama_bf16").ids();
  auto engine = on_device(folder("llama_bf16"), host);
  ASSERT_TRUE(engine);
  DeviceStepper stepper(*engine);
  Sequence s{{ids.begin(), ids.begin() + 40}, {}};
  stepper.add(s, 39, Wanted::kNone);
  stepper.run();
  Sequence fork = s;
  stepper.add(s, 1, Wanted::kLast);
  auto first = stepper.run();
  engine->copy_block(fork.blocks.back(), 200, 39 % 16);
  fork.blocks.back() = 200;
  stepper.add(fork, 1, Wanted::kLast);
  EXPECT_EQ(stepper.run(), first);
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
  const auto& sum = stepper.step.pools[0].sum;
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

// --- the demo model --------------------------------------------------------------------------------------------------

struct Talk {
  std::vector<std::vector<uint32_t>> tokens;
  std::vector<std::vector<float>> readouts;
};

msg::Generation greedy() {
  msg::Generation wish;
  wish.sampling.temperature = 0;
  return wish;
}

// `count` tokens after each prompt, drawn as `wish` says; all sequences in one batch.
template <class Engine>
Talk talk(Engine& engine, const std::vector<std::vector<uint32_t>>& prompts, uint32_t count,
          const msg::Generation& wish) {
  Talk out;
  std::vector<Sequence> all;
  for (const auto& prompt : prompts) all.push_back({prompt, {}});
  out.tokens.resize(all.size());
  BasicStepper<Engine> stepper(engine);
  for (uint32_t n = 0; n < count; ++n) {
    for (uint32_t i = 0; i < all.size(); ++i) {
      auto& s = all[i];
      stepper.add(s, uint32_t(s.ids.size()) - s.stored, Wanted::kNone);
      LogitsRequest request;
      request.token = uint32_t(stepper.step.ids.size()) - 1, request.row = i, request.wish = &wish;
      request.sequence = s.ids, request.prompt = uint32_t(prompts[i].size()), request.draw = n, request.seed = 11 + i;
      request.wants_logprob = true, request.top = 3;
      stepper.step.logits_requests.push_back(request);
      if (n == 0) stepper.step.readouts.push_back({request.token, {}});
    }
    auto status = engine.step(stepper.step);
    EXPECT_TRUE(status.ok()) << status.text;
    if (!status.ok()) return out;
    for (uint32_t i = 0; i < all.size(); ++i) {
      const auto& request = stepper.step.logits_requests[i];
      EXPECT_EQ(request.best.size(), 3u);
      if (wish.sampling.temperature == 0 && request.best.size() == 3) {
        EXPECT_EQ(request.best[0].id, request.id);
        EXPECT_EQ(request.best[0].logprob, request.logprob);
      }
      all[i].ids.push_back(request.id);
      out.tokens[i].push_back(request.id);
    }
    for (const auto& r : stepper.step.readouts) out.readouts.push_back(r.values);
    stepper.step.clear();
  }
  return out;
}

std::vector<std::vector<uint32_t>> prompts() {
  std::vector<std::vector<uint32_t>> out(3);
  for (uint32_t i = 0; i < 3; ++i)
    for (uint32_t t = 0; t < 9 + 8 * i; ++t) out[i].push_back((t * 97 + i * 31 + 5) % 3000);
  return out;
}

TEST(LlmDeviceChat, GreedyTextIsTheCpuEngines) {
  device::HostDevice host;
  auto ours = on_device(kChat, host);
  ASSERT_TRUE(ours);
  auto cpu = make_transformer(kChat, WeightFormat::kBf16);
  auto here = talk(*ours, prompts(), 12, greedy()), there = talk(*cpu, prompts(), 12, greedy());
  EXPECT_EQ(here.tokens, there.tokens);
  ASSERT_EQ(here.readouts.size(), there.readouts.size());
  ASSERT_FALSE(here.readouts[0].empty());
  for (size_t i = 0; i < here.readouts.size(); ++i)
    EXPECT_LT(worst(here.readouts[i], there.readouts[i], here.readouts[i].size()), 3e-2);
  EXPECT_GT(ours->graphs(), 0u);  // the second decode step and those after it
}

// Seeded draws, with everything that changes logits: the same in a batch as alone, as graphs or not.
TEST(LlmDeviceChat, DrawsAreTheSameAloneAsInABatch) {
  device::HostDevice host;
  auto engine = on_device(kChat, host);
  ASSERT_TRUE(engine);
  msg::Generation wish;
  wish.sampling.temperature = 0.8f, wish.sampling.top_p = 0.95f, wish.sampling.top_k = 50;
  wish.sampling.repetition_penalty = 1.2f, wish.sampling.presence_penalty = 0.3f;
  wish.sampling.logit_bias = {{7, 3.f}};
  auto together = talk(*engine, prompts(), 6, wish);
  auto one = talk(*engine, {prompts()[0]}, 6, wish);
  EXPECT_EQ(one.tokens[0], together.tokens[0]);
}

// Captured before the first step, for every bucket and number of parts; what is drawn is the same with and without.
TEST(LlmDeviceChat, GraphsAreThereBeforeTheFirstStep) {
  device::HostDevice host;
  cuda::DeviceOptions options;
  options.step_tokens = 64, options.max_running = 4;
  std::vector<std::vector<uint32_t>> tokens;
  for (auto graphs : {Graphs::kAtLoad, Graphs::kAtUse, Graphs::kNone}) {
    options.graphs = graphs;
    auto engine = on_device(kChat, host, options);
    ASSERT_TRUE(engine);
    const size_t at_load = engine->graphs();
    EXPECT_EQ(at_load, graphs == Graphs::kAtLoad ? 9u : 0u);  // 1, 2, 4 rows; 1, 4, 8 parts
    auto here = talk(*engine, prompts(), 4, greedy()).tokens;
    if (tokens.empty()) tokens = here;
    EXPECT_EQ(here, tokens);
    EXPECT_EQ(engine->graphs(), graphs == Graphs::kAtUse ? 1u : at_load);
    if (graphs == Graphs::kAtLoad) {  // what grows does not make them go
      talk(*engine, std::vector(4, std::vector<uint32_t>(16, 5)), 2, greedy());
      EXPECT_EQ(engine->graphs(), at_load);
    }
  }
  options.graphs = Graphs::kAtLoad, options.graph_time = {};
  auto late = on_device(kChat, host, options);
  ASSERT_TRUE(late);
  EXPECT_EQ(late->graphs(), 0u);
  EXPECT_EQ(talk(*late, prompts(), 4, greedy()).tokens, tokens);
}

// A device that cannot capture.
struct NoGraphs final : device::HostDevice {
  enum class At { kBegin, kEnd };
  explicit NoGraphs(At fails) : fails(fails) {}
  base::Status do_capture(void* stream) override {
    ++asked;
    return fails == At::kEnd ? HostDevice::do_capture(stream) : base::failure(base::Code::kInternal, "no captures");
  }
  base::Result<void*> do_captured(void* stream) override {
    auto graph = HostDevice::do_captured(stream);
    do_free(device::Kind::kGraph, *graph);
    return base::failure(base::Code::kInternal, "no graphs");
  }
  const At fails;
  int asked = 0;
};

TEST(LlmDeviceChat, ADeviceThatCannotCaptureGoesWithoutGraphs) {
  device::HostDevice host;
  cuda::DeviceOptions options;
  options.step_tokens = 64, options.max_running = 4;
  auto expect = talk(*on_device(kChat, host, options), prompts(), 4, greedy()).tokens;
  for (auto at : {NoGraphs::At::kBegin, NoGraphs::At::kEnd})
    for (auto graphs : {Graphs::kAtLoad, Graphs::kAtUse}) {
      NoGraphs without(at);
      options.graphs = graphs;
      auto engine = on_device(kChat, without, options);
      ASSERT_TRUE(engine);
      EXPECT_EQ(talk(*engine, prompts(), 4, greedy()).tokens, expect);
      EXPECT_EQ(engine->graphs(), 0u);
      EXPECT_EQ(without.asked, 1);  // and never again
    }
}

// --- a device that is not at once ------------------------------------------------------------------------------------

TEST(LlmDeviceChat, ALateDeviceDrawsTheSame) {
  device::HostDevice host;
  device::FakeDevice late(Drive::kThread, uint64_t(256) << 20);
  auto expect = talk(*on_device(kChat, host), {prompts()[0]}, 4, greedy());
  EXPECT_EQ(talk(*on_device(kChat, late), {prompts()[0]}, 4, greedy()).tokens, expect.tokens);
  EXPECT_TRUE(late.fault().ok());
}

TEST(LlmDeviceChat, MemoryThatRunsOutRefusesTheModelOrTheStepAlone) {
  device::FakeDevice fake(Drive::kThread, uint64_t(256) << 20);
  for (uint32_t skip : {1u, 2u}) {
    fake.run_out(skip);
    EXPECT_EQ(try_device(kChat, fake).error().code, base::Code::kResourceExhausted);
    fake.run_out(0);
  }
  auto engine = on_device(kChat, fake);
  ASSERT_TRUE(engine);
  fake.run_out(1);
  DeviceStepper stepper(*engine);
  Sequence s{std::vector<uint32_t>(400, 5), {}};  // more arguments than there is room for: the pools of 20 rows
  std::vector<Sequence> all(20, Sequence{std::vector<uint32_t>(20, 5), {}});
  for (auto& each : all) stepper.add(each, 20, Wanted::kNone);
  for (uint32_t i = 0; i < 300; ++i) stepper.step.pools.push_back({i % 20, {}});
  EXPECT_EQ(engine->step(stepper.step).code, base::Code::kResourceExhausted);
  EXPECT_EQ(engine->step(stepper.step), base::Status());
  EXPECT_TRUE(fake.fault().ok());
}

TEST(LlmDeviceChat, ABrokenDeviceFailsStepsAndIsToldOnce) {
  device::FakeDevice fake(Drive::kThread, uint64_t(256) << 20);
  std::vector<base::Status> told;
  for (uint32_t after : {0u, 3u, 30u}) {
    cuda::DeviceOptions options;
    options.broken = [&](base::Status s) { told.push_back(std::move(s)); };
    auto engine = on_device(kChat, fake, options);
    ASSERT_TRUE(engine);
    fake.break_after(after);
    told.clear();
    for (int i = 0; i < 3; ++i) {
      DeviceStepper stepper(*engine);
      Sequence s{prompts()[0], {}};
      stepper.add(s, 9, Wanted::kNone);
      EXPECT_EQ(engine->step(stepper.step).code, base::Code::kUnavailable);
    }
    ASSERT_EQ(told.size(), 1u) << after;
    EXPECT_EQ(told[0].code, base::Code::kUnavailable);
    ASSERT_TRUE(fake.restart().ok());
    DeviceStepper stepper(*engine);  // of the life before
    Sequence s{prompts()[0], {}};
    stepper.add(s, 9, Wanted::kNone);
    EXPECT_EQ(engine->step(stepper.step).code, base::Code::kUnavailable);
  }
}

TEST(LlmDeviceChat, AHangFailsTheStepAndWhatIsUnderWayIsNotFreed) {
  device::FakeDevice fake(Drive::kThread, uint64_t(256) << 20);
  int told = 0;
  cuda::DeviceOptions options;
  options.broken = [&](base::Status) { ++told; };
  options.patience = std::chrono::milliseconds(20);
  auto engine = on_device(kChat, fake, options);
  ASSERT_TRUE(engine);
  fake.hang();
  DeviceStepper stepper(*engine);
  Sequence s{prompts()[0], {}};
  stepper.add(s, 9, Wanted::kNone);
  EXPECT_EQ(engine->step(stepper.step).code, base::Code::kUnavailable);
  EXPECT_EQ(told, 1);
  engine.reset();
}

// The second step feeds what the first draws, before anybody has read that.
TEST(LlmDeviceChat, AStepMayFollowOneThatIsNotReadYet) {
  device::FakeDevice late(Drive::kThread, uint64_t(256) << 20);
  auto engine = on_device(kChat, late);
  ASSERT_TRUE(engine);
  auto expect = talk(*engine, {prompts()[1]}, 2, greedy()).tokens[0];
  auto wish = greedy();
  DeviceStepper first(*engine), second(*engine);
  Sequence s{prompts()[1], {}};
  auto request_logits = [&](generation::TokenStep& step) {
    step.logits_requests.push_back(
        {.token = uint32_t(step.ids.size()) - 1, .wish = &wish, .sequence = s.ids, .prompt = 17});
  };
  first.add(s, uint32_t(s.ids.size()), Wanted::kNone);
  request_logits(first.step);
  ASSERT_TRUE(engine->submit(first.step).ok());
  s.ids.push_back(generation::TokenStep::kSampled | 0);
  second.add(s, 1, Wanted::kNone);
  request_logits(second.step);
  ASSERT_TRUE(engine->submit(second.step).ok());
  ASSERT_TRUE(engine->collect(first.step).ok());
  ASSERT_TRUE(engine->collect(second.step).ok());
  EXPECT_EQ((std::vector{first.step.logits_requests[0].id, second.step.logits_requests[0].id}), expect);
  second.step.ids[0] = generation::TokenStep::kSampled | 1;  // there is one look
  EXPECT_EQ(engine->step(second.step).code, base::Code::kInvalidArgument);
}

// --- behind the token lane -------------------------------------------------------------------------------------------

struct Heard {
  std::vector<uint32_t> ids;
  std::vector<float> readouts;
};

msg::Event ask(msg::Inbox& inbox, uint32_t tokens, Heard* heard = nullptr, const msg::Generation& wish = greedy()) {
  support::OpenHome answers;
  msg::Call call;
  call.home = &answers;
  call.credit = 1000;
  call.generation = std::make_unique<msg::Generation>(wish);
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

TEST(LlmDeviceLane, ABrokenDeviceFailsItsSequencesAndTheNextLoadRestartsIt) {
  device::Devices devices({.cuda = device::DeviceOptions::Use::kOff, .module = ""});
  auto& fake = static_cast<device::FakeDevice&>(**devices.find("fake"));
  std::mutex mutex;
  std::vector<base::Status> told;
  msg::ModelSpec wanted;
  wanted.name = "chat";
  wanted.parameters = {{"device", "fake"}, {"kv_cache", "8MiB"}, {"threads", "1"}};
  for (int life = 0; life < 2; ++life) {
    auto engine = load(wanted, std::string(kChat) + "/config.json", {&devices, [&](base::Status s) {
                                                                       std::lock_guard lock(mutex);
                                                                       told.push_back(std::move(s));
                                                                     }});
    ASSERT_TRUE(bool(engine)) << engine.error().text;
    msg::ModelSpec spec = (*engine)->spec();
    EXPECT_EQ(spec.platform, "weir_llm");
    bus::ModelStats stats;
    auto inbox = (*engine)->own_inbox(spec, stats, base::heap());
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

// Steps run ahead of the tokens that they penalise, and of readouts that are still to come.
TEST(LlmDeviceLane, PenaltiesAndReadoutsAreTheCpuEngines) {
  device::Devices devices({.cuda = device::DeviceOptions::Use::kOff, .module = ""});
  auto wish = greedy();
  wish.sampling.repetition_penalty = 1.3f, wish.sampling.presence_penalty = 0.5f;
  wish.sampling.frequency_penalty = 0.25f, wish.sampling.logit_bias = {{7, 3.f}};
  wish.readouts = {{5, 12}, {15, 100}};
  std::map<std::string, Heard> heard;
  for (const std::string device : {"cpu", "host", "fake"}) {
    msg::ModelSpec wanted;
    wanted.parameters = {{"device", device}, {"dtype", "bfloat16"}, {"kv_cache", "8MiB"}, {"threads", "1"}};
    auto engine = load(wanted, std::string(kChat) + "/config.json", {&devices, {}});
    ASSERT_TRUE(bool(engine)) << engine.error().text;
    msg::ModelSpec spec = (*engine)->spec();
    bus::ModelStats stats;
    auto inbox = (*engine)->own_inbox(spec, stats, base::heap());
    EXPECT_TRUE(std::holds_alternative<msg::Done>(ask(*inbox, 16, &heard[device], wish).what));
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
  EXPECT_EQ(refused({{"device", "host"}, {"dtype", "float32"}}, &devices).code, base::Code::kInvalidArgument);
  EXPECT_EQ(refused({{"device", "host"}, {"graphs", "never"}}, &devices).code, base::Code::kInvalidArgument);
  EXPECT_EQ(refused({{"device", "auto"}}, &devices), base::Status());
  EXPECT_EQ(refused({{"device", "cpu"}}, nullptr), base::Status());
}

}  // namespace
}  // namespace weir::llm
