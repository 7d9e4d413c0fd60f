// How fast kernels are, beside what the device can do at most, measured in the same run: what a copy on the device
// reads and writes, and a large product of matrices.
#include "engines/llm/cuda/plan.h"
#include "samples.h"

namespace weir::gpu {
namespace {

using namespace llm::cuda;

struct Model {
  const char* name;
  uint32_t hidden, heads, kv_heads, dim, intermediate;
};
constexpr uint32_t kBlock = 16;

// The measurements; in a rehearsal the same names with next to no work.
struct Sizes {
  std::vector<Model> models{{"1B", 2048, 32, 8, 64, 8192}, {"8B", 4096, 32, 8, 128, 14336}};
  uint32_t vocabulary = 128256, length = 2048, square = 8192;
  std::vector<uint32_t> product_rows{1, 2, 3, 4, 8, 16, 64, 2048}, rows{1, 64};
};
Sizes sizes_of(const Lab& lab) {
  if (lab.scale != Lab::Scale::kTiny) return {};
  return {{{"1B", 128, 2, 1, 64, 128}, {"8B", 256, 2, 1, 128, 256}}, 320, 256, 64, {1, 4, 8, 64}, {1, 4}};
}

std::string words_of(const Model& m, uint32_t rows) { return std::string(" ") + m.name + " b" + std::to_string(rows); }

// Seconds of a product of random numbers.
double multiply(Lab& lab, Matmuls* matmuls, uint32_t rows, uint32_t outputs, uint32_t inputs) {
  auto x = lab.put(some_bf16(lab, size_t(rows) * inputs)), weight = lab.room(size_t(outputs) * inputs * 2);
  auto pattern = some_bf16(lab, size_t(1) << 20);
  auto piece = lab.put(pattern);
  for (size_t done = 0; done < weight.size(); done += piece.size()) {
    device::Copy copy{weight.data() + done, piece.data(), std::min(piece.size(), weight.size() - done)};
    (void)lab.device.copy(lab.stream, device::Way::kOnDevice, {&copy, 1});
  }
  auto out = lab.room(size_t(rows) * outputs * 2);
  Matmul a{Lab::in<Bf16>(x), Lab::in<Bf16>(weight), nullptr, out.data(), rows, outputs, inputs, Matmul::Into::kBf16};
  return lab.time([&] { lab.kernels->matmul(lab.launch, matmuls, a); });
}

struct CodedKind {
  const char* name;
  Format format;
  uint32_t group;
};
constexpr CodedKind kCodedKinds[] = {
    {"int8", Format::kInt8, 128}, {"fp8", Format::kFp8, 128}, {"int4", Format::kInt4, 32}};

// Random codes; scales that are the same for all groups.
double multiply_coded(Lab& lab, Matmuls* matmuls, const CodedKind& kind, uint32_t rows, uint32_t outputs,
                      uint32_t inputs) {
  DeviceMatrix w;
  w.format = kind.format, w.group = std::min(kind.group, inputs);
  w.pitch = uint32_t(row_bytes(w.format, inputs, w.group, false));
  std::vector<uint8_t> codes(inputs), zeros(inputs, 8), all(size_t(outputs) * w.pitch);
  const std::vector<float> scales(inputs, 1.f / 64), offsets(inputs);
  for (auto& code : codes) code = uint8_t(lab.random() % 16);
  for (uint32_t o = 0; o < outputs; ++o)
    write_row(w, inputs, {codes.data(), scales.data(), zeros.data(), offsets.data()},
              reinterpret_cast<std::byte*>(&all[size_t(o) * w.pitch]));
  auto x = lab.put(some_bf16(lab, size_t(rows) * inputs)), weight = lab.put(all);
  auto out = lab.room(size_t(rows) * outputs * 2);
  w.data = weight.data();
  Matmul a{Lab::in<Bf16>(x), w, nullptr, out.data(), rows, outputs, inputs, Matmul::Into::kBf16};
  return lab.time([&] { lab.kernels->matmul(lab.launch, matmuls, a); });
}

// Weights in codes: few rows by the bytes that are read, many by their sums.
void bench_coded(Lab& lab, Matmuls* matmuls, const Sizes& sizes, double peak, double large) {
  const Model& m = sizes.models.back();
  for (const CodedKind& kind : kCodedKinds)
    for (uint32_t rows : sizes.product_rows) {
      const uint32_t outputs = 2 * m.intermediate;
      const double s = multiply_coded(lab, matmuls, kind, rows, outputs, m.hidden);
      const double bytes = double(outputs) * double(row_bytes(kind.format, m.hidden, kind.group, false));
      const std::string name = std::string("gate and up in ") + kind.name + words_of(m, rows);
      if (rows <= 64)
        lab.bench(name, bytes / s / 1e9, "GB/s", peak);
      else
        lab.bench(name, 2.0 * outputs * m.hidden * rows / s / 1e12, "TFLOP/s", large);
    }
}

double bench_products(Lab& lab, const Sizes& sizes, double peak) {
  auto workspace = lab.room(kWorkspace);
  Matmuls* matmuls = nullptr;
  lab.ran(lab.kernels->matmul_open(0, workspace.data(), &matmuls), "matmul_open");
  double large =
      2e-12 * std::pow(double(sizes.square), 3) / multiply(lab, matmuls, sizes.square, sizes.square, sizes.square);
  lab.bench("matmul 8192x8192x8192", large, "TFLOP/s");
  for (const Model& m : sizes.models)
    for (uint32_t rows : sizes.product_rows) {
      double s = multiply(lab, matmuls, rows, 2 * m.intermediate, m.hidden);
      double terms = double(2 * m.intermediate) * m.hidden;
      if (rows <= 64) {
        lab.bench("gate and up" + words_of(m, rows), 2 * terms / s / 1e9, "GB/s", peak);
      } else {
        lab.bench("gate and up" + words_of(m, rows), 2 * terms * rows / s / 1e12, "TFLOP/s", large);
      }
    }
  bench_coded(lab, matmuls, sizes, peak, large);
  lab.ran(lab.kernels->matmul_close(matmuls), "matmul_close");
  return large;
}

// Sequences of `length` positions each.
struct Cache {
  Cache(Lab& lab, const Model& m, uint32_t rows, uint32_t length, KvCodes kept = KvCodes::kNone)
      : positions(size_t(rows) * length), codes(kept) {
    std::vector<uint32_t> blocks(positions / kBlock);
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = uint32_t(i);
    tables = lab.put(blocks);
    // Codes are bytes that are no NaN of E4M3.
    auto numbers = codes == KvCodes::kNone ? some_bf16(lab, size_t(length) * m.kv_heads * m.dim)
                                           : std::vector<Bf16>(size_t(length) * m.kv_heads * m.dim / 2, 0x3a35);
    std::vector<Bf16> all;
    for (uint32_t i = 0; i < rows; ++i) all.insert(all.end(), numbers.begin(), numbers.end());
    k = lab.put(all), v = lab.put(all);
    scales = lab.put(std::vector<float>(codes == KvCodes::kNone ? 1 : positions * m.kv_heads * 2, 1.f / 64));
  }
  // A position's keys and values take so much in one layer.
  double bytes(const Model& m) const {
    return 2.0 * m.kv_heads * (codes == KvCodes::kNone ? 2.0 * m.dim : m.dim + sizeof(float));
  }
  const size_t positions;
  const KvCodes codes;
  device::DeviceBuffer tables, k, v, scales;
};

void bench_decode(Lab& lab, const Model& m, uint32_t rows, uint32_t length, double peak,
                  KvCodes codes = KvCodes::kNone) {
  Cache cache(lab, m, rows, length, codes);
  auto q = lab.put(some_bf16(lab, size_t(rows) * m.heads * m.dim));
  auto lengths = lab.put(std::vector<uint32_t>(rows, length));
  auto memory = part_memory(rows, m.heads, m.dim, parts_of(length));
  auto arrived = lab.put(std::vector<uint32_t>(size_t(rows) * m.kv_heads));
  auto parts = lab.room(memory.bytes), out = lab.room(size_t(rows) * m.hidden * 2);
  auto at = [&](size_t offset) { return reinterpret_cast<float*>(parts.data() + offset); };
  DecodeAttention a{};
  a.q = Lab::in<Bf16>(q), a.k_cache = Lab::in<Bf16>(cache.k), a.v_cache = Lab::in<Bf16>(cache.v);
  a.tables = Lab::in<uint32_t>(cache.tables), a.lengths = Lab::in<uint32_t>(lengths), a.out = Lab::in<Bf16>(out);
  a.part_out = at(memory.out), a.part_max = at(memory.max), a.part_sum = at(memory.sum);
  a.rows = rows, a.heads = m.heads, a.kv_heads = m.kv_heads, a.dim = m.dim;
  a.table_width = length / kBlock, a.block_size = kBlock, a.parts = parts_of(length);
  a.scale = 1 / std::sqrt(float(m.dim)), a.arrived = Lab::in<uint32_t>(arrived);
  a.codes = codes, a.scales = Lab::in<float>(cache.scales);
  double s = lab.time([&] { lab.kernels->decode_attention(lab.launch, a); });
  const double bytes = cache.bytes(m) * double(cache.positions);
  lab.bench(std::string("attention over 2048") + (codes == KvCodes::kFp8 ? " fp8" : "") + words_of(m, rows),
            bytes / s / 1e9, "GB/s", peak);
}

void bench_prefill(Lab& lab, const Model& m, uint32_t length, PrefillAttention::With with, double large) {
  const bool wgmma = with == PrefillAttention::kWgmma;
  if (wgmma && !lab.is_hopper()) return;
  Cache cache(lab, m, 1, length);
  auto q = lab.put(some_bf16(lab, size_t(length) * m.heads * m.dim));
  auto out = lab.room(size_t(length) * m.hidden * 2);
  std::vector<Tile> pieces;
  for (uint32_t query = length; query > 0; query -= kQueryTile) pieces.push_back({0, query - kQueryTile});
  auto tiles = lab.put(pieces);
  auto chunks = lab.put(std::vector<Chunk>{{0, length, 0, 0}});
  PrefillAttention a{};
  a.q = Lab::in<Bf16>(q), a.k_cache = Lab::in<Bf16>(cache.k), a.v_cache = Lab::in<Bf16>(cache.v);
  a.tables = Lab::in<uint32_t>(cache.tables), a.chunks = Lab::in<Chunk>(chunks), a.tiles = Lab::in<Tile>(tiles);
  a.out = Lab::in<Bf16>(out), a.count = uint32_t(pieces.size());
  a.heads = m.heads, a.kv_heads = m.kv_heads, a.dim = m.dim, a.block_size = kBlock;
  a.scale = 1 / std::sqrt(float(m.dim)), a.with = with;
  double s = lab.time([&] { lab.kernels->prefill_attention(lab.launch, a); });
  double sums = 2.0 * m.heads * m.dim * length * length;  // half of the square is seen; two products
  lab.bench(std::string("prefill attention of 2048 ") + (wgmma ? "by wgmma " : "") + m.name, sums / s / 1e12, "TFLOP/s",
            large);
}

void bench_rows(Lab& lab, const Model& m, uint32_t rows) {
  auto stream = lab.put(std::vector<float>(size_t(rows) * m.hidden, 1.f)), out = lab.room(size_t(rows) * m.hidden * 2);
  auto delta = lab.put(std::vector<Bf16>(size_t(rows) * m.hidden)), weight = lab.put(some_bf16(lab, m.hidden));
  AddNorm norm{
      Lab::in<float>(stream), Lab::in<Bf16>(delta), Lab::in<Bf16>(weight), Lab::in<Bf16>(out), rows, m.hidden, 1e-5f};
  double s = lab.time([&] { lab.kernels->add_norm(lab.launch, norm); });
  lab.bench("add_norm" + words_of(m, rows), s * 1e6, "us");
  auto gates = lab.put(some_bf16(lab, size_t(rows) * 2 * m.intermediate));
  auto wide = lab.room(size_t(rows) * m.intermediate * 2);
  SwiGlu swiglu{Lab::in<Bf16>(gates), Lab::in<Bf16>(wide), rows, m.intermediate};
  s = lab.time([&] { lab.kernels->swiglu(lab.launch, swiglu); });
  lab.bench("swiglu" + words_of(m, rows), s * 1e6, "us");
}

// A decode step of one row before its attention and in its gates: weights are read once.
void bench_normed(Lab& lab, const Model& m, double peak) {
  auto stream = lab.put(std::vector<float>(m.hidden, 1.f)), out = lab.room(size_t(2) * m.intermediate * 2);
  auto norm = lab.put(some_bf16(lab, m.hidden));
  auto weight = lab.put(some_bf16(lab, size_t(2) * m.intermediate * m.hidden));
  NormMatmul a{Lab::in<float>(stream),
               Lab::in<Bf16>(norm),
               Lab::in<Bf16>(weight),
               Lab::in<Bf16>(out),
               1,
               m.intermediate,
               m.hidden,
               1e-5f,
               NormMatmul::kSwiGlu};
  double s = lab.time([&] { lab.kernels->norm_matmul(lab.launch, a); });
  lab.bench("norm, gate and up, swiglu" + words_of(m, 1), 4.0 * m.intermediate * m.hidden / s / 1e9, "GB/s", peak);
}

void bench_draws(Lab& lab, uint32_t rows, uint32_t vocabulary) {
  auto logits = lab.put(some_floats(lab, size_t(rows) * vocabulary, 3));
  auto ids = lab.room(rows * 4), logprobs = lab.room(rows * 4), best = lab.room(rows * 80),
       best_ids = lab.room(rows * 80);
  struct Kind {
    const char* name;
    DrawRow params;
  };
  for (const Kind& kind : {Kind{"greedy", {0, 1, 0, 0, 1, 1}}, Kind{"of all", {1, 1, 0, 0, 1, 1}},
                           Kind{"top-p", {1, 0.9f, 0, 0, 1, 1}}, Kind{"top-k top-p", {1, 0.9f, 0, 50, 1, 1}}}) {
    auto params = lab.put(std::vector<DrawRow>(rows, kind.params));
    Draw a{Lab::in<float>(logits), Lab::in<DrawRow>(params), Lab::in<uint32_t>(ids), nullptr, rows, vocabulary};
    double s = lab.time([&] { lab.kernels->draw(lab.launch, a); });
    lab.bench(std::string("draw ") + kind.name + " b" + std::to_string(rows), s * 1e6, "us");
  }
  std::vector<LogprobRow> all;
  for (uint32_t i = 0; i < rows; ++i) all.push_back({i, i, 20});
  auto wanted = lab.put(all);
  Logprobs a{};
  a.logits = Lab::in<float>(logits), a.rows = Lab::in<LogprobRow>(wanted), a.ids = Lab::in<uint32_t>(ids);
  a.logprobs = Lab::in<float>(logprobs), a.best_ids = Lab::in<uint32_t>(best_ids), a.best = Lab::in<float>(best);
  a.count = rows, a.vocabulary = vocabulary, a.most = 20;
  double s = lab.time([&] { lab.kernels->logprobs(lab.launch, a); });
  lab.bench("logprobs, 20 best, b" + std::to_string(rows), s * 1e6, "us");
}

}  // namespace

void bench_kernels(Lab& lab) {
  const Sizes sizes = sizes_of(lab);
  double peak = lab.copy_peak() / 1e9;
  lab.bench("copy on the device", peak, "GB/s");
  double large = bench_products(lab, sizes, peak);
  for (const Model& m : sizes.models) {
    for (auto with : {PrefillAttention::kMma, PrefillAttention::kWgmma})
      bench_prefill(lab, m, sizes.length, with, large);
    bench_normed(lab, m, peak);
    for (uint32_t rows : sizes.rows) {
      for (auto codes : {KvCodes::kNone, KvCodes::kFp8}) bench_decode(lab, m, rows, sizes.length, peak, codes);
      bench_rows(lab, m, rows);
    }
  }
  for (uint32_t rows : sizes.rows) bench_draws(lab, rows, sizes.vocabulary);
}

}  // namespace weir::gpu
