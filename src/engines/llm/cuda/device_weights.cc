#include "engines/llm/cuda/device_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "device/await.h"
#include "engines/llm/cuda/bf16.h"
#include "engines/llm/cuda/plan.h"
#include "engines/llm/load/weight.h"

namespace weir::llm::cuda {
namespace {

using base::Status;
using device::Copy;
using device::DeviceBuffer;
using device::Way;

constexpr size_t kStage = size_t(16) << 20;  // bytes that are filled while as many are on their way
constexpr size_t kSlab = size_t(2) << 20;    // small arrays share buffers of this size

// Brings arrays to the device, piece by piece through two pinned stages. Keeps the first error.
class Upload {
 public:
  explicit Upload(device::Device& device) : device_(device) {
    for (auto& stage : stages_) keep(device.pin(kStage), stage.block), keep(device.event(), stage.sent);
    keep(device.stream(), stream_);
  }

  // After an error copies may still be under way.
  ~Upload() {
    for (auto& stage : stages_)
      if (stage.used) (void)device::await(device_, stage.sent);
  }

  // `fill(from, n, to)` writes elements [from, from + n). The address on the device, or null after an error.
  template <class T, class Fill>
  T* send(size_t elements, Fill&& fill) {
    std::byte* to = room(elements * sizeof(T));
    constexpr size_t kPiece = kStage / sizeof(T);
    for (size_t from = 0; from < elements && status.ok(); from += kPiece) {
      size_t n = std::min(kPiece, elements - from);
      Stage& stage = stages_[next_++ % 2];
      if (stage.used && !check(device::await(device_, stage.sent))) break;
      fill(from, n, reinterpret_cast<T*>(stage.block.data()));
      Copy copy{to + from * sizeof(T), stage.block.data(), n * sizeof(T)};
      stage.used =
          check(device_.copy(stream_, Way::kToDevice, {&copy, 1})) && check(device_.record(stage.sent, stream_));
    }
    return status.ok() ? reinterpret_cast<T*>(to) : nullptr;
  }
  // All has arrived.
  void wait() {
    for (auto& stage : stages_)
      if (stage.used && status.ok()) check(device::await(device_, stage.sent));
  }
  bool check(Status s) {
    if (!s.ok() && status.ok()) status = std::move(s);
    return status.ok();
  }

  Status status;
  std::vector<DeviceBuffer> memory;
  uint64_t bytes = 0;

 private:
  struct Stage {
    device::PinnedBlock block;
    device::Event sent;
    bool used = false;
  };

  template <class T>
  void keep(base::Result<T> result, T& to) {
    if (!result)
      check(result.error());
    else
      to = std::move(*result);
  }
  std::byte* room(size_t n) {
    n = aligned(n);
    if (n > kSlab / 2) return buffer(n);
    if (left_ < n) slab_ = buffer(kSlab), left_ = slab_ ? kSlab : 0;
    if (!slab_) return nullptr;
    left_ -= n;
    return slab_ + (kSlab - left_ - n);
  }
  std::byte* buffer(size_t n) {
    if (!status.ok()) return nullptr;
    auto made = device_.buffer(n);
    if (!made) return check(made.error()), nullptr;
    memory.push_back(std::move(*made));
    bytes += n;
    return memory.back().data();
  }

  device::Device& device_;
  device::Stream stream_;
  Stage stages_[2];
  uint32_t next_ = 0;
  std::byte* slab_ = nullptr;
  size_t left_ = 0;
};

// The arrays of a Store, as the device wants them.
class WeightReader {
 public:
  WeightReader(const Store& store, const Quantization& how, Upload& upload)
      : store_(store), how_(how), upload_(upload) {}

