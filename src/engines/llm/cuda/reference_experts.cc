// Mixtures of experts on the host.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "engines/llm/cuda/bf16.h"
#include "engines/llm/cuda/reference.h"

namespace weir::llm::cuda::reference {
namespace {

double dot(const Bf16* x, const float* w, uint32_t n) {
  double sums[4] = {};  // four chains, for speed
  uint32_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (uint32_t j = 0; j < 4; ++j) sums[j] += double(widen_bf16(x[i + j])) * w[i + j];
  for (; i < n; ++i) sums[0] += double(widen_bf16(x[i])) * w[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void route_row(const Route& a, const float* scores, uint32_t* experts, float* shares) {
  auto score = [scores](uint32_t e) { return std::isnan(scores[e]) ? -INFINITY : scores[e]; };
  std::vector<uint32_t> order(a.count);
  std::iota(order.begin(), order.end(), 0u);
  std::partial_sort(order.begin(), order.begin() + a.used, order.end(),
                    [&](uint32_t x, uint32_t y) { return score(x) > score(y) || (score(x) == score(y) && x < y); });
  const double best = score(order[0]);
  double all = 0;
  for (uint32_t i = 0; i < (a.of == Route::kOfAll ? a.count : a.used); ++i) all += std::exp(score(order[i]) - best);
  std::sort(order.begin(), order.begin() + a.used);
  for (uint32_t i = 0; i < a.used; ++i)
    experts[i] = order[i], shares[i] = float(std::exp(score(order[i]) - best) / all * a.scale);
}

}  // namespace

void route(const Route& a) {
  for (size_t r = 0; r < a.rows; ++r)
    route_row(a, a.scores + r * a.stride, a.experts + r * a.used, a.shares + r * a.used);
}

void place_pairs(const PlacePairs& a) {
  const uint32_t rows = expert_tile_rows(a.pairs, a.count), tiles = expert_tiles(a.pairs, a.count);
  uint32_t placed = 0, tile = 0;
  for (uint32_t e = 0; e < a.count; ++e) {
    const uint32_t first = placed;
    for (uint32_t p = 0; p < a.pairs; ++p)
      if (a.experts[p] == e) a.order[placed++] = p;
    for (uint32_t at = first; at < placed; at += rows) a.tiles[tile++] = {e, at, std::min(rows, placed - at)};
  }
  std::fill(a.tiles + tile, a.tiles + tiles, ExpertTile{0, 0, 0});
}

void expert_matmul(const ExpertMatmul& a) {
  const bool gates = a.into == ExpertMatmul::kSwiGlu;
  std::vector<float> weight(a.inputs);
  for (size_t p = 0; p < a.pairs; ++p) {
    const Bf16* x = a.x + p / a.per * a.inputs;
    const size_t first = size_t(a.experts[p]) * (gates ? 2 : 1) * a.outputs;
    auto product = [&](size_t output) {
      read_numbers(a.weight, uint32_t(first + output), a.inputs, weight.data());
      return dot(x, weight.data(), a.inputs) + (a.bias ? a.bias[first + output] : 0.f);
    };
    for (size_t o = 0; o < a.outputs; ++o) {
      const double sum = product(o);
      if (!gates)
        static_cast<float*>(a.out)[p * a.outputs + o] = float(sum);
      else
        static_cast<Bf16*>(a.out)[p * a.outputs + o] = narrow_bf16(float(gated(a.kind, sum, product(a.outputs + o))));
    }
  }
}

void add_experts(const AddExperts& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    const float gate = a.shared ? a.scale / (1 + std::exp(-a.scores[r * a.stride + a.gate])) : 0;
    for (size_t d = 0; d < a.hidden; ++d) {
      float& x = a.stream[r * a.hidden + d];
      for (size_t p = r * a.used; p < (r + 1) * a.used; ++p) x += a.shares[p] * a.answers[p * a.hidden + d];
      if (a.shared) x += gate * a.shared[r * a.hidden + d];
    }
  }
}

}  // namespace weir::llm::cuda::reference
