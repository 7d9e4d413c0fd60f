// Random weights of a shape, for measuring.
#include <algorithm>
#include <cmath>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "engines/llm/cuda/bf16.h"
#include "engines/llm/cuda/device_upload.h"
#include "engines/llm/cuda/device_weights.h"

namespace weir::llm::cuda {
namespace {

constexpr size_t kOfThread = size_t(1) << 20;  // elements: what is worth a thread

float random_at(uint64_t stream, uint64_t index) {
  uint64_t x = stream + (index + 1) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return float((x ^ (x >> 31)) >> 40) * 0x1p-23f - 1;
}

// Elements [from, from + to.size()) of a matrix, which depend on its stream and their places alone: by several threads.
void fill_random(uint64_t stream, float scale, size_t from, std::span<Bf16> to) {
  auto fill = [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) to[i] = narrow_bf16(scale * random_at(stream, from + i));
  };
  const size_t most = std::max(1u, std::thread::hardware_concurrency());
  const size_t threads = std::clamp<size_t>(to.size() / kOfThread, 1, most);
  std::vector<std::thread> others;
  for (size_t t = 1; t < threads; ++t)
    others.emplace_back(fill, to.size() * t / threads, to.size() * (t + 1) / threads);
  fill(0, to.size() / threads);
  for (auto& thread : others) thread.join();
}

template <class Random>
DeviceExperts random_experts(const Shape& s, Random& random) {
  const ExpertShape& e = *s.experts;
  const size_t width = e.width, shared = e.shared_width, hidden = s.hidden;
  DeviceExperts to;
  to.router = random(scores_of(e) * hidden, s.hidden);
  to.gate_up = random(e.count * 2 * width * hidden, s.hidden), to.down = random(e.count * hidden * width, e.width);
  if (shared == 0) return to;
  to.shared_gate_up = random(2 * shared * hidden, s.hidden), to.shared_down = random(hidden * shared, e.shared_width);
  return to;
}

}  // namespace

base::Result<DeviceWeights> random_device_weights(const Shape& s, uint64_t seed, device::Device& device) {
  DeviceUpload upload(device);
  uint64_t matrix = seed;
  auto random = [&](size_t elements, uint32_t inputs) -> const Bf16* {
    const float scale = std::sqrt(3.f / float(inputs));  // uniform: the variance is a third of its square
    const uint64_t stream = matrix += 0x9e3779b97f4a7c15ull;
    return upload.send<Bf16>(elements, [&](size_t from, size_t n, Bf16* to) {
      fill_random(stream, scale, from, {to, n});
    });
  };
  auto ones = [&](size_t n) {
    return upload.send<Bf16>(n, [](size_t, size_t count, Bf16* to) { std::fill_n(to, count, narrow_bf16(1)); });
  };
  DeviceWeights w;
  w.embedding = random(size_t(s.vocabulary) * s.hidden, s.hidden), w.norm = ones(s.hidden);
  w.head = s.encoder ? nullptr : s.tied ? w.embedding : random(size_t(s.vocabulary) * s.hidden, s.hidden);
  w.frequencies = upload.send<float>(s.rope.frequencies.size(), [&](size_t from, size_t n, float* to) {
    std::copy_n(&s.rope.frequencies[from], n, to);
  });
  const auto no_turn = [](size_t, size_t n, float* to) { std::fill_n(to, n, 0.0f); };
  if (has_unturned(s)) w.no_frequencies = upload.send<float>(s.head_dim / 2, no_turn);
  for (uint32_t i = 0; i < s.layers; ++i) {
    DeviceLayer l;
    l.input_norm = ones(s.hidden), l.post_norm = ones(s.hidden);
    if (s.qk_norm) l.q_norm = ones(s.head_dim), l.k_norm = ones(s.head_dim);
    const uint32_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
    l.qkv = random(size_t(q + 2 * kv) * s.hidden, s.hidden), l.out = random(size_t(s.hidden) * q, q);
    if (s.is_mixture(i)) {
      l.experts = random_experts(s, random);
    } else {
      l.gate_up = random(size_t(2) * s.intermediate * s.hidden, s.hidden);
      l.down = random(size_t(s.hidden) * s.intermediate, s.intermediate);
    }
    w.layers.push_back(l);
  }
  upload.wait();
  if (!upload.status.ok()) return upload.status;
  w.memory = std::move(upload.memory), w.bytes = upload.bytes;
  return w;
}

}  // namespace weir::llm::cuda
