// The demo model on a device: against the CPU engine, against itself in other company, as graphs and without; and on a
// device that is late, full, broken or hangs.
#include <chrono>
#include <set>
#include <thread>
#include <tuple>

#include "device/fake_device.h"
#include "device/host_device.h"
#include "device_support.h"
#include "engines/llm/cuda/matmul.h"

namespace weir::llm {
namespace {

using namespace std::chrono_literals;
using Drive = device::FakeDevice::Drive;

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

// A form that allows ids of one rest alone.
struct RestConstraint final : msg::TokenConstraint {
  RestConstraint(uint32_t vocabulary, uint32_t rest) : words((vocabulary + 31) / 32) {
    for (uint32_t id = rest; id < vocabulary; id += 5) words[id / 32] |= 1u << id % 32;
  }
  void prepare() override {}
  std::span<const uint32_t> mask() override { return words; }
  bool accept(uint32_t) override { return true; }
  bool complete() const override { return false; }
  std::vector<uint32_t> words;
};

TEST(LlmDeviceChat, AFormTakesTheLikeliestTokenThatItAllows) {
  device::HostDevice host;
  auto engine = on_device(kChat, host);
  ASSERT_TRUE(engine);
  const uint32_t vocabulary = engine->text().vocabulary, rows = 40;  // more than are changed at once
  std::vector<msg::Generation> params(rows);
  std::vector<Sequence> all;
  DeviceStepper stepper(*engine);
  for (uint32_t i = 0; i < rows; ++i) {
    params[i].sampling.temperature = 0;
    if (i % 4 != 3) params[i].constraint = std::make_unique<RestConstraint>(vocabulary, i % 5);
    if (i == 20) static_cast<RestConstraint&>(*params[i].constraint).words.clear();
    all.push_back({{5 + i, 8, 20}, {}});
  }
  for (uint32_t i = 0; i < rows; ++i) {
    stepper.add(all[i], 3, Wanted::kNone);
    LogitsRequest request;
    request.token = uint32_t(stepper.step.ids.size()) - 1, request.row = i, request.params = &params[i];
    request.sequence = all[i].ids, request.prompt = 3;
    stepper.step.logits_requests.push_back(request);
  }
  std::vector<float> logits;
  engine->logits_for_tests = &logits;
  ASSERT_TRUE(engine->step(stepper.step).ok());
  ASSERT_EQ(logits.size(), size_t(rows) * vocabulary);
  for (uint32_t i = 0; i < rows; ++i) {
    const float* row = logits.data() + size_t(i) * vocabulary;
    uint32_t best = UINT32_MAX;
    for (uint32_t id = 0; id < vocabulary && i != 20; ++id)
      if ((!params[i].constraint || id % 5 == i % 5) && (best == UINT32_MAX || row[id] > row[best])) best = id;
    EXPECT_EQ(stepper.step.logits_requests[i].id, best) << i;
  }
}

// Seeded draws, with everything that changes logits: the same in a batch as alone, as graphs or not.
TEST(LlmDeviceChat, DrawsAreTheSameAloneAsInABatch) {
  device::HostDevice host;
  auto engine = on_device(kChat, host);
  ASSERT_TRUE(engine);
  msg::Generation params;
  params.sampling.temperature = 0.8f, params.sampling.top_p = 0.95f, params.sampling.top_k = 50;
  params.sampling.repetition_penalty = 1.2f, params.sampling.presence_penalty = 0.3f;
  params.sampling.logit_bias = {{7, 3.f}};
  auto together = talk(*engine, prompts(), 6, params);
  auto one = talk(*engine, {prompts()[0]}, 6, params);
  EXPECT_EQ(one.tokens[0], together.tokens[0]);
}

// Captured before the first step, for every bucket and number of parts; what is drawn is the same with and without.
TEST(LlmDeviceChat, GraphsAreThereBeforeTheFirstStep) {
  device::HostDevice host;
  cuda::DeviceOptions options;
  options.step_tokens = 64, options.max_running = 4;
  std::vector<std::vector<uint32_t>> tokens;
  enum class When { kAtLoad, kAtUse, kNever };
  for (auto when : {When::kAtLoad, When::kAtUse, When::kNever}) {
    options.graphs = when == When::kNever ? Graphs::kOff : Graphs::kOn;
    options.capture_time = when == When::kAtUse ? 0s : 1h;
    auto engine = on_device(kChat, host, options);
    ASSERT_TRUE(engine);
    const size_t at_load = engine->graphs();
    EXPECT_EQ(at_load, when == When::kAtLoad ? 9u : 0u);  // 1, 2, 4 rows; 1, 4, 8 parts
    auto here = talk(*engine, prompts(), 4, greedy()).tokens;
    if (tokens.empty()) tokens = here;
    EXPECT_EQ(here, tokens);
    EXPECT_EQ(engine->graphs(), when == When::kAtUse ? 1u : at_load);
    if (when == When::kAtLoad) {  // what grows does not make them go
      talk(*engine, std::vector(4, std::vector<uint32_t>(16, 5)), 2, greedy());
      EXPECT_EQ(engine->graphs(), at_load);
    }
  }
  options.graphs = Graphs::kOn, options.capture_time = 1ns;
  auto late = on_device(kChat, host, options);
  ASSERT_TRUE(late);
  EXPECT_EQ(late->graphs(), 0u);
  EXPECT_EQ(talk(*late, prompts(), 4, greedy()).tokens, tokens);
}

// The products that were launched: by bucket of the library's rows, and by shape.
using Product = std::tuple<uint32_t, uint32_t, uint32_t, cuda::Matmul::Into>;
std::set<Product>& multiplied() {
  static std::set<Product> products;
  return products;
}
std::set<uint32_t> buckets_of(const std::set<Product>& products) {
  std::set<uint32_t> out;
  for (const auto& product : products) out.insert(std::get<0>(product));
  return out;
}
const cuda::Kernels& watched_products() {
  static cuda::Kernels kernels = cuda::reference::table();
  kernels.matmul = [](const cuda::Launch& launch, cuda::Matmuls* matmuls, const cuda::Matmul& a) {
    if (a.rows > cuda::kThinRows) multiplied().insert({cuda::row_bucket(a.rows), a.outputs, a.inputs, a.into});
    return cuda::reference::table().matmul(launch, matmuls, a);
  };
  multiplied().clear();
  return kernels;
}

TEST(LlmDeviceChat, EveryProductIsChosenBeforeTheFirstStep) {
  device::HostDevice host;
  cuda::DeviceOptions options;
  options.step_tokens = 100, options.max_running = 4, options.capture_time = 1h;
  for (auto graphs : {Graphs::kOn, Graphs::kOff}) {
    options.graphs = graphs;
    auto engine = try_device(kChat, host, options, watched_products());
    ASSERT_TRUE(engine);
    const auto at_load = multiplied();
    EXPECT_EQ(buckets_of(at_load), (std::set<uint32_t>{8, 16, 24, 32, 40, 48, 56, 64, 128}));
    for (uint32_t size : {9u, 33u, 65u, 100u}) talk(**engine, {std::vector<uint32_t>(size, 5)}, 1, greedy());
    EXPECT_EQ(multiplied(), at_load);
  }
}

// Where the time for graphs is over, too; and where one prompt alone cannot fill a step.
TEST(LlmDeviceChat, ProductsOfManySequencesAreChosenBeforeTheFirstStep) {
  device::HostDevice host;
  cuda::DeviceOptions options;
  options.step_tokens = 96, options.max_running = 40, options.capture_time = 1ns;
  auto engine = try_device(kChat, host, options, watched_products(), {.max_length = 48});
  ASSERT_TRUE(engine);
  const auto at_load = multiplied();
  for (uint32_t running : {3u, 9u, 17u, 37u})  // as many logits as sequences
    talk(**engine, std::vector(running, std::vector<uint32_t>(2, 5)), 1, greedy());
  EXPECT_EQ(multiplied(), at_load);
}

TEST(LlmDeviceChat, KernelsAreLoadedBeforeOneIsLaunched) {
  static std::string order;
  order.clear();
  auto kernels = cuda::reference::table();
  kernels.load = [](int32_t) -> cuda::Code { return order += "load ", 0; };
  kernels.embed = [](const cuda::Launch& launch, const cuda::Embed& a) {
    order += "embed ";
    return cuda::reference::table().embed(launch, a);
  };
  device::HostDevice host;
  cuda::DeviceOptions options;
  options.capture_time = 1h, options.graphs = Graphs::kOff, options.max_running = 1, options.step_tokens = 8;
  auto engine = try_device(kChat, host, options, kernels);
  ASSERT_TRUE(engine);
  EXPECT_TRUE(order.starts_with("load embed ")) << order;
  EXPECT_EQ(order.find("load", 1), std::string::npos) << order;
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
    for (auto capture_time : {0s, 10s}) {
      NoGraphs without(at);
      options.capture_time = capture_time;
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

// A device that has no more memory once a model is there.
struct FullDevice final : device::HostDevice {
  base::Result<void*> do_make(device::Kind kind, size_t bytes, Priority priority) override {
    if (full && kind == device::Kind::kBuffer) return base::failure(base::Code::kResourceExhausted, "full");
    return HostDevice::do_make(kind, bytes, priority);
  }
  bool full = false;
};

// The tokens that so many sequences draw at the end of a long text: one block, again and again.
std::vector<uint32_t> drawn_at_the_end(DeviceTransformer& engine, uint32_t rows) {
  constexpr uint32_t kLength = 1900, kBlock = 16, kBlocks = kLength / kBlock + 1;
  Sequence block{std::vector<uint32_t>(kBlock, 5), {}};
  DeviceStepper stepper(engine);
  stepper.add(block, kBlock, Wanted::kNone);
  EXPECT_TRUE(engine.step(stepper.step).ok());
  generation::TokenStep step;
  const auto params = greedy();
  step.tables.assign(kBlocks, stepper.step.tables[0]);
  for (uint32_t i = 0; i < rows; ++i) {
    step.rows.push_back({i, 1, kLength, 0, kBlocks});
    step.ids.push_back(i * 31 % 3000), step.positions.push_back(kLength - 1);
    step.slots.push_back((stepper.step.tables[0] + 1) * kBlock + i);
    step.logits_requests.push_back({.token = i, .row = i, .params = &params, .sequence = step.ids});
  }
  auto status = engine.step(step);
  EXPECT_TRUE(status.ok()) << status.text;
  std::vector<uint32_t> out;
  for (const auto& request : step.logits_requests) out.push_back(request.id);
  return out;
}

TEST(LlmDeviceChat, LongSequencesDoNotFailTheirNeighboursWhereMemoryIsScarce) {
  cuda::DeviceOptions options;
  options.step_tokens = options.max_running = 200, options.graphs = Graphs::kOff;
  device::FakeDevice roomy(Drive::kThread, uint64_t(512) << 20);
  FullDevice scarce;
  auto at_once = on_device(kChat, roomy, options), in_pieces = on_device(kChat, scarce, options);
  ASSERT_TRUE(at_once && in_pieces);
  scarce.full = true;
  EXPECT_EQ(drawn_at_the_end(*in_pieces, 200), drawn_at_the_end(*at_once, 200));
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
  fake.have(device::FakeDevice::Trouble::kHang);
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
  auto params = greedy();
  DeviceStepper first(*engine), second(*engine);
  Sequence s{prompts()[1], {}};
  auto request_logits = [&](generation::TokenStep& step) {
    step.logits_requests.push_back(
        {.token = uint32_t(step.ids.size()) - 1, .params = &params, .sequence = s.ids, .prompt = 17});
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
  second.step.ids[0] = generation::TokenStep::kSampled | 1;  // one id was sampled
  EXPECT_EQ(engine->step(second.step).code, base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace weir::llm
