#include "engines/llm/cpu/matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/loop_sleep.h"
#include "engines/llm/load/encode.h"
#include "msg/half.h"

namespace weir::llm {
namespace {

constexpr uint32_t kGroup = 4;          // panels that one piece of work has
constexpr uint32_t kDepthBlock = 512;   // steps: rows and weights of a block stay in the first two caches
constexpr uint32_t kExpandBlock = 128;  // steps that are expanded at a time, so that they stay in the first cache
constexpr size_t kExpandBytes = size_t(kGroup) * kExpandBlock * 64;
constexpr uint64_t kPieceNs = 4000;  // a piece that takes less is not worth another thread
constexpr uint32_t kManyRows = 16;   // whose products with one group of codes take longer than to look at the clock

size_t tile_of(uint32_t rows) { return size_t(rows) * kGroup * 16 * sizeof(float); }
uint32_t group_of(const Matrix& m) { return std::min(2 * m.group_steps, m.inputs); }

void put(Matrix& m, uint32_t output, const float* row) {
  std::byte* panel = m.data.data() + (output / 16) * m.panel_bytes();
  uint32_t lane = output % 16;
  if (m.form == WeightFormat::kF32) {
    auto* to = reinterpret_cast<float*>(panel) + lane;
    for (uint32_t i = 0; i < m.inputs; ++i) to[16 * size_t(i)] = row[i];
  } else {
    auto* to = reinterpret_cast<uint16_t*>(panel) + 2 * lane;
    for (uint32_t i = 0; i < m.inputs; ++i) to[32 * size_t(i / 2) + i % 2] = msg::bf16_from(row[i]);
  }
}

// The codes of one output.
struct CodedRow {
  std::vector<uint8_t> codes, zeros;  // of each input; of each group
  std::vector<float> scales, offsets;