  const Bf16* vector(const std::string& name, uint32_t size) {
    auto* array = find(name, {size});
    if (!array) return nullptr;
    return upload_.send<Bf16>(size, [&](size_t from, size_t n, Bf16* to) { narrow(*array, from, n, to); });
  }
  // One below the other.
  const Bf16* matrix(std::initializer_list<std::pair<std::string, uint32_t>> parts, uint32_t inputs) {
    std::vector<Weight> weights;
    size_t rows = 0;
    for (const auto& [name, outputs] : parts) {
      if (!upload_.status.ok()) return nullptr;
      auto weight = Weight::find(store_, how_, name, outputs, inputs);
      if (!weight) return upload_.check(weight.error()), nullptr;
      weights.push_back(std::move(*weight));
      rows += outputs;
    }
    return upload_.send<Bf16>(rows * inputs, [&](size_t from, size_t n, Bf16* to) {
      each(weights, from, n, [&](const Weight& weight, size_t first, size_t count) {
        if (const Array* array = weight.whole())
          narrow(*array, first, count, to);
        else
          narrow(weight, first, count, to);
        to += count;
      });
    });
  }
  const float* bias(std::initializer_list<std::pair<std::string, uint32_t>> parts) {
    std::vector<float> all;
    for (const auto& [name, outputs] : parts) {
      auto part = store_.floats(name + ".bias", {outputs});
      if (!part) return upload_.check(part.error()), nullptr;
      all.insert(all.end(), part->begin(), part->end());
    }
    return floats(all);
  }
  const float* floats(const std::vector<float>& all) {
    return upload_.send<float>(all.size(), [&](size_t from, size_t n, float* to) { std::copy_n(&all[from], n, to); });
  }

 private:
  const Array* find(const std::string& name, std::initializer_list<uint64_t> shape) {
    if (!upload_.status.ok()) return nullptr;
    auto array = store_.find(name, shape);
    if (!array) return upload_.check(array.error()), nullptr;
    return *array;
  }
  // Elements [from, from + n) of the matrices one after the other, piece by piece.
  template <class Each>
  static void each(const std::vector<Weight>& weights, size_t from, size_t n, Each&& piece) {
    for (const auto& weight : weights) {
      size_t size = size_t(weight.outputs()) * weight.inputs();
      if (from < size && n > 0) {
        size_t count = std::min(n, size - from);
        piece(weight, from, count);
        n -= count, from = 0;
      } else {
        from -= std::min(from, size);
      }
    }
  }
  static void narrow(const Array& array, size_t from, size_t n, Bf16* to) {
    if (array.dtype == Stored::kBf16 && array.head_rows == 0) {
      std::memcpy(to, array.data.data() + from * sizeof(Bf16), n * sizeof(Bf16));
      return;
    }
    float piece[1024];
    for (size_t done = 0; done < n; done += std::size(piece)) {
      size_t count = std::min(std::size(piece), n - done);
      read_floats(array, from + done, count, piece);
      std::transform(piece, piece + count, to + done, narrow_bf16);
    }
  }
  // One that is quantized, row by row.
  static void narrow(const Weight& weight, size_t from, size_t n, Bf16* to) {
    std::vector<float> row(weight.inputs());
    while (n > 0) {
      const size_t skip = from % row.size(), count = std::min(n, row.size() - skip);
      weight.floats(uint32_t(from / row.size()), row.data());
      to = std::transform(row.begin() + skip, row.begin() + skip + count, to, narrow_bf16);
      from += count, n -= count;
    }
  }

