// The whole transformer on the GPU: against the kernels' host versions with the same random weights, against the CPU
// engine on the demo model, and how fast it is in the shapes of Llama 1B and 8B (H1 to H6 of the goals, as far as they
// are the engine's).
#include "model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "device/host_device.h"
#include "engines/llm/cpu/transformer.h"
#include "engines/llm/cuda/choice.h"
#include "engines/llm/cuda/device_transformer.h"
#include "engines/llm/cuda/reference.h"

namespace weir::gpu {
namespace {

using namespace llm::cuda;
using llm::Shape;
using Clock = std::chrono::steady_clock;
using Step = generation::TokenStep;

constexpr const char* kChat = "conf/models/chat/1";  // from the repository's root
constexpr double kLogits = 3e-2;                     // of the largest logit: some steps of bfloat16
constexpr double kOtherExperts = 0.2;                // of the rows

struct Made {
  std::unique_ptr<DeviceTransformer> engine;
  std::string error;
};

Made make(device::Device& device, const Kernels& kernels, const Shape& shape, base::Result<DeviceWeights> weights,
          uint32_t blocks, DeviceOptions options) {
  if (!weights) return {nullptr, weights.error().text};
  DeviceModel model;
  model.shape = shape, model.weights = std::move(*weights);
  auto text = std::make_shared<msg::TextSpec>();
  text->vocabulary = shape.vocabulary, text->max_length = shape.max_length, text->eos_ids = shape.eos_ids;
  model.text = text;
  auto engine = DeviceTransformer::make(device, kernels, std::move(model), std::move(options));
  if (!engine) return {nullptr, engine.error().text};
  if (auto s = (*engine)->reserve(blocks, 16); !s.ok()) return {nullptr, s.text};
  return {std::move(*engine), ""};
}

// Sequences that are stepped together; sequence i has blocks of its own.
struct Sequences {
  Sequences(uint32_t count, uint32_t blocks_each) : length(count, 0), each(blocks_each) {}

  // A row for sequence `i`: `ids` at its end, and a greedy draw after them.
  void add(Step& step, uint32_t i, const std::vector<uint32_t>& ids) {
    const auto first = uint32_t(step.ids.size()), n = uint32_t(ids.size());
    step.rows.push_back({first, n, length[i] + n, uint32_t(step.tables.size()), each});
    for (uint32_t b = 0; b < each; ++b) step.tables.push_back(i * each + b);
    for (uint32_t k = 0; k < n; ++k) {
      step.ids.push_back(ids[k]), step.positions.push_back(length[i] + k);
      step.slots.push_back(i * each * 16 + length[i] + k);
    }
    step.logits_requests.push_back({.token = first + n - 1, .row = uint32_t(step.rows.size()) - 1, .params = &params});
    length[i] += n;
  }
  // Each one's next token, which its look of the step before has drawn.
  void add_next(Step& step) {
    for (uint32_t i = 0; i < length.size(); ++i) add(step, i, {Step::kSampled | i});
  }

