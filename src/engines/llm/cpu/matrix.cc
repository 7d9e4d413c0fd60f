#include "engines/llm/cpu/matrix.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "msg/half.h"

namespace weir::llm {
namespace {

constexpr uint32_t kGroup = 4;         // panels that one piece of work has
constexpr uint32_t kDepthBlock = 512;  // steps: rows and weights of a block stay in the first two caches
constexpr uint64_t kPieceNs = 4000;    // a piece that takes less is not worth another thread

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

uint32_t output_of(const Source& source, uint32_t row) {
  if (source.lay == Lay::kInOrder) return source.first + row;
  return (source.first + row / 16 * 2) * 16 + row % 16;
}

void add_bias(const Matrix& w, uint32_t first, uint32_t n, float* to) {
  if (w.bias.empty()) return;
  for (uint32_t i = 0; i < n; ++i) to[i] += w.bias[first + i];
}

}  // namespace

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

base::Result<Matrix> pack(WeightFormat form, uint32_t outputs, uint32_t inputs, std::span<const Source> sources,
                          ThreadTeam& team) {
  Matrix m;
  m.form = form, m.outputs = outputs, m.inputs = inputs;
  m.panels = (outputs + 15) / 16, m.depth = steps_of(form, inputs);
  m.data = Memory(m.bytes());
  if (!m.data) return base::failure(base::Code::kResourceExhausted, "no memory for the model's weights");
  for (const auto& source : sources) {
    auto rows = uint32_t(source.array->shape[0]);
    team.run((rows + 15) / 16, 8, [&](uint32_t from, uint32_t to, uint32_t) {
      std::vector<float> row(inputs);
      for (uint32_t r = from * 16; r < std::min(rows, to * 16); ++r) {
        read_floats(*source.array, uint64_t(r) * inputs, inputs, row.data());
        put(m, output_of(source, r), row.data());
      }
    });
  }
  return m;
}

Multiplier::Multiplier(const Kernels& kernels, ThreadTeam& team, uint32_t max_rows)
    : kernels_(kernels), team_(team), max_rows_(max_rows), scratch_(size_t(team.size()) * max_rows * kGroup * 16 * 4) {
  base::check(bool(scratch_), "memory for products");
}

// finish(group, panels, tile): the tile is [rows][64] floats.
template <class F>
void Multiplier::over_groups(Activations x, uint32_t rows, const Matrix& w, F&& finish) {
  base::check(rows <= max_rows_, "a step has no more rows than was said");
  auto product = kernels_.product[size_t(w.form)];
  const uint32_t groups = (w.panels + kGroup - 1) / kGroup;
  // Roughly, from 30 GB/s and 200 thousand million multiplications a second.
  const uint64_t ns = uint64_t(w.depth) * 8 + uint64_t(rows) * w.depth * 2 / 3 + 1;
  const auto grain = uint32_t(std::max<uint64_t>(kPieceNs / ns, groups / (team_.size() * 16)));
  team_.run(groups, std::max(1u, grain), [&](uint32_t from, uint32_t to, uint32_t thread) {
    float* tile = scratch_.as<float>() + size_t(thread) * max_rows_ * kGroup * 16;
    for (uint32_t g = from; g < to; ++g) {
      const uint32_t panels = std::min(kGroup, w.panels - g * kGroup);
      for (uint32_t k = 0; k < w.depth; k += kDepthBlock) {
        const std::byte* b[kGroup];
        for (uint32_t p = 0; p < panels; ++p)
          b[p] = w.data.data() + (size_t(g) * kGroup + p) * w.panel_bytes() + size_t(k) * 64;
        product({x.data + size_t(k) * 4, x.stride, b, rows, panels, std::min(kDepthBlock, w.depth - k), tile,
                 kGroup * 16, k == 0 ? Product::Onto::kNothing : Product::Onto::kWhatIsThere});
      }
      finish(g, panels, tile);
    }
  });
}

void Multiplier::run(Activations x, uint32_t rows, const Matrix& w, Into into, float* out, size_t stride) {
  over_groups(x, rows, w, [&](uint32_t group, uint32_t panels, const float* tile) {
    const uint32_t first = group * kGroup * 16, n = std::min(panels * 16, w.outputs - first);
    const float* bias = w.bias.empty() ? nullptr : w.bias.data() + first;
    for (uint32_t r = 0; r < rows; ++r, tile += kGroup * 16) {
      float* to = out + r * stride + first;
      if (into == Into::kAdd)
        for (uint32_t i = 0; i < n; ++i) to[i] += tile[i];
      else
        std::memcpy(to, tile, n * 4);
      if (bias)
        for (uint32_t i = 0; i < n; ++i) to[i] += bias[i];
    }
  });
}

void Multiplier::run_gated(Activations x, uint32_t rows, const Matrix& w, std::byte* out, size_t stride) {
  auto swiglu = kernels_.swiglu[size_t(w.form)];
  over_groups(x, rows, w, [&](uint32_t group, uint32_t panels, float* tile) {
    for (uint32_t r = 0; r < rows; ++r, tile += kGroup * 16) {
      add_bias(w, group * kGroup * 16, panels * 16, tile);
      swiglu(tile, panels / 2, out + r * stride + size_t(group) * kGroup * 8 * size_of(w.form));
    }
  });
}

void Multiplier::run_curved(Activations x, uint32_t rows, const Matrix& w, Curve curve, std::byte* out, size_t stride) {
  over_groups(x, rows, w, [&](uint32_t group, uint32_t panels, float* tile) {
    const uint32_t first = group * kGroup * 16;
    for (uint32_t r = 0; r < rows; ++r, tile += kGroup * 16) {
      add_bias(w, first, panels * 16, tile);
      curve(tile, panels * 16, out + r * stride + size_t(first) * size_of(w.form));
    }
  });
}

}  // namespace weir::llm
