// How fast the whole transformer is on the GPU, in the shapes of Llama 1B and 8B and of a mixture (H1 to H6 of the
// goals, as far as they are the engine's).
#include <algorithm>
#include <chrono>
#include <cmath>

#include "engines/llm/cuda/choice.h"
#include "model_steps.h"

namespace weir::gpu {
namespace {

using namespace llm::cuda;
using llm::Shape;
using Clock = std::chrono::steady_clock;

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

// Bytes of weights that a decode step reads, where the router chooses any expert as often as another. `each`: of one.
double weights_read(const Shape& s, double all, uint32_t rows, double each = sizeof(Bf16)) {
  if (!s.experts) return all;
  const auto& e = *s.experts;
  const double idle = e.count * std::pow(1 - double(e.used) / e.count, rows), mixtures = s.layers;
  return all - mixtures * idle * 3 * e.width * s.hidden * each;
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

// Decode alone, of layers in codes.
void bench_quantized(Lab& lab, const std::string& name, const Shape& shape, llm::Keep keep, double peak) {
  const Length length = length_of(lab);
  DeviceOptions options;
  options.step_tokens = 2048, options.max_running = 256, options.capture_time = capture_time(lab.device);
  auto made =
      make(lab.device, *lab.kernels, shape, random_device_weights(shape, 7, lab.device, keep), 256 * 24, options);
  if (!made.engine) return lab.check(name + ": " + made.error, 1, 0);
  const double embedding = shape.tied ? 0 : double(shape.vocabulary) * shape.hidden * sizeof(Bf16);  // is not read
  const double weights = double(made.engine->weight_bytes()) - embedding;
  const double each = keep == llm::Keep::kInt8 ? 1 + 4. / 128 : 0.5 + 4. / 32;  // with its share of a scale
  std::string error;
  for (uint32_t rows : {1u, 8u, 64u}) {
    const auto p = pace(*made.engine, rows, length, shape.vocabulary, error);
    if (!error.empty()) return lab.check(name + ": " + error, 1, 0);
    const double bytes =
        weights_read(shape, weights, rows, each) + double(rows) * double(made.engine->kv_bytes(length.context + 32));
    lab.bench(name + " decode b" + std::to_string(rows), rows / p.overlapped, "tok/s", rows / (bytes / peak));
  }
}

// Decode of few sequences that are long, as bfloat16 and as codes: keys and values are much of what a step reads.
void bench_long(Lab& lab, const std::string& name, const Shape& shape, double peak) {
  constexpr uint32_t kRows = 16;
  Length length = length_of(lab);
  if (lab.scale != Lab::Scale::kTiny) length.context = 4096;
  for (auto codes : {KvCodes::kNone, KvCodes::kFp8}) {
    DeviceOptions options;
    options.step_tokens = 2048, options.max_running = kRows, options.capture_time = capture_time(lab.device);
    options.kv_codes = codes;
    const uint32_t blocks = kRows * ((length.context + 2 * uint32_t(length.warm + length.steps)) / 16 + 2);
    auto made = make(lab.device, *lab.kernels, shape, random_device_weights(shape, 7, lab.device), blocks, options);
    if (!made.engine) return lab.check(name + ": " + made.error, 1, 0);
    std::string error;
    const Pace p = pace(*made.engine, kRows, length, shape.vocabulary, error);
    if (!error.empty()) return lab.check(name + ": " + error, 1, 0);
    const double keys_and_values = double(kRows) * double(made.engine->kv_bytes(length.context + 32));
    lab.bench(name + " decode b16 over 4096" + (codes == KvCodes::kFp8 ? " fp8" : ""), kRows / p.overlapped, "tok/s",
              kRows / ((double(made.engine->weight_bytes()) + keys_and_values) / peak));
  }
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

void bench_model(Lab& lab, Benched which) {
  const bool tiny = lab.scale == Lab::Scale::kTiny;
  const double peak = tiny ? 1e9 : lab.copy_peak();
  const bool small = which == Benched::k1B;
  if (!tiny && !small && lab.device.info().memory <= (uint64_t(30) << 30)) return;
  switch (which) {
    case Benched::k1B: return bench_shape(lab, "1B", tiny ? random_shape(200, 64, 1, 1, 1, 64, 64) : llama_1b(), peak);
    case Benched::k8B: {
      const Shape shape = tiny ? random_shape(200, 128, 1, 1, 1, 128, 64) : llama_8b();
      bench_shape(lab, "8B", shape, peak);
      bench_quantized(lab, "8B int8", shape, llm::Keep::kInt8, peak);
      bench_quantized(lab, "8B int4", shape, llm::Keep::kInt4, peak);
      return bench_long(lab, "8B", shape, peak);
    }
    case Benched::kMixture: {
      const Shape shape = qwen_30b_a3b(tiny);
      bench_shape(lab, "30B-A3B, 12 layers", shape, peak);
      bench_quantized(lab, "30B-A3B, 12 layers int8", shape, llm::Keep::kInt8, peak);
      return bench_quantized(lab, "30B-A3B, 12 layers int4", shape, llm::Keep::kInt4, peak);
    }
  }
}

}  // namespace weir::gpu