  msg::Generation params = [] {
    msg::Generation g;
    g.sampling.temperature = 0;
    return g;
  }();
  std::vector<uint32_t> length;
  uint32_t each;
};

std::vector<uint32_t> prompt(uint32_t n, uint32_t below, uint32_t seed) {
  std::vector<uint32_t> out(n);
  for (uint32_t i = 0; i < n; ++i) out[i] = (i * 7919 + seed * 104729 + 13) % below;
  return out;
}

// Logits of a prefill (two prompts each of 1, 1 + longer, 1 + 2 * longer) and of some decode steps, greedy; the ids
// that `ids` has are fed, or noted. More rows than kPairRows, also in the last layer and in a graph.
template <class Engine>
std::vector<float> logits_of(Engine& engine, uint32_t longer, std::vector<uint32_t>& ids, std::string& error) {
  const uint32_t vocabulary = engine.text().vocabulary;
  std::vector<float> logits;
  engine.logits_for_tests = &logits;
  constexpr uint32_t kCount = kPairRows + 2;
  Sequences sequences(kCount, 10);
  const bool notes = ids.empty();
  for (uint32_t n = 0; n < 5; ++n) {
    Step step;
    for (uint32_t i = 0; i < kCount; ++i)
      sequences.add(step, i,
                    n == 0 ? prompt(1 + longer * (i % 3), vocabulary, i) : std::vector{ids[(n - 1) * kCount + i]});
    if (auto s = engine.step(step); !s.ok()) return error = s.text, logits;
    if (notes)
      for (const auto& request : step.logits_requests) ids.push_back(request.id);
  }
  engine.logits_for_tests = nullptr;
  return logits;
}

// The share of rows that are further off than rounding makes them: its router has chosen another expert, whose score
// was the same but for rounding. Only where the last layer alone is a mixture is that a row's own affair.
double share_off(const std::vector<float>& ours, const std::vector<float>& theirs, size_t row) {
  double off = 0, rows = double(theirs.size()) / double(row);
  if (ours.size() != theirs.size()) return INFINITY;
  for (size_t at = 0; at < ours.size(); at += row)
    off += worst_of({ours.begin() + ptrdiff_t(at), ours.begin() + ptrdiff_t(at + row)},
                    {theirs.begin() + ptrdiff_t(at), theirs.begin() + ptrdiff_t(at + row)}) > kLogits;
  return off / rows;
}

void check_random(Lab& lab, const char* name, Shape shape) {
  const uint64_t seed = lab.random();
  device::HostDevice host;
  auto here = make(lab.device, *lab.kernels, shape, random_device_weights(shape, seed, lab.device), 64, {});
  auto there = make(host, reference::table(), shape, random_device_weights(shape, seed, host), 64, {});
  std::string what = std::string("whole model, ") + name;
  if (!here.engine || !there.engine) return lab.check(what + ": " + here.error + there.error, 1, 0);
  std::vector<uint32_t> ids;
  std::string error;
  const uint32_t longer = lab.scale == Lab::Scale::kFull ? 70 : 35;
  auto theirs = logits_of(*there.engine, longer, ids, error);
  auto ours = logits_of(*here.engine, longer, ids, error);
  if (!error.empty()) what += ": " + error;
  if (!shape.experts || shape.experts->used == shape.experts->count)
    return lab.check(what, worst_of(ours, theirs), kLogits);
  lab.check(what, share_off(ours, theirs, shape.vocabulary), kOtherExperts);
}

// Greedy text of the demo model: the CPU engine's in bfloat16, token by token.
void check_demo(Lab& lab) {
  if (!std::filesystem::exists(std::string(kChat) + "/config.json")) return;
  auto folder = llm::Folder::open(kChat);
  auto shape = llm::parse_shape(folder->read("config.json", 1 << 20).value());
  auto store = llm::Store::open(*folder);
  if (!shape || !store) return lab.check("the demo model", 1, 0);
  auto here = make(lab.device, *lab.kernels, *shape, load_device_weights(*shape, {}, *store, lab.device), 64, {});
  if (!here.engine) return lab.check("the demo model: " + here.error, 1, 0);
  auto team = std::make_unique<llm::ThreadTeam>(4);
  llm::Model model;
  model.shape = *shape, model.form = llm::WeightFormat::kBf16;
  model.weights = llm::load_weights(*shape, *store, model.form, *team).value();
  auto text = std::make_shared<msg::TextSpec>();
  text->vocabulary = shape->vocabulary;
  model.text = text;
  llm::Transformer cpu(std::move(model), llm::kernels(), std::move(team), 512);
  (void)cpu.reserve(64, 16);
  auto talk = [&](generation::TokenEngine& engine) {
    std::vector<uint32_t> said;
    Sequences sequences(1, 16);
    auto next = prompt(24, 3000, 1);
    for (int n = 0; n < 48; ++n) {
      Step step;
      sequences.add(step, 0, next);
      if (!engine.step(step).ok()) break;
      said.push_back(step.logits_requests[0].id), next = {said.back()};
    }
    return said;
  };
  auto ours = talk(*here.engine), theirs = talk(cpu);
  lab.check("greedy text of the demo model is the CPU's", ours.size() == 48 && ours == theirs ? 0 : 1, 0);
}

constexpr double kAtOnce = 5e-6;  // seconds: a step that is collected so soon was over already

struct Pace {
  double overlapped = 0, alone = 0;  // seconds per decode step
  double host = 0;                   // of it, with overlap, what the host needs to queue one
  double idle = 0;                   // share of steps that were over before the next one was queued
};

// How long a bench is.
struct Length {
  int warm = 4, steps = 48, prompts = 6;
  uint32_t context = 128, prompt = 512;
};
Length length_of(const Lab& lab) { return lab.scale == Lab::Scale::kTiny ? Length{1, 2, 2, 8, 20} : Length{}; }

// Decode steps of a whole batch: each read before the next is submitted, and each submitted before the last is read.
Pace pace(DeviceTransformer& engine, uint32_t rows, const Length& length, uint32_t vocabulary, std::string& error) {
  Sequences sequences(rows, (length.context + 2 * uint32_t(length.warm + length.steps) + 16) / 16);
  auto run = [&](Step& step) {
    if (auto s = engine.step(step); !s.ok() && error.empty()) error = s.text;
  };
  for (uint32_t done = 0; done < length.context;) {  // prompts, in steps that fit
    uint32_t n = std::min(length.context - done, std::max(1u, 2048 / rows));
    Step step;
    for (uint32_t i = 0; i < rows; ++i) sequences.add(step, i, prompt(n, vocabulary, i));
    run(step);
    done += n;
  }
  Pace out;
  auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  auto timed = [&](auto&& steps) {
    for (int n = 0; n < length.warm; ++n) {
      Step step;
      sequences.add_next(step);
      run(step);
    }
    auto began = Clock::now();
    steps();
    return seconds(Clock::now() - began) / length.steps;
  };
  out.alone = timed([&] {
    for (int n = 0; n < length.steps && error.empty(); ++n) {
      Step step;
      sequences.add_next(step);
      run(step);
    }
  });
  out.overlapped = timed([&] {
    Step steps[2];
    for (int n = 0; n <= length.steps && error.empty(); ++n) {
      auto began = Clock::now();
      if (n < length.steps) {
        auto& step = steps[n % 2];
        step.clear();
        sequences.add_next(step);
        if (auto s = engine.submit(step); !s.ok()) error = s.text;
      }
      auto queued = Clock::now();
      out.host += seconds(queued - began) / length.steps;
      if (n > 0 && error.empty())
        if (auto s = engine.collect(steps[(n + 1) % 2]); !s.ok()) error = s.text;
      if (n > 0 && n < length.steps) out.idle += double(seconds(Clock::now() - queued) < kAtOnce) / length.steps;
    }
  });
  return out;
}

// Seconds of a step in which `rows` sequences go on and another one is fed `chunk` tokens of its prompt.
double mixed(DeviceTransformer& engine, uint32_t rows, uint32_t chunk, const Length& length, uint32_t vocabulary,
             std::string& error) {
  Sequences sequences(rows + 1, (std::max(length.context + uint32_t(length.steps), chunk) + 16) / 16);
  auto run = [&](Step& step) {
    if (auto s = engine.step(step); !s.ok() && error.empty()) error = s.text;
  };
  for (uint32_t i = 0; i < rows; ++i) {
    Step step;
    sequences.add(step, i, prompt(length.context, vocabulary, i));
    run(step);
  }
  double best = 1e9;
  for (int n = 0; n < length.prompts && error.empty(); ++n) {
    Step step;
    for (uint32_t i = 0; i < rows; ++i) sequences.add(step, i, {1});
    sequences.length[rows] = 0;
    sequences.add(step, rows, prompt(chunk, vocabulary, rows));
    auto began = Clock::now();
    run(step);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - began).count());
  }
  return best;
}

