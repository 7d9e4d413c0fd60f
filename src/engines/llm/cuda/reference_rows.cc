// The host versions of kernels that go over rows: norms, gates, soft caps.
#include <algorithm>
#include <cmath>

#include "engines/llm/cuda/bf16.h"
#include "engines/llm/cuda/reference.h"

namespace weir::llm::cuda::reference {
namespace {

// A row times this has a mean square of one.
double factor_of(double squares, uint32_t width, float epsilon) { return 1 / std::sqrt(squares / width + epsilon); }

}  // namespace

double gated(Gate kind, double gate, double up) {
  switch (kind) {
    case Gate::kSilu: break;
    case Gate::kGeluTanh:
      return gate / 2 * (1 + std::tanh(0.7978845608028654 * (gate + 0.044715 * gate * gate * gate))) * up;
    case Gate::kClamped: {
      const double limit = kGateLimit, most = std::min(gate, limit);
      return most / (1 + std::exp(-double(kGateSlope) * most)) * (std::clamp(up, -limit, limit) + 1);
    }
  }
  return gate / (1 + std::exp(-gate)) * up;
}

void add_norm(const AddNorm& a) {
  for (size_t t = 0; t < a.tokens; ++t) {
    float* x = a.stream + t * a.hidden;
    double squares = 0;
    for (size_t i = 0; i < a.hidden; ++i) {
      if (a.delta) x[i] += widen_bf16(a.delta[t * a.hidden + i]);
      squares += double(x[i]) * x[i];
    }
    const double factor = factor_of(squares, a.hidden, a.epsilon);
    for (size_t i = 0; i < a.hidden; ++i) {
      const auto y = a.weight ? float(x[i] * factor * (widen_bf16(a.weight[i]) + a.offset)) : x[i];
      a.out[t * a.hidden + i] = narrow_bf16(y);
      if (a.exact) a.exact[t * a.hidden + i] = y;
    }
  }
}

void add_normed(const AddNormed& a) {
  for (size_t t = 0; t < a.tokens; ++t) {
    const float* branch = a.branch + t * a.hidden;
    double squares = 0;
    for (size_t i = 0; i < a.hidden; ++i) squares += double(branch[i]) * branch[i];
    const double factor = factor_of(squares, a.hidden, a.epsilon);
    for (size_t i = 0; i < a.hidden; ++i)
      a.stream[t * a.hidden + i] += float(branch[i] * factor * (widen_bf16(a.weight[i]) + a.offset));
  }
}

void norm_whole(const NormWhole& a) {
  const float* bias = a.bias;
  const auto part = [&](Bf16* row, const float* added, const Bf16* weight, uint32_t width) {
    auto at = [&](uint32_t i) { return double(widen_bf16(row[i])) + (added ? added[i] : 0.f); };
    double squares = 0;
    for (uint32_t i = 0; i < width; ++i) squares += at(i) * at(i);
    const double factor = weight ? factor_of(squares, width, a.epsilon) : 1;
    for (uint32_t i = 0; i < width; ++i)
      row[i] = narrow_bf16(float(at(i) * factor * (weight ? widen_bf16(weight[i]) : 1.f)));
  };
  for (size_t t = 0; t < a.tokens; ++t) {
    Bf16* row = a.qkv + t * (a.queries + 2 * size_t(a.keys));
    part(row, bias, a.q_norm, a.queries);
    part(row + a.queries, bias ? bias + a.queries : nullptr, a.k_norm, a.keys);
    part(row + a.queries + a.keys, bias ? bias + a.queries + a.keys : nullptr, nullptr, a.keys);
  }
}

void swiglu(const SwiGlu& a) {
  for (size_t t = 0; t < a.tokens; ++t)
    for (size_t i = 0; i < a.width; ++i) {
      double gate = widen_bf16(a.gate_up[t * 2 * a.width + i]), up = widen_bf16(a.gate_up[(t * 2 + 1) * a.width + i]);
      if (a.bias) gate += a.bias[i], up += a.bias[a.width + i];
      a.out[t * a.width + i] = narrow_bf16(float(gated(a.kind, gate, up)));
    }
}

void soft_cap(const SoftCap& a) {
  for (size_t i = 0; i < size_t(a.count) * a.width; ++i)
    a.rows[i] = float(a.cap * std::tanh(double(a.rows[i]) / a.cap));
}

}  // namespace weir::llm::cuda::reference
