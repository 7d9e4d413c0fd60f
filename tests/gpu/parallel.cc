// A model that two GPUs compute together (tensor_parallel_size: 2): what one of them alone says, and how fast.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "device/devices.h"
#include "device/host_device.h"
#include "engines/llm/cuda/choice.h"
#include "engines/llm/cuda/device_transformer.h"
#include "model.h"

namespace weir::gpu {
namespace {

using namespace llm::cuda;
using llm::Shape;
using Clock = std::chrono::steady_clock;
using Ranks = std::vector<device::Device*>;
using Step = generation::TokenStep;
// The weights of a rank on its device.
using Weigh = std::function<base::Result<DeviceWeights>(device::Device&, const TensorSplit&)>;

constexpr const char* kDemo = "conf/models/chat/1";  // from the repository's root
constexpr double kRounding = 3e-2;                   // of the largest logit: some steps of bfloat16
constexpr uint32_t kPrompt = 70, kDecoded = 8;       // tokens

base::Result<std::unique_ptr<DeviceTransformer>> make(Lab& lab, const Ranks& ranks, const Shape& shape,
                                                      const Weigh& weigh) {
  const auto count = uint32_t(ranks.size());
  DeviceModel model;
  model.shape = split_shape(shape, count);
  for (uint32_t rank = 0; rank < count; ++rank) {
    auto weights = weigh(*ranks[rank], {rank, count});
    if (!weights) return weights.error();
    if (rank == 0)
      model.weights = std::move(*weights);
    else
      model.others.push_back({ranks[rank], std::move(*weights)});
  }
  auto text = std::make_shared<msg::TextSpec>();
  text->vocabulary = shape.vocabulary, text->max_length = 2048, text->eos_ids = shape.eos_ids;
  model.text = text;
  DeviceOptions options;  // a stand-in's graphs do nothing
  options.graphs = lab.scale == Lab::Scale::kTiny ? llm::Graphs::kOff : llm::Graphs::kOn;
  options.capture_time = capture_time(lab.device);
  auto engine = DeviceTransformer::make(*ranks[0], *lab.kernels, std::move(model), std::move(options));
  if (engine)
    if (auto s = (*engine)->reserve(64, 16); !s.ok()) return s;
  return engine;
}

// One sequence, a prompt and then token by token; logits of every step's last token are wanted.
struct Fed {
  base::Status feed(DeviceTransformer& engine, uint32_t count) {
    const uint32_t blocks = (length + count + 15) / 16;
    Step step;
    step.rows.push_back({0, count, length + count, 0, blocks});
    for (uint32_t b = 0; b < blocks; ++b) step.tables.push_back(b);
    for (uint32_t i = 0; i < count; ++i, ++length) {
      step.ids.push_back((length * 7919 + 13) % std::min(engine.text().vocabulary, 3000u));
      step.positions.push_back(length), step.slots.push_back(length);
    }
    step.logits_requests.push_back({.token = count - 1, .row = 0, .params = &params});
    return engine.step(step);
  }
  msg::Generation params;
  uint32_t length = 0;
};

std::vector<float> logits_of(DeviceTransformer& engine, base::Status& status) {
  std::vector<float> logits;
  engine.logits_for_tests = &logits;
  Fed fed;
  status = fed.feed(engine, kPrompt);
  for (uint32_t n = 0; n < kDecoded && status.ok(); ++n) status = fed.feed(engine, 1);
  engine.logits_for_tests = nullptr;
  return logits;
}

// Seconds of a decode step of one sequence.
double pace(DeviceTransformer& engine) {
  constexpr uint32_t kSteps = 64;
  Fed fed;
  bool good = fed.feed(engine, kPrompt).ok() && fed.feed(engine, 1).ok() && fed.feed(engine, 1).ok();
  auto began = Clock::now();
  for (uint32_t n = 0; n < kSteps; ++n) good = good && fed.feed(engine, 1).ok();
  return good ? std::chrono::duration<double>(Clock::now() - began).count() / kSteps : 0;
}

bool is_without_nccl(const base::Status& why) { return why.text.find("libnccl") != why.text.npos; }

void check_demo(Lab& lab, const Ranks& ranks) {
  auto folder = llm::Folder::open(kDemo);
  auto shape = llm::parse_shape(folder->read("config.json", 1 << 20).value());
  auto store = llm::Store::open(*folder);
  if (!shape || !store) return lab.check("the demo model", 1, 0);
  const Weigh weigh = [&](device::Device& device, const TensorSplit& split) {
    return load_device_weights(*shape, {}, *store, device, split);
  };
  auto alone = make(lab, {ranks[0]}, *shape, weigh), together = make(lab, ranks, *shape, weigh);
  const std::string what = "the demo model on two devices is that of one";
  if (alone && !together && is_without_nccl(together.error()))
    return (void)std::printf("tensor parallel: not checked: %s\n", together.error().text.c_str());
  if (!alone || !together) return lab.check(what + ": " + (alone ? together : alone).error().text, 1, 0);
  base::Status first, second;
  auto theirs = logits_of(**alone, first), ours = logits_of(**together, second);
  lab.check(first.ok() && second.ok() ? what : what + ": " + first.text + second.text, worst_of(ours, theirs),
            kRounding);
}

// The second device; null: there is none, which is said.
device::Device* second_of(Lab& lab, device::Devices& devices) {
  static device::HostDevice other;
  if (lab.device.info().index < 0) return &other;
  if (devices.cuda_count() > 1) return &devices.cuda(1);
  std::printf("tensor parallel: not checked, there is one GPU\n");
  return nullptr;
}

}  // namespace

void check_parallel(Lab& lab, device::Devices& devices) {
  device::Device* second = second_of(lab, devices);
  if (second && std::filesystem::exists(std::string(kDemo) + "/config.json")) check_demo(lab, {&lab.device, second});
}

// Eight layers of an 8B: what splitting them saves, and what its sums cost.
void bench_parallel(Lab& lab, device::Devices& devices) {
  device::Device* second = second_of(lab, devices);
  if (!second) return;
  const bool tiny = lab.scale == Lab::Scale::kTiny;
  const Shape shape = tiny ? random_shape(200, 128, 1, 2, 2, 64, 64) : random_shape(128256, 4096, 8, 32, 8, 128, 14336);
  const Weigh weigh = [&](device::Device& device, const TensorSplit& split) {
    return random_device_weights(split_shape(shape, split.ranks), 7, device);
  };
  double alone = 0;
  for (const Ranks& ranks : {Ranks{&lab.device}, Ranks{&lab.device, second}}) {
    auto engine = make(lab, ranks, shape, weigh);
    if (!engine && is_without_nccl(engine.error())) return;  // as the check has said
    if (!engine) return lab.check("eight layers of 8B: " + engine.error().text, 1, 0);
    const double seconds = pace(**engine);
    if (ranks.size() == 1) alone = seconds;
    lab.check("eight layers of 8B run", seconds > 0 ? 0 : 1, 0);
    lab.bench("eight layers of 8B, a token, devices: " + std::to_string(ranks.size()), seconds * 1e6, "us",
              alone * 1e6);
  }
}

}  // namespace weir::gpu