// Bytes of weights that a decode step reads, where the router chooses any expert as often as another.
double weights_read(const Shape& s, double all, uint32_t rows) {
  if (!s.experts) return all;
  const auto& e = *s.experts;
  const double idle = e.count * std::pow(1 - double(e.used) / e.count, rows), mixtures = s.layers;
  return all - mixtures * idle * 3 * e.width * s.hidden * sizeof(Bf16);
}

// `peak`: bytes per second.
void bench_shape(Lab& lab, const std::string& name, const Shape& shape, double peak) {
  const Length length = length_of(lab);
  DeviceOptions options;
  options.step_tokens = 2048, options.max_running = 256, options.capture_time = capture_time(lab.device);
  const uint32_t blocks = 256 * 24;  // 256 sequences of 384 positions
  auto made = make(lab.device, *lab.kernels, shape, random_device_weights(shape, 7, lab.device), blocks, options);
  if (!made.engine) return lab.check(name + ": " + made.error, 1, 0);
  auto& engine = *made.engine;
  const double weights = double(engine.weight_bytes());
  std::string error;
  for (uint32_t rows : {1u, 8u, 64u, 128u, 256u}) {
    auto p = pace(engine, rows, length, shape.vocabulary, error);
    if (!error.empty()) return lab.check(name + ": " + error, 1, 0);
    std::string batch = " b" + std::to_string(rows);
    double bytes = weights_read(shape, weights, rows) + double(rows) * double(engine.kv_bytes(length.context + 32));
    lab.bench(name + " decode" + batch, rows / p.overlapped, "tok/s", rows / (bytes / peak));
    lab.bench(name + " decode, each step read first" + batch, rows / p.alone, "tok/s", rows / p.overlapped);
    lab.bench(name + " share of a step that overlap hides" + batch, 100 * (1 - p.overlapped / p.alone), "%");
    lab.bench(name + " host's time per step" + batch, 1e6 * p.host, "us", 1e6 * p.overlapped);
    lab.bench(name + " steps over before the next is queued" + batch, 100 * p.idle, "%");
  }
  for (uint32_t chunk : {length.prompt / 8, length.prompt}) {
    const double s = mixed(engine, 128, chunk, length, shape.vocabulary, error);
    if (!error.empty()) return lab.check(name + ": " + error, 1, 0);
    lab.bench(name + " decode b128 beside " + std::to_string(chunk) + " tokens of a prompt", s * 1e3, "ms");
  }
  double best = 1e9;
  for (int n = 0; n < length.prompts && error.empty(); ++n) {  // the first warms up
    Sequences sequences(1, length.prompt / 16 + 1);
    Step step;
    sequences.add(step, 0, prompt(length.prompt, shape.vocabulary, uint32_t(n)));
    auto began = Clock::now();
    if (auto s = engine.step(step); !s.ok()) error = s.text;
    best = std::min(best, std::chrono::duration<double>(Clock::now() - began).count());
  }
  if (!error.empty()) return lab.check(name + ": " + error, 1, 0);
  lab.bench(name + " prompt of 512", best * 1e3, "ms");
}

