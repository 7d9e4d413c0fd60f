// How fast kernels are, beside what the device can do at most, measured in the same run.
#include "engines/llm/cuda/plan.h"
#include "samples.h"

namespace weir::gpu {

using namespace llm::cuda;

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
      auto d_q = lab.put(some_bf16(lab, size_t(rows) * m.heads * m.dim));
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
      auto d_delta = lab.put(std::vector<Bf16>(size_t(rows) * m.hidden)), d_w = lab.put(some_bf16(lab, m.hidden));
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
      auto d_logits = lab.put(some_floats(lab, size_t(rows) * 128256));
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
