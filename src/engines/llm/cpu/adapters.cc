#include "engines/llm/cpu/adapters.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace weir::llm {
namespace {

constexpr uint32_t kFewAdapterRows = 8;  // rows of cheap work that one thread does faster than two

// The widest of all pairs.
struct AdapterWidths {
  uint32_t inputs = 0, rank = 0, outputs = 0, gates = 0;
};

AdapterWidths adapter_widths(const std::vector<AdapterWeights>& all) {
  AdapterWidths w;
  for (const auto& adapter : all)
    for (const auto& layer : adapter.layers) {
      w.gates = std::max(w.gates, layer.gate_up.b.outputs);
      for (const auto* pair : {&layer.qkv, &layer.out, &layer.gate_up, &layer.down})
        w = {std::max(w.inputs, pair->a.inputs), std::max(w.rank, pair->a.outputs),
             std::max(w.outputs, pair->b.outputs), w.gates};
    }
  return w;
}

size_t float_bytes(size_t n) { return std::max<size_t>(n, 1) * sizeof(float); }

}  // namespace

Adapters::Adapters(std::vector<AdapterWeights> weights, WeightFormat form, const Kernels& kernels, Multiplier& multiply,
                   ThreadTeam& team, uint32_t max_rows)
    : weights_(std::move(weights)),
      form_(form),
      kernels_(kernels),
      multiply_(multiply),
      team_(team),
      counts_(weights_.size() + 1) {
  const AdapterWidths w = adapter_widths(weights_);
  const size_t rows = max_rows;
  groups_.reserve(weights_.size()), order_.resize(rows);
  gathered_ = Memory(rows * activation_stride(form_, w.inputs));
  low_ = Memory(rows * activation_stride(form_, w.rank));
  sums_ = Memory(float_bytes(rows * w.rank));
  products_ = Memory(float_bytes(rows * w.outputs));
  gates_ = Memory(float_bytes(rows * w.gates));
  base::check(gathered_ && low_ && sums_ && products_ && gates_, "memory for the adapters of a step");
}

void Adapters::begin(const generation::TokenStep& step) { group(step, {}, {}); }

void Adapters::keep(const generation::TokenStep& step, std::span<const uint8_t> kept, std::span<const uint32_t> at) {
  if (!groups_.empty()) group(step, kept, at);
}

// Rows of one adapter in their order, which is that of the tokens.
void Adapters::group(const generation::TokenStep& step, std::span<const uint8_t> kept, std::span<const uint32_t> at) {
  groups_.clear();
  std::fill(counts_.begin(), counts_.end(), 0);
  const auto each = [&](auto&& use) {
    for (const auto& row : step.rows)
      for (uint32_t t = row.first; row.adapter > 0 && t < row.first + row.count; ++t)
        if (kept.empty() || kept[t]) use(row.adapter, at.empty() ? t : at[t]);
  };
  each([&](uint32_t adapter, uint32_t) { ++counts_[adapter]; });
  uint32_t first = 0;
  for (uint32_t adapter = 1; adapter < counts_.size(); ++adapter) {
    const uint32_t count = std::exchange(counts_[adapter], first);
    if (count > 0) groups_.push_back({adapter - 1, first, count, true});
    first += count;
  }
  each([&](uint32_t adapter, uint32_t row) { order_[counts_[adapter]++] = row; });
  for (auto& group : groups_)
    group.neighbours = order_[group.first + group.count - 1] - order_[group.first] == group.count - 1;
}

bool Adapters::change(uint32_t layer, Which which) const {
  return std::any_of(groups_.begin(), groups_.end(), [&](const auto& g) { return pair(g, layer, which).there(); });
}

Activations Adapters::gather(const Group& group, Activations x, uint32_t inputs) {
  const uint32_t* rows = order_.data() + group.first;
  if (group.neighbours) return {x.data + rows[0] * x.stride, x.stride};
  const size_t stride = activation_stride(form_, inputs);
  team_.run(group.count, kFewAdapterRows, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t i = from; i < to; ++i)
      std::memcpy(gathered_.data() + i * stride, x.data + rows[i] * x.stride, std::min(stride, x.stride));
  });
  return {gathered_.data(), stride};
}

Activations Adapters::shrink(const Group& group, Activations x, const Matrix& a) {
  const size_t stride = activation_stride(form_, a.outputs);
  multiply_.run(x, group.count, a, Multiplier::Into::kStore, sums_.as<float>(), a.outputs);
  team_.run(group.count, kFewAdapterRows, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t i = from; i < to; ++i)
      kernels_.convert[size_t(form_)](sums_.as<float>() + size_t(i) * a.outputs, a.outputs, low_.data() + i * stride);
  });
  return {low_.data(), stride};
}

void Adapters::add(uint32_t layer, Which which, Activations x, float* out, size_t stride) {
  for (const Group& group : groups_) {
    const LowRankPair& low = pair(group, layer, which);
    if (!low.there()) continue;
    const Activations shrunk = shrink(group, gather(group, x, low.a.inputs), low.a);
    const uint32_t *rows = order_.data() + group.first, n = low.b.outputs;
    if (group.neighbours) {
      multiply_.run(shrunk, group.count, low.b, Multiplier::Into::kAdd, out + rows[0] * stride, stride);
      continue;
    }
    float* products = products_.as<float>();
    multiply_.run(shrunk, group.count, low.b, Multiplier::Into::kStore, products, n);
    team_.run(group.count, kFewAdapterRows, [&](uint32_t from, uint32_t to, uint32_t) {
      for (uint32_t i = from; i < to; ++i)
        for (uint32_t o = 0; o < n; ++o) out[rows[i] * stride + o] += products[size_t(i) * n + o];
    });
  }
}

void Adapters::run_gated(uint32_t layer, Activations x, uint32_t rows, const Matrix& gate_up, std::byte* out,
                         size_t stride, Activation by) {
  float* gates = gates_.as<float>();
  const size_t width = gate_up.outputs;
  multiply_.run(x, rows, gate_up, Multiplier::Into::kStore, gates, width);
  add(layer, &AdapterLayer::gate_up, x, gates, width);
  const auto curve = gate_of(kernels_, by, form_);
  team_.run(rows, 1, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t r = from; r < to; ++r) curve(gates + r * width, gate_up.panels / 2, out + r * stride);
  });
}

}  // namespace weir::llm