// The last layer is a mixture.
Shape mixture(Shape shape, uint32_t count, uint32_t used, uint32_t width, uint32_t shared_width) {
  llm::ExpertShape experts{.count = count, .used = used, .width = width, .shared_width = shared_width};
  experts.layers.assign(shape.layers, false), experts.layers.back() = true;
  shape.experts = std::move(experts);
  return shape;
}

void check_mixtures(Lab& lab, const Shape& shape, uint32_t width) {
  Shape all = mixture(shape, 5, 5, width, 2 * width);  // whole prompts go through the layers before the last
  all.experts->layers.assign(all.layers, true);
  check_random(lab, "all experts and a shared one", all);
  Shape scaled = mixture(shape, 12, 3, width, 0);
  scaled.experts->normalised = true;
  scaled.embedding_scale = 12, scaled.residual_scale = 0.5f, scaled.logits_divisor = 3, scaled.attention_scale = 0.1f;
  check_random(lab, "three of twelve experts, scales", scaled);
}

Shape llama_1b() { return random_shape(128256, 2048, 16, 32, 8, 64, 8192); }
Shape llama_8b() {
  Shape s = random_shape(128256, 4096, 32, 32, 8, 128, 14336);
  s.tied = false;
  return s;
}

// A quarter of Qwen3-30B-A3B's layers.
Shape qwen_30b_a3b(bool tiny) {
  Shape s = tiny ? random_shape(200, 64, 1, 1, 1, 64, 64) : random_shape(151936, 2048, 12, 32, 4, 128, 6144);
  s.qk_norm = true, s.tied = false;
  s.experts = llm::ExpertShape{.count = 128, .used = 8, .width = 768, .normalised = true};
  if (tiny) s.experts->count = 6, s.experts->used = 2, s.experts->width = 16;
  s.experts->layers.assign(s.layers, true);
  return s;
}

}  // namespace

