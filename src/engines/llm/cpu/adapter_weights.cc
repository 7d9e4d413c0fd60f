#include "engines/llm/cpu/adapter_weights.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

#include "engines/llm/cpu/transformer.h"
#include "engines/llm/cpu/weights.h"

namespace weir::llm {
namespace {

uint32_t padded_rank(uint32_t rank) { return (rank + 15) / 16 * 16; }

// A module, and where its outputs go in the matrix that it is a part of.
struct ModulePart {
  std::string module;
  uint32_t outputs = 0, first = 0;
  Lay lay = Lay::kInOrder;
};

// An array of floats in memory.
struct FloatArray {
  FloatArray(uint64_t rows, uint64_t columns) : numbers(rows * columns) {
    array.dtype = Stored::kF32, array.shape = {rows, columns};
    array.data = std::as_bytes(std::span(numbers));
  }
  FloatArray(const FloatArray&) = delete;
  std::vector<float> numbers;
  Array array;
};

class AdapterPacking {
 public:
  AdapterPacking(const Adapter& adapter, const AdaptedModel& model, ThreadTeam& team, uint64_t memory)
      : adapter_(adapter), form_(model.form), team_(team), memory_(memory), taken_(model.bytes) {}

  LowRankPair pair(uint32_t layer, uint32_t outputs, uint32_t inputs, const std::vector<ModulePart>& parts) {
    LowRankPair out;
    uint32_t rank = 0;
    for (const auto& part : parts)
      if (const auto* low = adapter_.find(layer, part.module)) rank += padded_rank(low->rank);
    if (rank == 0 || !status_.ok()) return out;
    out.a = pack_a(layer, rank, inputs, parts);
    if (status_.ok()) out.b = pack_b(layer, outputs, rank, parts);
    return out;
  }
  const base::Status& status() const { return status_; }

 private:
  Matrix pack_a(uint32_t layer, uint32_t rank, uint32_t inputs, const std::vector<ModulePart>& parts) {
    std::vector<Weight> weights;
    std::vector<uint32_t> firsts;
    uint32_t first = 0;
    for (const auto& part : parts) {
      const auto* low = adapter_.find(layer, part.module);
      if (!low) continue;
      if (!kept(*low->a, layer, part.module)) return {};
      weights.emplace_back(*low->a), firsts.push_back(first);
      first += padded_rank(low->rank);
    }
    std::vector<Source> sources;
    for (size_t i = 0; i < weights.size(); ++i) sources.push_back({&weights[i], firsts[i]});
    return pack(rank, inputs, sources);
  }

  Matrix pack_b(uint32_t layer, uint32_t outputs, uint32_t rank, const std::vector<ModulePart>& parts) {
    std::vector<std::unique_ptr<FloatArray>> arrays;
    std::vector<Weight> weights;
    std::vector<Source> sources;
    weights.reserve(parts.size());
    uint32_t first = 0;
    for (const auto& part : parts) {
      const auto* low = adapter_.find(layer, part.module);
      if (!low) continue;
      if (!fits(uint64_t(part.outputs) * rank * sizeof(float))) return {};
      auto& floats = *arrays.emplace_back(std::make_unique<FloatArray>(part.outputs, rank));
      for (uint32_t r = 0; r < part.outputs; ++r) {
        float* row = floats.numbers.data() + size_t(r) * rank + first;
        read_floats(*low->b, uint64_t(r) * low->rank, low->rank, row);
        for (uint32_t i = 0; i < low->rank; ++i) row[i] *= low->scale;
        if (!kept({row, low->rank}, layer, part.module, "B", ", times its scale,")) return {};
      }
      weights.emplace_back(floats.array);
      sources.push_back({&weights.back(), part.first, part.lay});
      first += padded_rank(low->rank);
    }
    return pack(outputs, rank, sources);
  }

