#include "engines/llm/cuda/device_bert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace weir::llm::cuda {
namespace {

using base::Status;
using device::Copy;
using device::Way;

constexpr size_t kAlign = 256;
constexpr uint32_t kBlock = 16;  // positions of a block of keys and values

size_t aligned(size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

// Runs one after the other until one fails.
template <class... Steps>
Status each(Steps&&... steps) {
  Status status;
  (void)(... && (status = steps()).ok());
  return status;
}

template <class T>
Status keep(base::Result<T> made, T& to) {
  if (!made) return made.error();
  to = std::move(*made);
  return {};
}

}  // namespace

Status DeviceBert::check(const BertShape& shape, const device::Device& device, const Kernels& k) {
  const bool there = k.abi == kKernelsAbi && k.embed_text && k.layer_norm && k.gelu && k.rope_store &&
                     k.prefill_attention && k.matmul_open && k.matmul_close && k.matmul;
  if (!there) return base::failure(base::Code::kFailedPrecondition, "libweir_cuda.so lacks kernels of this build");
  if (device.info().index >= 0 && (shape.head_dim() > 256 || shape.hidden % 8 || shape.intermediate % 8))
    return base::failure(base::Code::kUnimplemented,
                         "the widths of this model are not known to the kernels of devices; use device: cpu");
  return {};
}

base::Result<std::unique_ptr<DeviceBert>> DeviceBert::make(device::Device& device, const Kernels& kernels,
                                                           BertShape shape, DeviceBertWeights weights,
                                                           uint32_t max_length, uint32_t pack_tokens,
                                                           std::function<void(Status)> broken) {
  if (auto s = check(shape, device, kernels); !s.ok()) return s;
  base::check(max_length <= shape.max_length(), "texts are no longer than the model's positions");
  EncoderLimits limits = limits_of(shape, max_length, pack_tokens);
  std::unique_ptr<DeviceBert> out(
      new DeviceBert(device, kernels, std::move(shape), std::move(weights), limits, std::move(broken)));
  if (auto s = out->start(); !s.ok()) return s;
  return out;
}

DeviceBert::DeviceBert(device::Device& device, const Kernels& kernels, BertShape shape, DeviceBertWeights weights,
                       EncoderLimits limits, std::function<void(Status)> broken)
    : device_(device),
      epoch_(device.epoch()),
      kernels_(kernels),
      shape_(std::move(shape)),
      weights_(std::move(weights)),
      limits_(limits),
      broken_(std::move(broken)) {}

// What is queued still reads and writes what dies here. On a device at fault nothing is freed, nor waited for.
DeviceBert::~DeviceBert() {
  const bool usable = device_.fault().ok() && device_.epoch() == epoch_;
  if (usable && stream_ && drain().ok() && matmuls_) kernels_.matmul_close(matmuls_);
}

Status DeviceBert::start() {
  return each([&] { return keep(device_.stream(), stream_); }, [&] { return keep(device_.event(), done_); },
              [&] { return make_room(); }, [&] { return upload_constants(); },
              [&] {
                return device_.run(stream_, [this, index = device_.info().index](void*) {
                  return kernels_.matmul_open(index, workspace_, &matmuls_);
                });
              },
              [&] { return drain(); });
}

Status DeviceBert::make_room() {
  const size_t tokens = limits_.pack_tokens, hidden = shape_.hidden, heads = size_t(shape_.heads) * weights_.head_dim;
  size_t bytes = 0;
  auto room = [&](size_t n) { return std::exchange(bytes, bytes + aligned(n)); };
  const size_t rows = room(tokens * hidden * sizeof(float)), narrow = room(tokens * hidden * sizeof(Bf16));
  const size_t qkv = room(tokens * 3 * heads * sizeof(Bf16)), queries = room(tokens * heads * sizeof(Bf16));
  const size_t mixed = room(tokens * heads * sizeof(Bf16)), inner = room(tokens * shape_.intermediate * sizeof(Bf16));
  const size_t keys = room(tokens * heads * sizeof(Bf16)), values = room(tokens * heads * sizeof(Bf16));
  const size_t workspace = room(kWorkspace);
  // ids, kinds, positions, slots; chunks and tiles of texts, which have a token at least.
  const size_t args = tokens * (4 * sizeof(uint32_t) + sizeof(Chunk) + sizeof(Tile)) + 6 * kAlign;
  if (auto s = each([&] { return keep(device_.buffer(bytes), room_); },
                    [&] { return keep(device_.buffer(args), args_); }, [&] { return keep(device_.pin(args), in_); },
                    [&] { return keep(device_.pin(tokens * hidden * sizeof(float)), out_); });
      !s.ok())
    return s;
  auto halves = [&](size_t at) { return reinterpret_cast<Bf16*>(room_.data() + at); };
  rows_ = reinterpret_cast<float*>(room_.data() + rows), narrow_ = halves(narrow), qkv_ = halves(qkv);
  queries_ = halves(queries), mixed_ = halves(mixed), inner_ = halves(inner), keys_ = halves(keys);
  values_ = halves(values), workspace_ = room_.data() + workspace;
  return {};
}

Status DeviceBert::upload_constants() {
  const size_t blocks = limits_.pack_tokens / kBlock, zeros = std::max<size_t>(limits_.pack_tokens, weights_.head_dim);
  std::vector<uint32_t> words(blocks + zeros, 0);
  std::iota(words.begin(), words.begin() + ptrdiff_t(blocks), 0u);
  const size_t bytes = words.size() * sizeof(uint32_t);
  base::check(bytes <= in_.size(), "arguments take more than constants");
  if (auto s = keep(device_.buffer(bytes), constants_); !s.ok()) return s;
  std::memcpy(in_.data(), words.data(), bytes);
  Copy copy{constants_.data(), in_.data(), bytes};
  if (auto s = device_.copy(stream_, Way::kToDevice, {&copy, 1}); !s.ok()) return s;
  table_ = reinterpret_cast<const uint32_t*>(constants_.data());
  no_positions_ = table_ + blocks;
  no_frequencies_ = reinterpret_cast<const float*>(no_positions_);
  return drain();
}

Status DeviceBert::drain() {
  auto status = device_.record(done_, stream_);
  return status.ok() ? device::await(device_, done_) : status;
}

Status DeviceBert::run(const Pack& pack) {
  const size_t n = pack.ids.size();
  if (n > limits_.pack_tokens || pack.positions.size() != n || (!pack.types.empty() && pack.types.size() != n))
    return base::failure(base::Code::kInternal, "a pack's arrays are too long, or differ");
  auto status = each([&] { return queue(pack); }, [&] { return drain(); });
  if (!status.ok() && !device_.fault().ok() && broken_) std::exchange(broken_, nullptr)(status);
  return status;
}

void DeviceBert::state(uint32_t token, float* out) const {
  std::memcpy(out, out_.data() + size_t(token) * shape_.hidden * sizeof(float), shape_.hidden * sizeof(float));
}

DeviceBert::Args DeviceBert::write(const Pack& pack) {
  std::vector<uint32_t> slots;
  std::vector<Chunk> chunks;
  std::vector<Tile> tiles;
  uint32_t block = 0;
  for (const auto& text : pack.texts) {
    for (uint32_t i = 0; i < text.count; ++i) slots.push_back(block * kBlock + i);
    for (uint32_t query = 0; query < text.count; query += kQueryTile) tiles.push_back({uint32_t(chunks.size()), query});
    chunks.push_back({text.first, text.count, 0, block});
    block += EncoderLimits::taken(text.count) / kBlock;
  }
  base::check(block * kBlock <= limits_.pack_tokens, "a pack's texts take no more than there is");
  Args args;
  auto put = [&](const auto& values) {
    const size_t bytes = values.size() * sizeof(values[0]), at = std::exchange(args.bytes, args.bytes + aligned(bytes));
    if (bytes > 0) std::memcpy(in_.data() + at, values.data(), bytes);
    return at;
  };
  std::vector<uint32_t> none(pack.types.empty() && weights_.types ? pack.ids.size() : 0, 0);
  args.ids = put(pack.ids), args.kinds = put(pack.types.empty() ? none : pack.types);
  args.positions = put(pack.positions), args.slots = put(slots), args.chunks = put(chunks), args.tiles = put(tiles);
  args.tile_count = uint32_t(tiles.size());
  return args;
}

template <class A>
Status DeviceBert::launch(Code (*kernel)(const Launch&, const A&), const A& a) {
  return device_.run(stream_, [kernel, a, index = device_.info().index](void* stream) {
    return kernel({index, stream}, a);
  });
}

Status DeviceBert::multiply(const Bf16* x, uint32_t rows, const Bf16* weight, const float* bias, uint32_t outputs,
                            uint32_t inputs, void* out, Matmul::Into into) {
  Matmul a{x, weight, bias, out, rows, outputs, inputs, into};
  return device_.run(stream_, [this, a, index = device_.info().index](void* stream) {
    return kernels_.matmul({index, stream}, matmuls_, a);
  });
}

Status DeviceBert::queue(const Pack& pack) {
  const auto tokens = uint32_t(pack.ids.size());
  const Args args = write(pack);
  Copy in{args_.data(), in_.data(), args.bytes},
      out{out_.data(), rows_, size_t(tokens) * shape_.hidden * sizeof(float)};
  EmbedText embed{rows_,
                  weights_.words,
                  weights_.types,
                  weights_.places,
                  arg<uint32_t>(args.ids),
                  weights_.types ? arg<uint32_t>(args.kinds) : nullptr,
                  arg<uint32_t>(args.positions),
                  tokens,
                  shape_.hidden};
  auto status = each(
      [&] {
        return device_.copy(stream_, Way::kToDevice, {&in, 1});
      },
      [&] { return launch(kernels_.embed_text, embed); }, [&] { return norm(weights_.norm, tokens); });
  for (size_t i = 0; i < weights_.layers.size() && status.ok(); ++i)
    status = run_layer(weights_.layers[i], args, tokens);
  return status.ok() ? device_.copy(stream_, Way::kToHost, {&out, 1}) : status;
}

Status DeviceBert::norm(const DeviceNorm& norm, uint32_t tokens) {
  return launch(kernels_.layer_norm,
                LayerNorm{rows_, norm.weight, norm.bias, narrow_, tokens, shape_.hidden, shape_.epsilon});
}

Status DeviceBert::run_layer(const DeviceBertLayer& layer, const Args& args, uint32_t tokens) {
  using Into = Matmul::Into;
  const uint32_t hidden = shape_.hidden, wide = shape_.intermediate, dim = weights_.head_dim,
                 heads = shape_.heads * dim;
  RopeStore store{qkv_,          no_frequencies_, no_positions_, arg<uint32_t>(args.slots),
                  queries_,      keys_,           values_,       tokens,
                  shape_.heads,  shape_.heads,    dim,           1,
                  layer.qkv_bias};
  PrefillAttention attention{queries_,
                             keys_,
                             values_,
                             table_,
                             arg<Chunk>(args.chunks),
                             arg<Tile>(args.tiles),
                             mixed_,
                             args.tile_count,
                             shape_.heads,
                             shape_.heads,
                             dim,
                             kBlock,
                             0,
                             1 / std::sqrt(float(shape_.head_dim()))};
  attention.sees = PrefillAttention::kWholeChunk;
  Gelu curve{inner_, layer.up_bias, tokens, wide, shape_.curve == BertShape::Curve::kGelu ? Gelu::kExact : Gelu::kTanh};
  return each([&] { return multiply(narrow_, tokens, layer.qkv, nullptr, 3 * heads, hidden, qkv_, Into::kBf16); },
              [&] { return launch(kernels_.rope_store, store); },
              [&] { return launch(kernels_.prefill_attention, attention); },
              [&] { return multiply(mixed_, tokens, layer.out, layer.out_bias, hidden, heads, rows_, Into::kAddF32); },
              [&] { return norm(layer.attention_norm, tokens); },
              [&] { return multiply(narrow_, tokens, layer.up, nullptr, wide, hidden, inner_, Into::kBf16); },
              [&] { return launch(kernels_.gelu, curve); },
              [&] { return multiply(inner_, tokens, layer.down, layer.down_bias, hidden, wide, rows_, Into::kAddF32); },
              [&] { return norm(layer.norm, tokens); });
}

}  // namespace weir::llm::cuda