Shape random_shape(uint32_t vocabulary, uint32_t hidden, uint32_t layers, uint32_t heads, uint32_t kv_heads,
                   uint32_t dim, uint32_t intermediate) {
  Shape s;
  s.vocabulary = vocabulary, s.hidden = hidden, s.layers = layers, s.heads = heads, s.kv_heads = kv_heads;
  s.head_dim = dim, s.intermediate = intermediate, s.max_length = 8192, s.tied = true;
  s.windows.assign(layers, 0);
  for (uint32_t i = 0; i < dim / 2; ++i)
    s.rope.frequencies.push_back(float(std::pow(500000.0, -2.0 * double(i) / double(dim))));
  return s;
}

double worst_of(const std::vector<float>& ours, const std::vector<float>& theirs) {
  double most = 0, off = ours.size() == theirs.size() && !ours.empty() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    double d = std::abs(double(ours[i]) - double(theirs[i]));
    most = std::max(most, double(std::abs(theirs[i]))), off = d >= 0 ? std::max(off, d) : INFINITY;
  }
  return off / std::max(most, 1e-9);
}

void check_model(Lab& lab) {
  if (lab.scale != Lab::Scale::kFull) {
    check_random(lab, "heads of 64", random_shape(200, 128, 2, 2, 1, 64, 128));
    Shape qwen = random_shape(200, 192, 2, 3, 1, 64, 128);
    qwen.qk_norm = true, qwen.tied = false, qwen.windows[1] = 20;
    check_random(lab, "three heads in a group, head norms, a window", qwen);
    check_mixtures(lab, random_shape(200, 128, 2, 2, 1, 64, 128), 40);
    return check_encoder_models(lab);
  }
  check_mixtures(lab, random_shape(1000, 512, 2, 8, 2, 64, 1024), 264);
  check_random(lab, "heads of 64", random_shape(1000, 512, 2, 8, 2, 64, 1024));
  check_random(lab, "heads of 128, groups of 7", random_shape(1000, 896, 2, 7, 1, 128, 1024));
  Shape qwen = random_shape(1000, 512, 2, 8, 2, 64, 1024);
  qwen.qk_norm = true, qwen.tied = false;
  std::fill(qwen.windows.begin(), qwen.windows.end(), 50);
  check_random(lab, "head norms and a window", qwen);
  check_demo(lab);
  check_encoder_models(lab);
}

void bench_model(Lab& lab, Benched which) {
  const bool tiny = lab.scale == Lab::Scale::kTiny;
  const double peak = tiny ? 1e9 : lab.copy_peak();
  const bool small = which == Benched::k1B;
  if (!tiny && !small && lab.device.info().memory <= (uint64_t(30) << 30)) return;
  switch (which) {
    case Benched::k1B: return bench_shape(lab, "1B", tiny ? random_shape(200, 64, 1, 1, 1, 64, 64) : llama_1b(), peak);
    case Benched::k8B:
      return bench_shape(lab, "8B", tiny ? random_shape(200, 128, 1, 1, 1, 128, 64) : llama_8b(), peak);
    case Benched::kMixture: return bench_shape(lab, "30B-A3B, 12 layers", qwen_30b_a3b(tiny), peak);
  }
}

}  // namespace weir::gpu
