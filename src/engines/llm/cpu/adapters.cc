#include "engines/llm/cpu/adapters.h"

#include <algorithm>
#include <cstring>

namespace weir::llm {
namespace {

constexpr uint32_t kFewAdapterRows = 8;  // rows of cheap work that one thread does faster than two

}  // namespace

Adapters::Adapters(std::shared_ptr<AdapterStore> store, WeightFormat form, const Kernels& kernels, Multiplier& multiply,
                   ThreadTeam& team, uint32_t max_rows)
    : store_(std::move(store)), form_(form), kernels_(kernels), multiply_(multiply), team_(team), order_(max_rows) {}

base::Status Adapters::begin(const generation::TokenStep& step) {
  groups_.clear();
  if (std::none_of(step.rows.begin(), step.rows.end(), [](const auto& row) { return row.adapter > 0; })) return {};
  table_ = store_->table();
  places_.clear();
  for (const auto& row : step.rows) {
    places_.push_back(row.adapter > 0 ? uint32_t(table_->place(row.adapter)) : 0);
    if (places_.back() == table_->adapters.size() && row.adapter > 0)
      return base::failure(base::Code::kInternal, "a step's adapter does not exist");
  }
  group(step, {}, {});
  return {};
}

void Adapters::end() {
  groups_.clear();
  table_.reset();
}

void Adapters::keep(const generation::TokenStep& step, std::span<const uint8_t> kept, std::span<const uint32_t> at) {
  if (!groups_.empty()) group(step, kept, at);
}

// Rows of one adapter in their order, which is that of the tokens.
void Adapters::group(const generation::TokenStep& step, std::span<const uint8_t> kept, std::span<const uint32_t> at) {
  groups_.clear();
  counts_.assign(table_->adapters.size(), 0);
  const auto each = [&](auto&& use) {
    for (size_t r = 0; r < step.rows.size(); ++r) {
      const auto& row = step.rows[r];
      for (uint32_t t = row.first; row.adapter > 0 && t < row.first + row.count; ++t)
        if (kept.empty() || kept[t]) use(places_[r], at.empty() ? t : at[t]);
    }
  };
  each([&](uint32_t place, uint32_t) { ++counts_[place]; });
  uint32_t first = 0;
  for (uint32_t place = 0; place < counts_.size(); ++place) {
    const uint32_t count = std::exchange(counts_[place], first);
    if (count > 0) groups_.push_back({table_->adapters[place].second.get(), first, count, true});
    first += count;
  }
  each([&](uint32_t place, uint32_t row) { order_[counts_[place]++] = row; });
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
      std::memcpy(table_->scratch->gathered.data() + i * stride, x.data + rows[i] * x.stride,
                  std::min(stride, x.stride));
  });
  return {table_->scratch->gathered.data(), stride};
}

Activations Adapters::shrink(const Group& group, Activations x, const Matrix& a) {
  const size_t stride = activation_stride(form_, a.outputs);
  multiply_.run(x, group.count, a, Multiplier::Into::kStore, table_->scratch->sums.as<float>(), a.outputs);
  team_.run(group.count, kFewAdapterRows, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t i = from; i < to; ++i)
      kernels_.convert[size_t(form_)](table_->scratch->sums.as<float>() + size_t(i) * a.outputs, a.outputs,
                                      table_->scratch->low.data() + i * stride);
  });
  return {table_->scratch->low.data(), stride};
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
    float* products = table_->scratch->products.as<float>();
    multiply_.run(shrunk, group.count, low.b, Multiplier::Into::kStore, products, n);
    team_.run(group.count, kFewAdapterRows, [&](uint32_t from, uint32_t to, uint32_t) {
      for (uint32_t i = from; i < to; ++i)
        for (uint32_t o = 0; o < n; ++o) out[rows[i] * stride + o] += products[size_t(i) * n + o];
    });
  }
}

void Adapters::run_gated(uint32_t layer, Activations x, uint32_t rows, const Matrix& gate_up, std::byte* out,
                         size_t stride, Activation by) {
  float* gates = table_->scratch->gates.as<float>();
  const size_t width = gate_up.outputs;
  multiply_.run(x, rows, gate_up, Multiplier::Into::kStore, gates, width);
  add(layer, &AdapterLayer::gate_up, x, gates, width);
  const auto curve = gate_of(kernels_, by, form_);
  team_.run(rows, 1, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t r = from; r < to; ++r) curve(gates + r * width, gate_up.panels / 2, out + r * stride);
  });
}

}  // namespace weir::llm
