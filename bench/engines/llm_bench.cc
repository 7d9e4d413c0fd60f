// Decode and prefill of a Llama-shaped model of 112 million random bfloat16 parameters, beside what memory allows.
//
//   build/bench/engines/llm_bench [threads] [kernels] [float32|bfloat16|int8|int4] [int8]
//
// The last int8: as which keys and values are kept; the one before, the layers' matrices. "limit" is the weights' bytes
// over the bandwidth at which the same threads read memory: decoding one sequence cannot be faster. Every figure is the
// best of several rounds, since the machine may be busy.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "engines/llm/cpu/transformer.h"

namespace {

using namespace weir;
using namespace weir::llm;

// With one thread, CPU time, which a busy machine disturbs less.
bool one_thread = false;
double seconds() {
  timespec t;
  clock_gettime(one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

Matrix random_matrix(WeightFormat form, Keep keep, uint32_t outputs, uint32_t inputs) {
  uint32_t state = outputs * 31 + inputs;
  std::vector<float> numbers(size_t(outputs) * inputs);
  for (float& x : numbers) x = float(int32_t(state = state * 1664525 + 1013904223)) * 0x1p-31f * 0.05f;
  const Array array{Stored::kF32, {outputs, inputs}, std::as_bytes(std::span(numbers))};
  const Weight weight(array);
  const Source source{&weight};
  ThreadTeam team(1);
  return pack(plan_matrix(form, keep, outputs, inputs, {&source, 1}), {&source, 1}, team).value();
}

Model random_model(WeightFormat form, Keep keep) {
  Model model;
  Shape& s = model.shape;
  s.vocabulary = 32000, s.hidden = 768, s.layers = 14, s.heads = 12, s.kv_heads = 4, s.head_dim = 64;
  s.intermediate = 2048, s.max_length = 4096, s.tied = true;
  s.windows.assign(s.layers, 0);
  for (uint32_t i = 0; i < 32; ++i) s.rope.frequencies.push_back(std::pow(10000.0f, -float(i) / 32));
  model.form = form;
  model.weights.embedding = random_matrix(form, Keep::kWhole, s.vocabulary, s.hidden);
  model.weights.norm.assign(s.hidden, 1);
  for (uint32_t i = 0; i < s.layers; ++i) {
    Layer l;
    l.input_norm.assign(s.hidden, 1), l.post_norm.assign(s.hidden, 1);
    l.qkv = random_matrix(form, keep, 20 * 64, s.hidden), l.out = random_matrix(form, keep, s.hidden, 768);
    l.gate_up = random_matrix(form, keep, 4096, s.hidden), l.down = random_matrix(form, keep, s.hidden, 2048);
    model.weights.layers.push_back(std::move(l));
  }
  auto text = std::make_shared<msg::TextSpec>();
  text->vocabulary = s.vocabulary;
  model.text = text;
  return model;
}

size_t weight_bytes(const Weights& w) {
  size_t n = w.embedding.bytes();
  for (const auto& l : w.layers) n += l.qkv.bytes() + l.out.bytes() + l.gate_up.bytes() + l.down.bytes();
  return n;
}

// Bytes per second at which the team reads what does not fit into a cache.
double bandwidth(ThreadTeam& team) {
  Memory memory(size_t(512) << 20);
  std::memset(memory.data(), 1, memory.size());
  double best = 0;
  for (int round = 0; round < 8; ++round) {
    double start = seconds();
    std::atomic<uint64_t> sink{0};
    team.run(uint32_t(memory.size() >> 20), 4, [&](uint32_t from, uint32_t to, uint32_t) {
      float most = kernels().maximum(memory.as<float>() + (size_t(from) << 18), size_t(to - from) << 18);
      sink += uint64_t(most);
    });
    best = std::max(best, double(memory.size()) / (seconds() - start));
  }
  return best;
}

struct Row {
  uint32_t sequence, from, count;
};

void fill(generation::TokenStep& step, std::initializer_list<Row> rows, const msg::Generation& params,
          uint32_t blocks_each) {
  step.clear();
  for (const auto& r : rows) {
    generation::TokenStep::Row row;
    row.first = uint32_t(step.ids.size()), row.count = r.count, row.length = r.from + r.count;
    row.table = uint32_t(step.tables.size()), row.blocks = (row.length + 15) / 16;
    for (uint32_t b = 0; b < row.blocks; ++b) step.tables.push_back(r.sequence * blocks_each + b);
    for (uint32_t p = r.from; p < r.from + r.count; ++p) {
      step.ids.push_back((p * 7919 + r.sequence) % 32000), step.positions.push_back(p);
      step.slots.push_back(r.sequence * blocks_each * 16 + p);
    }
    generation::TokenStep::LogitsRequest request;
    request.token = uint32_t(step.ids.size()) - 1, request.row = uint32_t(step.rows.size()), request.params = &params;
    step.logits_requests.push_back(request);
    step.rows.push_back(row);
  }
}

}  // namespace

int main(int argc, char** argv) {
  uint32_t threads = argc > 1 ? uint32_t(std::atoi(argv[1])) : usual_threads();
  const Kernels* with = argc > 2 ? kernels(argv[2]) : &kernels();
  const std::string_view weights = argc > 3 ? argv[3] : "bfloat16";
  const WeightFormat form = weights == "float32" ? WeightFormat::kF32 : WeightFormat::kBf16;
  const Keep keep = weights == "int8" ? Keep::kInt8 : weights == "int4" ? Keep::kInt4 : Keep::kWhole;
  const bool int8 = argc > 4 && std::string_view(argv[4]) == "int8";
  if (!with || threads == 0) return std::fprintf(stderr, "no such kernels here\n"), 2;
  one_thread = threads == 1;
  Model model = random_model(form, keep);
  if (int8) model.kv_format = KvFormat::kInt8;
  const size_t bytes = weight_bytes(model.weights);
  auto team = std::make_unique<ThreadTeam>(threads);
  double read = bandwidth(*team);
  constexpr uint32_t blocks_each = 256, kLong = 4000;
  Transformer engine(std::move(model), *with, std::move(team), 512);
  if (!engine.reserve(8 * blocks_each, 16).ok()) return 1;
  msg::Generation params;
  params.sampling.temperature = 0;
  generation::TokenStep step;
  auto best = [&](std::initializer_list<Row> rows, int rounds) {
    double least = 1e9;
    for (int i = 0; i < rounds; ++i) {
      fill(step, rows, params, blocks_each);
      double start = seconds();
      if (!engine.step(step).ok()) std::abort();
      least = std::min(least, seconds() - start);
    }
    return least;
  };
  std::printf("%s, %s, %u threads: %.0f MB of weights, %.1f KiB of keys and values a token%s, memory reads %.1f GB/s\n",
              std::string(with->name).c_str(), form == WeightFormat::kBf16 ? "bfloat16" : "float32", threads,
              double(bytes) / 1e6, double(engine.kv_bytes(16)) / 16 / 1024, int8 ? " as int8" : "", read / 1e9);
  double prefill = best({{0, 0, 512}}, 8);
  for (uint32_t s = 1; s < 8; ++s) best({{s, 0, 512}}, 1);
  double one = best({{0, 512, 1}}, 60), limit = read / double(bytes);
  double four = best({{0, 512, 1}, {1, 512, 1}, {2, 512, 1}, {3, 512, 1}}, 40);
  double eight = best(
      {{0, 512, 1}, {1, 512, 1}, {2, 512, 1}, {3, 512, 1}, {4, 512, 1}, {5, 512, 1}, {6, 512, 1}, {7, 512, 1}}, 40);
  for (uint32_t s = 0; s < 8; ++s)
    for (uint32_t from = 512; from < kLong; from += 512) best({{s, from, std::min(512u, kLong - from)}}, 1);
  auto behind = [&](uint32_t s) { return Row{s, kLong, 1}; };
  double far = best({behind(0), behind(1), behind(2), behind(3), behind(4), behind(5), behind(6), behind(7)}, 20);
  double flops = 2.0 * double(bytes) / double(size_of(form)) * 512;
  std::printf("prefill 512: %7.1f ms  %8.0f tokens/s  %6.0f GFLOP/s\n", prefill * 1e3, 512 / prefill,
              flops / prefill / 1e9);
  std::printf("decode 1:    %7.2f ms  %8.0f tokens/s  %5.0f%% of the limit %.0f\n", one * 1e3, 1 / one,
              100 / one / limit, limit);
  std::printf("decode 4:    %7.2f ms  %8.0f tokens/s\n", four * 1e3, 4 / four);
  std::printf("decode 8:    %7.2f ms  %8.0f tokens/s  %5.1f times one\n", eight * 1e3, 8 / eight, 8 / eight * one);
  std::printf("decode 8 behind %u: %.2f ms  %.0f tokens/s\n", kLong, far * 1e3, 8 / far);
}