  const Store& store_;
  const Quantization& how_;
  Upload& upload_;
};

DeviceLayer read_layer(const Shape& s, const std::string& prefix, WeightReader& read) {
  const uint32_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
  const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
  DeviceLayer l;
  l.input_norm = read.vector(prefix + "input_layernorm.weight", s.hidden);
  l.post_norm = read.vector(prefix + "post_attention_layernorm.weight", s.hidden);
  if (s.qk_norm) {
    l.q_norm = read.vector(attention + "q_norm.weight", s.head_dim);
    l.k_norm = read.vector(attention + "k_norm.weight", s.head_dim);
  }
  l.qkv = read.matrix({{attention + "q_proj", q}, {attention + "k_proj", kv}, {attention + "v_proj", kv}}, s.hidden);
  if (s.qkv_bias)
    l.qkv_bias = read.bias({{attention + "q_proj", q}, {attention + "k_proj", kv}, {attention + "v_proj", kv}});
  l.out = read.matrix({{attention + "o_proj", s.hidden}}, q);
  if (s.out_bias) l.out_bias = read.bias({{attention + "o_proj", s.hidden}});
  l.gate_up = read.matrix({{mlp + "gate_proj", s.intermediate}, {mlp + "up_proj", s.intermediate}}, s.hidden);
  l.down = read.matrix({{mlp + "down_proj", s.hidden}}, s.intermediate);
  if (s.mlp_bias) {
    l.gate_up_bias = read.bias({{mlp + "gate_proj", s.intermediate}, {mlp + "up_proj", s.intermediate}});
    l.down_bias = read.bias({{mlp + "down_proj", s.hidden}});
  }
  return l;
}

base::Result<DeviceWeights> finish(DeviceWeights w, Upload& upload) {
  upload.wait();
  if (!upload.status.ok()) return upload.status;
  w.memory = std::move(upload.memory), w.bytes = upload.bytes;
  return w;
}

}  // namespace

base::Result<DeviceWeights> load_device_weights(const Shape& shape, const Readouts& readouts, const Store& store,
                                                device::Device& device) {
  Upload upload(device);
  WeightReader read(store, shape.quantization, upload);
  DeviceWeights w;
  const std::string root = root_of(store);
  w.embedding = read.matrix({{root + "embed_tokens", shape.vocabulary}}, shape.hidden);
  if (!shape.encoder) w.head = shape.tied ? w.embedding : read.matrix({{"lm_head", shape.vocabulary}}, shape.hidden);
  w.norm = read.vector(root + "norm.weight", shape.hidden);
  w.frequencies = read.floats(shape.rope.frequencies);
  if (!readouts.vectors.empty()) w.readouts = read.floats(readouts.vectors);
  for (uint32_t i = 0; i < shape.layers && upload.status.ok(); ++i)
    w.layers.push_back(read_layer(shape, root + "layers." + std::to_string(i) + ".", read));
  if (auto s = store.intact(); !s.ok()) return s;
  return finish(std::move(w), upload);
}

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

}  // namespace

base::Result<DeviceWeights> random_device_weights(const Shape& s, uint64_t seed, device::Device& device) {
  Upload upload(device);
  uint64_t matrix = seed;
  auto random = [&](size_t elements, uint32_t inputs) -> const Bf16* {
    const float scale = std::sqrt(3.f / float(inputs));  // uniform: the variance is a third of its square
    const uint64_t stream = matrix += 0x9e3779b97f4a7c15ull;
    return upload.send<Bf16>(elements, [&](size_t from, size_t n, Bf16* to) {
      fill_random(stream, scale, from, {to, n});
    });
  };
  auto ones = [&](size_t n) -> const Bf16* {
    return upload.send<Bf16>(n, [](size_t, size_t count, Bf16* to) { std::fill_n(to, count, narrow_bf16(1)); });
  };
  const uint32_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
  DeviceWeights w;
  w.embedding = random(size_t(s.vocabulary) * s.hidden, s.hidden);
  if (!s.encoder) w.head = s.tied ? w.embedding : random(size_t(s.vocabulary) * s.hidden, s.hidden);
  w.norm = ones(s.hidden);
  w.frequencies = upload.send<float>(s.rope.frequencies.size(), [&](size_t from, size_t n, float* to) {
    std::copy_n(&s.rope.frequencies[from], n, to);
  });
  for (uint32_t i = 0; i < s.layers; ++i) {
    DeviceLayer l;
    l.input_norm = ones(s.hidden), l.post_norm = ones(s.hidden);
    if (s.qk_norm) l.q_norm = ones(s.head_dim), l.k_norm = ones(s.head_dim);
    l.qkv = random(size_t(q + 2 * kv) * s.hidden, s.hidden), l.out = random(size_t(s.hidden) * q, q);
    l.gate_up = random(size_t(2) * s.intermediate * s.hidden, s.hidden);
    l.down = random(size_t(s.hidden) * s.intermediate, s.intermediate);
    w.layers.push_back(l);
  }
  return finish(std::move(w), upload);
}

}  // namespace weir::llm::cuda
