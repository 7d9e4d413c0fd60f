// Every kernel against its host version on fresh random inputs.
#include <algorithm>
#include <cmath>
#include <random>

#include "engines/llm/cuda/bf16.h"
#include "engines/llm/cuda/plan.h"
#include "engines/llm/cuda/reference.h"
#include "lab.h"

namespace weir::gpu {
namespace {

using namespace llm::cuda;

std::mt19937 random_engine{std::random_device{}()};

std::vector<Bf16> some_bf16(size_t n, float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<Bf16> out(n);
  for (auto& b : out) b = narrow_bf16(normal(random_engine));
  return out;
}
std::vector<float> some_floats(size_t n, float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> out(n);
  for (auto& f : out) f = normal(random_engine);
  return out;
}
std::vector<uint32_t> some_below(size_t n, uint32_t end) {
  std::vector<uint32_t> out(n);
  for (auto& i : out) i = uint32_t(random_engine() % end);
  return out;
}

// The largest difference, relative to one or the value where that is more.
double error(const std::vector<Bf16>& a, const std::vector<Bf16>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    double x = widen_bf16(a[i]), y = widen_bf16(b[i]);
    double e = std::abs(x - y) / std::max(1.0, std::abs(y));
    most = std::isnan(e) ? INFINITY : std::max(most, e);
  }
  return most;
}
double error(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    double e = std::abs(double(a[i]) - b[i]) / std::max(1.0, std::abs(double(b[i])));
    most = std::isnan(e) ? INFINITY : std::max(most, e);
  }
  return most;
}

constexpr double kBf16 = 1.0 / 128;  // one step of bfloat16

void check_rows(Lab& lab, uint32_t tokens, uint32_t hidden) {
  std::string shape = " " + std::to_string(tokens) + "x" + std::to_string(hidden);
  auto stream = some_floats(size_t(tokens) * hidden);
  auto delta = some_bf16(stream.size()), weight = some_bf16(hidden);
  auto d_stream = lab.put(stream), d_delta = lab.put(delta), d_weight = lab.put(weight);
  auto d_out = lab.room(delta.size() * 2);
  std::vector<Bf16> out(delta.size());
  lab.ran(lab.kernels->add_norm(lab.launch, {Lab::in<float>(d_stream), Lab::in<Bf16>(d_delta), Lab::in<Bf16>(d_weight),
                                             Lab::in<Bf16>(d_out), tokens, hidden, 1e-5f}),
          "add_norm");
  reference::add_norm({stream.data(), delta.data(), weight.data(), out.data(), tokens, hidden, 1e-5f});
  lab.check("add_norm" + shape, error(lab.get<Bf16>(d_out, out.size()), out), kBf16);
  lab.check("add_norm, the stream" + shape, error(lab.get<float>(d_stream, stream.size()), stream), 1e-6);

  auto gates = some_bf16(size_t(tokens) * 2 * hidden, 3);
  auto d_gates = lab.put(gates);
  lab.ran(lab.kernels->swiglu(lab.launch, {Lab::in<Bf16>(d_gates), Lab::in<Bf16>(d_out), tokens, hidden}), "swiglu");
  reference::swiglu({gates.data(), out.data(), tokens, hidden});
  lab.check("swiglu" + shape, error(lab.get<Bf16>(d_out, out.size()), out), kBf16);

  auto which = some_below(tokens, tokens);
  auto d_which = lab.put(which);
  lab.ran(lab.kernels->gather(
              lab.launch, {Lab::in<Bf16>(d_delta), Lab::in<uint32_t>(d_which), Lab::in<Bf16>(d_out), tokens, hidden}),
          "gather");
  reference::gather({delta.data(), which.data(), out.data(), tokens, hidden});
  lab.check("gather" + shape, error(lab.get<Bf16>(d_out, out.size()), out), 0);
  lab.ran(lab.kernels->embed(lab.launch, {Lab::in<float>(d_stream), Lab::in<Bf16>(d_delta), Lab::in<uint32_t>(d_which),
                                          tokens, hidden}),
          "embed");
  reference::embed({stream.data(), delta.data(), which.data(), tokens, hidden});
  lab.check("embed" + shape, error(lab.get<float>(d_stream, stream.size()), stream), 0);
}