  Matrix pack(uint32_t outputs, uint32_t inputs, const std::vector<Source>& sources) {
    Matrix planned = plan_matrix(form_, Keep::kWhole, outputs, inputs, sources);
    if (!fits(planned.bytes())) return {};
    taken_ += planned.bytes();
    auto packed = llm::pack(std::move(planned), sources, team_);
    if (!packed && status_.ok()) status_ = packed.error();
    return packed ? std::move(*packed) : Matrix();
  }

  bool fits(uint64_t bytes) {
    if (taken_ + bytes < memory_) return true;
    if (status_.ok())
      status_ = base::failure(base::Code::kResourceExhausted,
                              "the weights and the adapters take more than this machine's memory");
    return false;
  }

  bool kept(const Array& a, uint32_t layer, const std::string& module) {
    std::vector<float> row(a.shape[1]);
    for (uint64_t r = 0; r < a.shape[0]; ++r) {
      read_floats(a, r * row.size(), row.size(), row.data());
      if (!kept(row, layer, module, "A", "")) return false;
    }
    return true;
  }

  // One number that is not finite, or becomes so in the form of the weights, makes all numbers of all its texts so.
  bool kept(std::span<const float> row, uint32_t layer, const std::string& module, const char* which, const char* how) {
    const float end = form_ == WeightFormat::kBf16 ? 0x1.ffp127f : INFINITY;  // what rounds to infinity
    if (std::all_of(row.begin(), row.end(), [&](float x) { return std::fabs(x) < end; })) return true;
    status_ = base::invalid("layer " + std::to_string(layer) + ": lora_" + which + " of " + module + how +
                            " has a number that is not finite");
    return false;
  }

  const Adapter& adapter_;
  WeightFormat form_;
  ThreadTeam& team_;
  const uint64_t memory_;
  uint64_t taken_;
  base::Status status_;
};

}  // namespace

uint64_t AdapterWeights::bytes() const {
  uint64_t out = 0;
  for (const auto& layer : layers)
    for (const auto* pair : {&layer.qkv, &layer.out, &layer.gate_up, &layer.down})
      out += pair->a.bytes() + pair->b.bytes();
  return out;
}

base::Result<AdapterWeights> load_adapter(const Adapter& adapter, const Model& model, ThreadTeam& team,
                                          uint64_t memory) {
  return load_adapter(adapter, {model.shape, model.form, model.weight_bytes()}, team, memory);
}

base::Result<AdapterWeights> load_adapter(const Adapter& adapter, const AdaptedModel& model, ThreadTeam& team,
                                          uint64_t memory) {
  const Shape& s = model.shape;
  const uint32_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim, wide = gated_outputs(s.intermediate);
  AdapterPacking packing(adapter, model, team, memory);
  AdapterWeights out;
  for (uint32_t i = 0; i < s.layers && packing.status().ok(); ++i) {
    AdapterLayer& layer = out.layers.emplace_back();
    layer.qkv = packing.pair(i, q + 2 * kv, s.hidden,
                             {{"self_attn.qkv_proj", q + 2 * kv},
                              {"self_attn.q_proj", q},
                              {"self_attn.k_proj", kv, q},
                              {"self_attn.v_proj", kv, q + kv}});
    layer.out = packing.pair(i, s.hidden, q, {{"self_attn.o_proj", s.hidden}});
    layer.gate_up = packing.pair(i, wide, s.hidden,
                                 {{"mlp.gate_up_proj", 2 * s.intermediate, 0, Lay::kHalves},
                                  {"mlp.gate_proj", s.intermediate, 0, Lay::kEveryOtherPanel},
                                  {"mlp.up_proj", s.intermediate, 1, Lay::kEveryOtherPanel}});
    layer.down = packing.pair(i, s.hidden, s.intermediate, {{"mlp.down_proj", s.hidden}});
  }
  if (!packing.status().ok()) return packing.status();
  if (auto intact = adapter.intact(); !intact.ok()) return intact;
  return out;
}

}  // namespace weir::llm