  explicit CodedRow(const Matrix& m) : codes(m.inputs), zeros(m.groups()), scales(m.groups()), offsets(m.groups()) {}
};

void put(Matrix& m, uint32_t output, const CodedRow& row) {
  std::byte* group = m.data.data() + (output / 16) * m.panel_bytes();
  const uint32_t lane = output % 16;
  for (uint32_t g = 0; g < m.groups(); ++g, group += m.group_stride()) {
    std::memcpy(group + 4 * lane, &row.scales[g], 4);
    if (m.offsets) std::memcpy(group + group_bytes(m.coding, m.group_steps) + 4 * lane, &row.offsets[g], 4);
    if (m.coding == Coding::kInt4) group[64 + lane] = std::byte(row.zeros[g]);
    std::byte* step = group + scale_bytes(m.coding);
    const uint32_t first = 2 * g * m.group_steps, last = std::min(first + 2 * m.group_steps, m.inputs);
    for (uint32_t i = first; i < last; i += 2, step += code_bytes(m.coding)) {
      const uint8_t a = row.codes[i], b = i + 1 < last ? row.codes[i + 1] : 0;
      if (m.coding == Coding::kInt4)
        step[lane] = std::byte(a | b << 4);
      else
        step[2 * lane] = std::byte(a), step[2 * lane + 1] = std::byte(b);
    }
  }
}

void pack_rows(Matrix& m, const Source& source, uint32_t from, uint32_t to) {
  std::vector<float> row(m.inputs);
  auto output = [&](uint32_t r) { return output_of(source.first, source.lay, source.weight->outputs(), r); };
  if (m.coding == Coding::kWhole) {
    for (uint32_t r = from; r < to; ++r) source.weight->floats(r, row.data()), put(m, output(r), row.data());
    return;
  }
  CodedRow coded(m);
  const Weight& from_file = *source.weight;
  const bool as_stored =
      from_file.coding() == m.coding && from_file.group() == group_of(m) && from_file.offsets() == m.offsets;
  for (uint32_t r = from; r < to; ++r) {
    if (as_stored)
      from_file.codes(r, {coded.codes.data(), coded.scales.data(), coded.zeros.data(), coded.offsets.data()});
    else
      source.weight->floats(r, row.data()), encode(m.coding, 2 * m.group_steps, m.inputs, row.data(),
                                                   coded.codes.data(), coded.scales.data(), coded.zeros.data());
    put(m, output(r), coded);
  }
}

void add_bias(const Matrix& w, uint32_t first, uint32_t n, float* to) {
  if (w.bias.empty()) return;
  for (uint32_t i = 0; i < n; ++i) to[i] += w.bias[first + i];
}

}  // namespace

uint32_t output_of(uint32_t first, Lay lay, uint32_t rows, uint32_t row) {
  if (lay == Lay::kInOrder) return first + row;
  if (lay == Lay::kHalves && row >= rows / 2) first += 1, row -= rows / 2;
  if (lay == Lay::kInTurn) first += row % 2, row /= 2;
  return (first + row / 16 * 2) * 16 + row % 16;
}

void Matrix::read_row(uint32_t output, float* out) const {
  const std::byte* panel = data.data() + (output / 16) * panel_bytes();
  uint32_t lane = output % 16;
  if (form == WeightFormat::kF32) {
    auto* from = reinterpret_cast<const float*>(panel) + lane;
    for (uint32_t i = 0; i < inputs; ++i) out[i] = from[16 * size_t(i)];
  } else {
    auto* from = reinterpret_cast<const uint16_t*>(panel) + 2 * lane;
    for (uint32_t i = 0; i < inputs; ++i) out[i] = msg::bf16_to_float(from[32 * size_t(i / 2) + i % 2]);
  }
}

Matrix plan_matrix(WeightFormat form, Keep keep, uint32_t outputs, uint32_t inputs, std::span<const Source> sources) {
  Matrix m;
  m.form = form, m.outputs = outputs, m.inputs = inputs;
  m.panels = (outputs + 15) / 16, m.depth = steps_of(form, inputs);
  if (form == WeightFormat::kF32 || keep == Keep::kWhole) return m;
  const Weight& stored = *sources.front().weight;
  if (keep == Keep::kInt8)
    m.coding = Coding::kInt8, m.group_steps = kInt8Group / 2;
  else if (keep == Keep::kInt4)
    m.coding = Coding::kInt4, m.group_steps = kInt4Group / 2;
  else if (std::all_of(sources.begin(), sources.end(), [&](const Source& s) {
             return s.weight->coding() == stored.coding() && s.weight->group() == stored.group() &&
                    s.weight->offsets() == stored.offsets();
           }))
    m.coding = stored.coding(), m.group_steps = (stored.group() + 1) / 2, m.offsets = stored.offsets();
  return m;
}

base::Result<Matrix> pack(Matrix m, std::span<const Source> sources, ThreadTeam& team) {
  m.data = Memory(m.bytes());
  if (!m.data) return base::failure(base::Code::kResourceExhausted, "no memory for the model's weights");
  for (const auto& source : sources) {
    const uint32_t rows = source.weight->outputs();
    team.run((rows + 15) / 16, 8,
             [&](uint32_t from, uint32_t to, uint32_t) { pack_rows(m, source, from * 16, std::min(rows, to * 16)); });
  }
  return m;
}

Gate gate_of(const Kernels& kernels, Activation by, WeightFormat form) {
  switch (by) {
    case Activation::kGelu: return kernels.geglu[size_t(form)];
    case Activation::kGeluTanh: return kernels.geglu_tanh[size_t(form)];
    case Activation::kClampedSwiglu: return kernels.swiglu_clamped[size_t(form)];
    case Activation::kSilu: break;
  }
  return kernels.swiglu[size_t(form)];
}

Multiplier::Multiplier(const Kernels& kernels, ThreadTeam& team, uint32_t max_rows)
    : kernels_(kernels),
      team_(team),
      max_rows_(max_rows),
      scratch_(team.size() * tile_of(max_rows)),
      expanded_(team.size() * (kExpandBytes + tile_of(max_rows))) {
  base::check(scratch_ && expanded_, "memory for products");
}

void Multiplier::whole(Activations x, uint32_t rows, const Matrix& w, uint32_t first, uint32_t panels, float* tile) {
  auto product = kernels_.product[size_t(w.form)];
  for (uint32_t k = 0; k < w.depth; k += kDepthBlock) {
    const std::byte* b[kGroup];
    for (uint32_t p = 0; p < panels; ++p) b[p] = w.data.data() + (first + p) * w.panel_bytes() + size_t(k) * 64;
    product({x.data + size_t(k) * 4, x.stride, b, rows, panels, std::min(kDepthBlock, w.depth - k), tile, kGroup * 16,
             k == 0 ? Product::Onto::kNothing : Product::Onto::kWhatIsThere});
    base::yield_to_loops();  // of a prompt's rows a piece takes a millisecond
  }
}

void Multiplier::coded(const Part& part, const float* input_sums, const Matrix& w, uint32_t first, uint32_t panels,
                       float* tile, std::byte* expanded) {
  using Onto = Product::Onto;
  auto expand = kernels_.expand[size_t(w.coding)];
  auto product = kernels_.product[size_t(w.form)];
  float* sums = reinterpret_cast<float*>(expanded + kExpandBytes);
  const std::byte *group[kGroup], *b[kGroup];
  for (uint32_t p = 0; p < panels; ++p) {
    group[p] = w.data.data() + (first + p) * w.panel_bytes();
    b[p] = expanded + size_t(p) * kExpandBlock * 64;
  }
  for (uint32_t k = 0; k < w.depth; k += w.group_steps) {
    const uint32_t in_group = std::min(w.group_steps, w.depth - k);
    for (uint32_t skip = 0; skip < in_group; skip += kExpandBlock) {
      const uint32_t steps = std::min(kExpandBlock, in_group - skip);
      for (uint32_t p = 0; p < panels; ++p) expand(group[p], skip, steps, expanded + size_t(p) * kExpandBlock * 64);
      product({part.x.data + size_t(k + skip) * 4, part.x.stride, b, part.rows, panels, steps, sums, kGroup * 16,
               skip == 0 ? Onto::kNothing : Onto::kWhatIsThere});
    }
    kernels_.add_scaled(sums, group, part.rows, panels, kGroup * 16, k == 0 ? Onto::kNothing : Onto::kWhatIsThere,
                        tile);
    if (part.rows >= kManyRows) base::yield_to_loops();
    for (uint32_t p = 0; p < panels; ++p) group[p] += group_bytes(w.coding, w.group_steps);
    if (!w.offsets) continue;
    kernels_.add_offsets(input_sums + k / w.group_steps, w.groups(), group, part.rows, panels, kGroup * 16, tile);
    for (uint32_t p = 0; p < panels; ++p) group[p] += kOffsetBytes;
  }
}

// Each a chain of its own, so that it is the same in any company.
void Multiplier::sum_inputs(std::span<const Part> parts, const Matrix& w) {
  const uint32_t groups = w.groups(), in_group = group_of(w);
  size_t sums = 0;
  sums_at_.clear();
  for (const Part& part : parts) sums_at_.push_back(sums), sums += size_t(part.rows) * groups;
  input_sums_.resize(sums);
  auto sum_row = [&](const uint16_t* row, float* to) {
    for (uint32_t g = 0; g < groups; ++g) {
      float sum = 0;
      for (uint32_t i = g * in_group; i < std::min((g + 1) * in_group, w.inputs); ++i)
        sum += msg::bf16_to_float(row[i]);
      to[g] = sum;
    }
  };
  const uint32_t grain = std::max(1u, (1u << 14) / std::max(1u, w.inputs));
  for (size_t p = 0; p < parts.size(); ++p)
    team_.run(parts[p].rows, grain, [&](uint32_t from, uint32_t to, uint32_t) {
      const Activations x = parts[p].x;
      for (uint32_t r = from; r < to; ++r)
        sum_row(reinterpret_cast<const uint16_t*>(x.data + r * x.stride),
                &input_sums_[sums_at_[p] + size_t(r) * groups]);
    });
}

// finish(part, group, panels, tile): the tile is [rows][64] floats.
template <class F>
void Multiplier::over_groups(std::span<const Part> parts, const Matrix& w, uint32_t panels_each, F&& finish) {
  uint32_t rows = UINT32_MAX;
  for (const Part& part : parts) {
    base::check(part.rows <= max_rows_, "a step has no more rows than was said");
    rows = std::min(rows, part.rows);
  }
  if (w.offsets) sum_inputs(parts, w);
  const uint32_t groups = (panels_each + kGroup - 1) / kGroup, all = uint32_t(parts.size()) * groups;
  // Roughly, from 30 GB/s and 200 thousand million multiplications a second.
  const uint64_t ns = uint64_t(w.depth) * 8 + uint64_t(rows) * w.depth * 2 / 3 + 1;
  const auto grain = uint32_t(std::max<uint64_t>(kPieceNs / ns, all / (team_.size() * 16)));
  team_.run(all, std::max(1u, grain), [&](uint32_t from, uint32_t to, uint32_t thread) {
    float* tile = scratch_.as<float>() + size_t(thread) * max_rows_ * kGroup * 16;
    for (uint32_t i = from; i < to; ++i) {
      const Part& part = parts[i / groups];
      const uint32_t g = i % groups, panels = std::min(kGroup, panels_each - g * kGroup);
      const uint32_t first = part.index * panels_each + g * kGroup;
      if (w.coding == Coding::kWhole)
        whole(part.x, part.rows, w, first, panels, tile);
      else
        coded(part, w.offsets ? &input_sums_[sums_at_[i / groups]] : nullptr, w, first, panels, tile,
              expanded_.data() + thread * (kExpandBytes + tile_of(max_rows_)));
      finish(part, g, panels, tile);
    }
  });
}

void Multiplier::run(Activations x, uint32_t rows, const Matrix& w, Into into, float* out, size_t stride) {
  const Part all{x, rows, 0, reinterpret_cast<std::byte*>(out)};
  run({&all, 1}, w, w.panels, w.outputs, into, stride);
}

void Multiplier::run(std::span<const Part> parts, const Matrix& w, uint32_t panels_each, uint32_t outputs, Into into,
                     size_t stride) {
  over_groups(parts, w, panels_each, [&](const Part& part, uint32_t group, uint32_t panels, const float* tile) {
    const uint32_t first = group * kGroup * 16, n = std::min(panels * 16, outputs - first);
    const float* bias = w.bias.empty() ? nullptr : w.bias.data() + size_t(part.index) * panels_each * 16 + first;
    for (uint32_t r = 0; r < part.rows; ++r, tile += kGroup * 16) {
      float* to = reinterpret_cast<float*>(part.out) + r * stride + first;
      if (into == Into::kAdd)
        for (uint32_t i = 0; i < n; ++i) to[i] += tile[i];
      else
        std::memcpy(to, tile, n * 4);
      if (bias)
        for (uint32_t i = 0; i < n; ++i) to[i] += bias[i];
    }
  });
}

void Multiplier::run_gated(Activations x, uint32_t rows, const Matrix& w, std::byte* out, size_t stride,
                           Activation by) {
  const Part all{x, rows, 0, out};
  run_gated({&all, 1}, w, w.panels, stride, by);
}

void Multiplier::run_gated(std::span<const Part> parts, const Matrix& w, uint32_t panels_each, size_t stride,
                           Activation by) {
  auto gate = gate_of(kernels_, by, w.form);
  over_groups(parts, w, panels_each, [&](const Part& part, uint32_t group, uint32_t panels, float* tile) {
    for (uint32_t r = 0; r < part.rows; ++r, tile += kGroup * 16) {
      add_bias(w, (part.index * panels_each + group * kGroup) * 16, panels * 16, tile);
      gate(tile, panels / 2, part.out + r * stride + size_t(group) * kGroup * 8 * size_of(w.form));
    }
  });
}

void Multiplier::run_curved(Activations x, uint32_t rows, const Matrix& w, Curve curve, std::byte* out, size_t stride) {
  const Part all{x, rows, 0, out};
  over_groups({&all, 1}, w, w.panels, [&](const Part& part, uint32_t group, uint32_t panels, float* tile) {
    const uint32_t first = group * kGroup * 16;
    for (uint32_t r = 0; r < part.rows; ++r, tile += kGroup * 16) {
      add_bias(w, first, panels * 16, tile);
      curve(tile, panels * 16, part.out + r * stride + size_t(first) * size_of(w.form));
    }
  });
}

}  // namespace weir::llm