void check_rope(Lab& lab, uint32_t tokens, uint32_t heads, uint32_t kv_heads, uint32_t dim) {
  auto qkv = some_bf16(size_t(tokens) * (heads + 2 * kv_heads) * dim);
  std::vector<float> frequencies(dim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = float(std::pow(500000.0, -2.0 * double(i) / dim));
  auto positions = some_below(tokens, 8192);
  std::vector<uint32_t> slots(tokens);
  for (uint32_t i = 0; i < tokens; ++i) slots[i] = i % 5 == 4 ? kNoSlot : tokens - 1 - i;
  size_t cache = size_t(tokens) * kv_heads * dim;
  std::vector<Bf16> q(size_t(tokens) * heads * dim), k(cache), v(cache);
  auto d_qkv = lab.put(qkv), d_f = lab.put(frequencies), d_p = lab.put(positions), d_s = lab.put(slots);
  auto d_q = lab.put(q), d_k = lab.put(k), d_v = lab.put(v);
  lab.ran(lab.kernels->rope_store(lab.launch, {Lab::in<Bf16>(d_qkv), Lab::in<float>(d_f), Lab::in<uint32_t>(d_p),
                                               Lab::in<uint32_t>(d_s), Lab::in<Bf16>(d_q), Lab::in<Bf16>(d_k),
                                               Lab::in<Bf16>(d_v), tokens, heads, kv_heads, dim, 1}),
          "rope_store");
  reference::rope_store({qkv.data(), frequencies.data(), positions.data(), slots.data(), q.data(), k.data(), v.data(),
                         tokens, heads, kv_heads, dim, 1});
  std::string shape = " " + std::to_string(heads) + "/" + std::to_string(kv_heads) + "x" + std::to_string(dim);
  lab.check("rope" + shape, error(lab.get<Bf16>(d_q, q.size()), q), kBf16);
  lab.check("rope, keys" + shape, error(lab.get<Bf16>(d_k, k.size()), k), kBf16);
  lab.check("rope, values" + shape, error(lab.get<Bf16>(d_v, v.size()), v), 0);
}

void check_attention(Lab& lab, uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t window) {
  constexpr uint32_t kRows = 6, kBlock = 16, kWidth = 80;
  std::vector<uint32_t> lengths{1, 17, 256, 0, 257, 1200};
  std::vector<uint32_t> tables(size_t(kRows) * kWidth);
  for (size_t i = 0; i < tables.size(); ++i) tables[i] = uint32_t(i);
  std::shuffle(tables.begin(), tables.end(), random_engine);
  size_t cache = tables.size() * kBlock * kv_heads * dim;
  auto q = some_bf16(size_t(kRows) * heads * dim), k = some_bf16(cache), v = some_bf16(cache);
  uint32_t parts = captured_parts(1200, 8192);
  auto memory = part_memory(kRows, heads, dim, parts);
  auto d_q = lab.put(q), d_k = lab.put(k), d_v = lab.put(v), d_t = lab.put(tables), d_l = lab.put(lengths);
  auto d_parts = lab.room(memory.bytes), d_out = lab.room(q.size() * 2);
  auto at = [&](size_t offset) { return reinterpret_cast<float*>(d_parts.data() + offset); };
  DecodeAttention a{Lab::in<Bf16>(d_q),
                    Lab::in<Bf16>(d_k),
                    Lab::in<Bf16>(d_v),
                    Lab::in<uint32_t>(d_t),
                    Lab::in<uint32_t>(d_l),
                    at(memory.out),
                    at(memory.max),
                    at(memory.sum),
                    Lab::in<Bf16>(d_out),
                    kRows,
                    heads,
                    kv_heads,
                    dim,
                    kWidth,
                    kBlock,
                    parts,
                    window,
                    1 / std::sqrt(float(dim))};
  lab.ran(lab.kernels->decode_attention(lab.launch, a), "decode_attention");
  auto got = lab.get<Bf16>(d_out, q.size());
  std::vector<Bf16> out(q.size());
  DecodeAttention host = a;
  host.q = q.data(), host.k_cache = k.data(), host.v_cache = v.data(), host.tables = tables.data();
  host.lengths = lengths.data(), host.out = out.data();
  reference::decode_attention(host);
  std::string shape = " " + std::to_string(heads) + "/" + std::to_string(kv_heads) + "x" + std::to_string(dim) +
                      (window ? " window" : "");
  lab.check("attention" + shape, error(got, out), kBf16);
  // The last row alone: bit for bit the same.
  size_t row = size_t(heads) * dim;
  a.q += 5 * row, a.tables += 5 * kWidth, a.lengths += 5, a.rows = 1;
  lab.ran(lab.kernels->decode_attention(lab.launch, a), "decode_attention");
  auto alone = lab.get<Bf16>(d_out, row);
  lab.check("attention alone as in a batch" + shape,
            std::equal(alone.begin(), alone.end(), got.begin() + 5 * long(row)) ? 0 : 1, 0);
}

void check_draw(Lab& lab, uint32_t vocabulary) {
  const std::vector<DrawRow> kinds{{0, 1, 0, 0, 1, 1},
                                   {1, 1, 0, 0, 2, 2},
                                   {0.7f, 0.9f, 0, 0, 3, 3},
                                   {1, 1, 0, 40, 4, 4},
                                   {1.3f, 0.95f, 0.05f, 50, 5, 5},
                                   {1, 1, 0.1f, 0, 6, 6},
                                   {0.5f, 0.01f, 0, 1, 7, 7}};
  constexpr uint32_t kRows = 280;
  auto logits = some_floats(size_t(kRows) * vocabulary, 3);
  for (auto& l : logits) l = std::round(l * 8) / 8;  // many equal ones
  std::vector<DrawRow> wishes;
  for (uint32_t i = 0; i < kRows; ++i) {
    wishes.push_back(kinds[i % kinds.size()]);
    wishes.back().seed = random_engine(), wishes.back().number = i;
  }
  auto d_logits = lab.put(logits), d_wishes = lab.put(wishes), d_ids = lab.room(kRows * 4), d_lp = lab.room(kRows * 4);
  lab.ran(lab.kernels->draw(lab.launch, {Lab::in<float>(d_logits), Lab::in<DrawRow>(d_wishes), Lab::in<uint32_t>(d_ids),
                                         Lab::in<float>(d_lp), kRows, vocabulary}),
          "draw");
  std::vector<uint32_t> ids(kRows);
  std::vector<float> logprobs(kRows);
  reference::draw({logits.data(), wishes.data(), ids.data(), logprobs.data(), kRows, vocabulary});
  auto got = lab.get<uint32_t>(d_ids, kRows);
  auto got_lp = lab.get<float>(d_lp, kRows);
  // exp() of host and device differ in the last bit, so a draw at an edge may fall to a neighbour: rarely.
  double different = 0, off = 0, greedy = 0;
  for (uint32_t i = 0; i < kRows; ++i) {
    different += got[i] != ids[i];
    greedy += i % kinds.size() == 0 && got[i] != ids[i];
    if (got[i] == ids[i]) off = std::max(off, double(std::abs(got_lp[i] - logprobs[i])));
  }
  std::string shape = " of " + std::to_string(vocabulary);
  lab.check("draw, greedy" + shape, greedy, 0);
  lab.check("draw, share of others" + shape, different / kRows, 0.02);
  lab.check("draw, logprob" + shape, off, 1e-3);
}

}  // namespace

