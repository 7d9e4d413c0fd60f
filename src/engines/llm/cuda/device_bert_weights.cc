// An encoder's parameters into the memory of a device.
#include <algorithm>
#include <cstring>
#include <string>

#include "engines/llm/cuda/bf16.h"
#include "engines/llm/cuda/device_bert.h"

namespace weir::llm::cuda {
namespace {

using base::Status;
using device::Copy;

constexpr size_t kBertStage = size_t(8) << 20;

// Brings arrays to the device through one pinned stage; they are small beside a model of tokens. Keeps the first error.
class BertUpload {
 public:
  BertUpload(const BertShape& shape, const Store& store, device::Device& device)
      : shape_(shape), store_(store), device_(device) {
    keep(device.pin(kBertStage), stage_);
    keep(device.stream(), stream_);
    keep(device.event(), sent_);
  }

  template <class T>
  const T* send(const std::vector<T>& values) {
    const size_t bytes = values.size() * sizeof(T);
    device::DeviceBuffer buffer;
    if (!status.ok() || !keep(device_.buffer(bytes), buffer)) return nullptr;
    for (size_t at = 0; at < bytes && status.ok(); at += kBertStage) {
      const size_t n = std::min(kBertStage, bytes - at);
      std::memcpy(stage_.data(), reinterpret_cast<const std::byte*>(values.data()) + at, n);
      Copy copy{buffer.data() + at, stage_.data(), n};
      status = device_.copy(stream_, device::Way::kToDevice, {&copy, 1});
      if (status.ok()) status = device_.record(sent_, stream_);
      if (status.ok()) status = device::await(device_, sent_);
    }
    memory.push_back(std::move(buffer));
    return status.ok() ? reinterpret_cast<const T*>(memory.back().data()) : nullptr;
  }

  std::vector<float> floats(const std::string& name, std::initializer_list<uint64_t> shape) {
    auto out = status.ok() ? store_.floats(name, shape) : base::Result<std::vector<float>>(status);
    if (!out) status = out.error();
    return out ? std::move(*out) : std::vector<float>();
  }
  const Bf16* matrix(const std::string& name, uint32_t outputs, uint32_t inputs) {
    return send(narrowed(floats(name, {outputs, inputs})));
  }
  const float* vector(const std::string& name, uint32_t size) { return send(floats(name, {size})); }
  DeviceNorm norm(const std::string& name) {
    const bool old = store_.has(name + ".gamma");
    const float* weight = vector(name + (old ? ".gamma" : ".weight"), shape_.hidden);
    return {weight, vector(name + (old ? ".beta" : ".bias"), shape_.hidden)};
  }

  // Queries, keys and values one below the other, every head followed by zeros up to `dim`.
  void heads(const std::string& layer_name, uint32_t dim, DeviceBertLayer& layer) {
    const uint32_t hidden = shape_.hidden, own = shape_.head_dim();
    std::vector<Bf16> weight(size_t(3) * shape_.heads * dim * hidden, 0);
    std::vector<float> bias(size_t(3) * shape_.heads * dim, 0);
    size_t part = 0;
    for (std::string_view name : {shape_.names.query, shape_.names.key, shape_.names.value}) {
      const std::string projection = layer_name + std::string(name);
      auto w = narrowed(floats(projection + ".weight", {hidden, hidden}));
      auto b = floats(projection + ".bias", {hidden});
      for (uint32_t head = 0; head < shape_.heads && status.ok(); ++head) {
        const size_t to = (part * shape_.heads + head) * dim;
        std::copy_n(w.begin() + ptrdiff_t(size_t(head) * own * hidden), size_t(own) * hidden,
                    weight.begin() + ptrdiff_t(to * hidden));
        std::copy_n(b.begin() + head * own, own, bias.begin() + ptrdiff_t(to));
      }
      ++part;
    }
    layer.qkv = send(weight), layer.qkv_bias = send(bias);
  }
  // The projection that mixes the heads, with zeros where they have them.
  const Bf16* mix(const std::string& name, uint32_t dim) {
    const uint32_t hidden = shape_.hidden, own = shape_.head_dim();
    auto w = narrowed(floats(name, {hidden, hidden}));
    std::vector<Bf16> wide(size_t(hidden) * shape_.heads * dim, 0);
    for (uint32_t row = 0; row < hidden && status.ok(); ++row)
      for (uint32_t head = 0; head < shape_.heads; ++head)
        std::copy_n(w.begin() + ptrdiff_t(size_t(row) * hidden + head * own), own,
                    wide.begin() + ptrdiff_t((size_t(row) * shape_.heads + head) * dim));
    return send(wide);
  }

  Status status;
  std::vector<device::DeviceBuffer> memory;

 private:
  static std::vector<Bf16> narrowed(const std::vector<float>& values) {
    std::vector<Bf16> out(values.size());
    std::transform(values.begin(), values.end(), out.begin(), narrow_bf16);
    return out;
  }
  template <class T>
  bool keep(base::Result<T> made, T& to) {
    if (made)
      to = std::move(*made);
    else if (status.ok())
      status = made.error();
    return status.ok();
  }

  const BertShape& shape_;
  const Store& store_;
  device::Device& device_;
  device::PinnedBlock stage_;
  device::Stream stream_;
  device::Event sent_;
};

}  // namespace

base::Result<DeviceBertWeights> load_device_bert(const BertShape& s, const Store& store, device::Device& device) {
  const std::string first = "embeddings.word_embeddings.weight";
  const std::string root = store.has(first) ? "" : s.outer, embeddings = root + "embeddings.";
  BertUpload load(s, store, device);
  DeviceBertWeights w;
  w.head_dim = s.head_dim() <= 64 ? 64 : s.head_dim() <= 128 ? 128 : 256;
  w.words = load.matrix(root + first, s.vocabulary, s.hidden);
  w.places = load.send(load.floats(embeddings + "position_embeddings.weight", {s.positions, s.hidden}));
  if (s.types > 0) w.types = load.send(load.floats(embeddings + "token_type_embeddings.weight", {s.types, s.hidden}));
  w.norm = load.norm(embeddings + "LayerNorm");
  for (uint32_t i = 0; i < s.layers && load.status.ok(); ++i) {
    const std::string layer = root + std::string(s.names.layers) + std::to_string(i) + ".";
    auto named = [&](std::string_view part, const char* array) { return layer + std::string(part) + array; };
    DeviceBertLayer& to = w.layers.emplace_back();
    load.heads(layer, w.head_dim, to);
    to.out = load.mix(named(s.names.out, ".weight"), w.head_dim);
    to.out_bias = load.vector(named(s.names.out, ".bias"), s.hidden);
    to.attention_norm = load.norm(named(s.names.attention_norm, ""));
    to.up = load.matrix(named(s.names.up, ".weight"), s.intermediate, s.hidden);
    to.up_bias = load.vector(named(s.names.up, ".bias"), s.intermediate);
    to.down = load.matrix(named(s.names.down, ".weight"), s.hidden, s.intermediate);
    to.down_bias = load.vector(named(s.names.down, ".bias"), s.hidden);
    to.norm = load.norm(named(s.names.norm, ""));
  }
  if (!load.status.ok()) return load.status;
  if (auto intact = store.intact(); !intact.ok()) return intact;
  w.memory = std::move(load.memory);
  return w;
}

}  // namespace weir::llm::cuda
