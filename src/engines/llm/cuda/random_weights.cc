// Random weights of a shape, for measuring.
#include <algorithm>
#include <cmath>
#include <future>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "engines/llm/cuda/bf16.h"
#include "engines/llm/cuda/coded_rows.h"
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
  std::vector<std::future<void>> others;
  for (size_t t = 1; t < threads; ++t)
    others.push_back(std::async(std::launch::async, fill, to.size() * t / threads, to.size() * (t + 1) / threads));
  fill(0, to.size() / threads);
  for (auto& other : others) other.get();
}

// Makes arrays on a device, each of a stream of its own.
class RandomArrays {
 public:
  RandomArrays(const Shape& shape, uint64_t seed, Keep keep, DeviceUpload& upload)
      : less_one_(shape.norms_less_one), keep_(keep), stream_(seed), upload_(upload) {}

  // One of a layer, of the same numbers whether it is coded or not.
  DeviceMatrix coded(size_t elements, uint32_t inputs) {
    CodePlan plan = plan_codes(keep_, inputs);
    if (plan.how.format == Format::kBf16) return matrix(elements, inputs);
    const float scale = std::sqrt(3.f / float(inputs));
    plan.how.data = upload_.send<std::byte>(
        elements / inputs * plan.how.pitch, [&, stream = next()](size_t from, size_t n, std::byte* to) {
          write_rows(plan.how.pitch, from, {to, n}, std::thread::hardware_concurrency(),
                     [&] { return random_rows(plan, stream, scale); });
        });
    return plan.how;
  }

  const Bf16* matrix(size_t elements, uint32_t inputs) {
    const float scale = std::sqrt(3.f / float(inputs));  // uniform: the variance is a third of its square
    return upload_.send<Bf16>(elements, [scale, stream = next()](size_t from, size_t n, Bf16* to) {
      fill_random(stream, scale, from, {to, n});
    });
  }
  // Weights of a norm, around one.
  const Bf16* norm(size_t n) {
    const float one = less_one_ ? 0.f : 1.f;
    return upload_.send<Bf16>(n, [one, stream = next()](size_t from, size_t count, Bf16* to) {
      for (size_t i = 0; i < count; ++i) to[i] = narrow_bf16(one + random_at(stream, from + i) / 4);
    });
  }
  const float* bias(size_t n) {
    return upload_.send<float>(n, [stream = next()](size_t from, size_t count, float* to) {
      for (size_t i = 0; i < count; ++i) to[i] = random_at(stream, from + i);
    });
  }
  const float* floats(const std::vector<float>& all) {
    return upload_.send<float>(all.size(), [&](size_t from, size_t n, float* to) { std::copy_n(&all[from], n, to); });
  }

 private:
  static WriteRow random_rows(const CodePlan& plan, uint64_t stream, float scale) {
    return [=, coder = RowCoder(plan), row = std::vector<float>(plan.inputs)](size_t at, std::byte* to) mutable {
      for (size_t i = 0; i < row.size(); ++i)
        row[i] = widen_bf16(narrow_bf16(scale * random_at(stream, at * row.size() + i)));
      coder.write(row.data(), to);
    };
  }
  uint64_t next() { return stream_ += 0x9e3779b97f4a7c15ull; }

  const bool less_one_;
  const Keep keep_;
  uint64_t stream_;
  DeviceUpload& upload_;
};

DeviceExperts random_experts(const Shape& s, RandomArrays& random) {
  const ExpertShape& e = *s.experts;
  const size_t width = e.width, shared = e.shared_width, hidden = s.hidden;
  DeviceExperts to;
  to.router = random.matrix(scores_of(e) * hidden, s.hidden);
  to.gate_up = random.coded(e.count * 2 * width * hidden, s.hidden);
  to.down = random.coded(e.count * hidden * width, e.width);
  if (e.biased) {
    to.router_bias = random.bias(scores_of(e));
    to.gate_up_bias = random.bias(e.count * 2 * width), to.down_bias = random.bias(e.count * hidden);
  }
  if (shared == 0) return to;
  to.shared_gate_up = random.coded(2 * shared * hidden, s.hidden);
  to.shared_down = random.coded(hidden * shared, e.shared_width);
  return to;
}

DeviceLayer random_layer(const Shape& s, uint32_t index, RandomArrays& random) {
  const uint32_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
  DeviceLayer l;
  if (s.norms != Norms::kOutputs) l.input_norm = random.norm(s.hidden), l.post_norm = random.norm(s.hidden);
  if (s.norms != Norms::kInputs) l.attention_norm = random.norm(s.hidden), l.mlp_norm = random.norm(s.hidden);
  if (s.qk_norm) l.q_norm = random.norm(s.qk_norm_whole ? q : s.head_dim);
  if (s.qk_norm) l.k_norm = random.norm(s.qk_norm_whole ? kv : s.head_dim);
  l.qkv = random.coded(size_t(q + 2 * kv) * s.hidden, s.hidden), l.out = random.coded(size_t(s.hidden) * q, q);
  if (s.qkv_bias) l.qkv_bias = random.bias(q + 2 * kv);
  if (s.out_bias) l.out_bias = random.bias(s.hidden);
  if (s.sinks) l.sinks = random.bias(s.heads);
  if (s.is_mixture(index)) {
    l.experts = random_experts(s, random);
    return l;
  }
  l.gate_up = random.coded(size_t(2) * s.intermediate * s.hidden, s.hidden);
  l.down = random.coded(size_t(s.hidden) * s.intermediate, s.intermediate);
  return l;
}

}  // namespace

base::Result<DeviceWeights> random_device_weights(const Shape& s, uint64_t seed, device::Device& device, Keep keep) {
  DeviceUpload upload(device);
  RandomArrays random(s, seed, keep, upload);
  const size_t embedding = size_t(s.vocabulary) * s.hidden;
  DeviceWeights w;
  w.embedding = random.matrix(embedding, s.hidden), w.norm = random.norm(s.hidden);
  w.head = s.encoder ? nullptr : s.tied ? w.embedding : random.matrix(embedding, s.hidden);
  w.frequencies = random.floats(s.rope.frequencies);
  if (s.local_rope) w.local_frequencies = random.floats(s.local_rope->frequencies);
  if (has_unturned(s)) w.no_frequencies = random.floats(std::vector<float>(s.head_dim / 2));
  for (uint32_t i = 0; i < s.layers; ++i) w.layers.push_back(random_layer(s, i, random));
  upload.wait();
  if (!upload.status.ok()) return upload.status;
  w.memory = std::move(upload.memory), w.bytes = upload.bytes;
  return w;
}

}  // namespace weir::llm::cuda