void check_kernels(Lab& lab) {
  check_rows(lab, 1, 2048);
  check_rows(lab, 67, 4096);
  check_rows(lab, 3, 130);
  check_rope(lab, 33, 32, 8, 64);
  check_rope(lab, 33, 32, 8, 128);
  check_rope(lab, 5, 8, 8, 256);
  for (uint32_t window : {0u, 300u}) {
    check_attention(lab, 32, 8, 64, window);
    check_attention(lab, 32, 8, 128, window);
    check_attention(lab, 64, 8, 128, window);
    check_attention(lab, 16, 8, 128, window);
    check_attention(lab, 8, 8, 256, window);
  }
  check_draw(lab, 1000);
  check_draw(lab, 128256);
}

void bench_kernels(Lab& lab) {
  // What reads and writes on the device can do at most, measured here.
  constexpr size_t kBig = size_t(1) << 30;
  auto from = lab.room(kBig), to = lab.room(kBig);
  device::Copy copy{to.data(), from.data(), kBig};
  double seconds = lab.time([&] { (void)lab.device.copy(lab.stream, device::Way::kOnDevice, {&copy, 1}); });
  double peak = 2 * double(kBig) / seconds / 1e9;
  lab.bench("copy on the device", peak, "GB/s");

  struct Model {
    const char* name;
    uint32_t hidden, heads, kv_heads, dim, intermediate;
  };
  for (const Model& m : {Model{"1B", 2048, 32, 8, 64, 8192}, Model{"8B", 4096, 32, 8, 128, 14336}})
    for (uint32_t rows : {1u, 64u}) {
      std::string shape = std::string(" ") + m.name + " b" + std::to_string(rows);
      constexpr uint32_t kLength = 2048, kBlock = 16, kWidth = kLength / kBlock;
      std::vector<uint32_t> tables(size_t(rows) * kWidth), lengths(rows, kLength);
      for (size_t i = 0; i < tables.size(); ++i) tables[i] = uint32_t(i);
      size_t cache = tables.size() * kBlock * m.kv_heads * m.dim;
      auto d_k = lab.put(std::vector<Bf16>(cache)), d_v = lab.put(std::vector<Bf16>(cache));
      auto d_q = lab.put(some_bf16(size_t(rows) * m.heads * m.dim));
      auto d_t = lab.put(tables), d_l = lab.put(lengths);
      auto memory = part_memory(rows, m.heads, m.dim, parts_of(kLength));
      auto d_parts = lab.room(memory.bytes), d_out = lab.room(size_t(rows) * m.hidden * 2);
      auto at = [&](size_t offset) { return reinterpret_cast<float*>(d_parts.data() + offset); };
      DecodeAttention a{Lab::in<Bf16>(d_q),
                        Lab::in<Bf16>(d_k),
                        Lab::in<Bf16>(d_v),
                        Lab::in<uint32_t>(d_t),
                        Lab::in<uint32_t>(d_l),
                        at(memory.out),
                        at(memory.max),
                        at(memory.sum),
                        Lab::in<Bf16>(d_out),
                        rows,
                        m.heads,
                        m.kv_heads,
                        m.dim,
                        kWidth,
                        kBlock,
                        parts_of(kLength),
                        0,
                        1 / std::sqrt(float(m.dim))};
      double s = lab.time([&] { lab.kernels->decode_attention(lab.launch, a); });
      lab.bench("attention over 2048" + shape, 4.0 * double(cache) / s / 1e9, "GB/s", peak);

      auto d_stream = lab.put(std::vector<float>(size_t(rows) * m.hidden, 1.f));
      auto d_delta = lab.put(std::vector<Bf16>(size_t(rows) * m.hidden)), d_w = lab.put(some_bf16(m.hidden));
      s = lab.time([&] {
        lab.kernels->add_norm(lab.launch, {Lab::in<float>(d_stream), Lab::in<Bf16>(d_delta), Lab::in<Bf16>(d_w),
                                           Lab::in<Bf16>(d_out), rows, m.hidden, 1e-5f});
      });
      lab.bench("add_norm" + shape, s * 1e6, "us");
      auto d_gates = lab.put(std::vector<Bf16>(size_t(rows) * 2 * m.intermediate));
      auto d_wide = lab.room(size_t(rows) * m.intermediate * 2);
      s = lab.time([&] {
        lab.kernels->swiglu(lab.launch, {Lab::in<Bf16>(d_gates), Lab::in<Bf16>(d_wide), rows, m.intermediate});
      });
      lab.bench("swiglu" + shape, s * 1e6, "us");
      auto d_logits = lab.put(some_floats(size_t(rows) * 128256));
      for (float temperature : {0.f, 1.f}) {
        auto d_wish = lab.put(std::vector<DrawRow>(rows, {temperature, 0.9f, 0, 50, 1, 1}));
        auto d_ids = lab.room(rows * 4);
        s = lab.time([&] {
          lab.kernels->draw(lab.launch, {Lab::in<float>(d_logits), Lab::in<DrawRow>(d_wish), Lab::in<uint32_t>(d_ids),
                                         nullptr, rows, 128256});
        });
        lab.bench((temperature > 0 ? "draw top-k top-p" : "draw greedy") + shape, s * 1e6, "us");
      }
    }
}

}  // namespace weir::gpu
