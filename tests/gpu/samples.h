// Random inputs of kernels, and how far results are from what they should be.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "engines/llm/cuda/bf16.h"
#include "lab.h"

namespace weir::gpu {

using llm::cuda::Bf16;

constexpr double kOneStep = 1.0 / 128;  // of bfloat16

inline float widened(float value) { return value; }
inline double widened(uint32_t value) { return value; }
inline double widened(double value) { return value; }
inline float widened(Bf16 bits) { return llm::cuda::widen_bf16(bits); }

inline std::vector<Bf16> some_bf16(Lab& lab, size_t n, float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<Bf16> out(n);
  for (auto& b : out) b = llm::cuda::narrow_bf16(normal(lab.random));
  return out;
}
inline std::vector<float> some_floats(Lab& lab, size_t n, float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> out(n);
  for (auto& f : out) f = normal(lab.random);
  return out;
}
inline std::vector<uint32_t> some_below(Lab& lab, size_t n, uint32_t end) {
  std::vector<uint32_t> out(n);
  for (auto& i : out) i = uint32_t(lab.random() % end);
  return out;
}

// The largest difference, relative to one or the value where that is more. NaN is endless.
template <class T>
double error(const std::vector<T>& a, const std::vector<T>& b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    double x = widened(a[i]), y = widened(b[i]);
    double e = x == y ? 0 : std::abs(x - y) / std::max(1.0, std::abs(y));
    most = std::isnan(e) ? INFINITY : std::max(most, e);
  }
  return most;
}

}  // namespace weir::gpu
