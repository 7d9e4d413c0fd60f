#include "engines/llm/cuda/device_bert.h"

#include <cmath>
#include <utility>

#include "base/check.h"
#include "engines/llm/cuda/launches.h"

namespace weir::llm::cuda {

using base::Status;

Status DeviceBert::check(const BertShape& shape, const device::Device& device, const Kernels& k) {
  if (shape.turns() || shape.gated || shape.norms_first)
    return base::failure(base::Code::kUnimplemented,
                         "an encoder whose heads turn, or with gates, is not known to the kernels of devices; use "
                         "device: cpu");
  const bool there = k.abi == kKernelsAbi && k.load && k.embed_text && k.layer_norm && k.gelu && k.rope_store &&
                     k.prefill_attention && k.matmul_open && k.matmul_close && k.matmul && k.pool;
  if (!there) return base::failure(base::Code::kFailedPrecondition, "libweir_cuda.so lacks kernels of this build");
  if (device.info().index >= 0 && (shape.head_dim() > 256 || shape.hidden % 8 || shape.intermediate % 8))
    return base::failure(base::Code::kUnimplemented,
                         "the widths of this model are not known to the kernels of devices; use device: cpu");
  return {};
}

base::Result<std::unique_ptr<DeviceBert>> DeviceBert::make(device::Device& device, const Kernels& kernels,
                                                           BertShape shape, DeviceBertWeights weights,
                                                           uint32_t max_length, uint32_t pack_tokens,
                                                           DeviceEncoderOptions options) {
  if (auto s = check(shape, device, kernels); !s.ok()) return s;
  base::check(max_length <= shape.max_length(), "texts are no longer than the model's positions");
  EncoderLimits limits = limits_of(shape, max_length, pack_tokens);
  std::unique_ptr<DeviceBert> out(
      new DeviceBert(device, kernels, std::move(shape), std::move(weights), limits, std::move(options)));
  if (auto s = out->start(); !s.ok()) return s;
  return out;
}

DeviceBert::DeviceBert(device::Device& device, const Kernels& kernels, BertShape shape, DeviceBertWeights weights,
                       EncoderLimits limits, DeviceEncoderOptions options)
    : DeviceEncoder(device, kernels, limits, {shape.heads, shape.heads, weights.head_dim, shape.intermediate, 0},
                    std::move(options)),
      shape_(std::move(shape)),
      weights_(std::move(weights)) {}

Status DeviceBert::forward(const Args& args) {
  EmbedText embed{rows_,           weights_.words, weights_.types,
                  weights_.places, args.ids,       weights_.types ? args.kinds : nullptr,
                  args.positions,  args.tokens,    shape_.hidden};
  auto status = each([&] { return queue_.launch(queue_.kernels().embed_text, embed); },
                     [&] { return norm(weights_.norm, args.tokens); });
  for (size_t i = 0; i < weights_.layers.size() && status.ok(); ++i) status = run_layer(weights_.layers[i], args);
  return status;
}

Status DeviceBert::norm(const DeviceNorm& norm, uint32_t tokens) {
  return queue_.launch(queue_.kernels().layer_norm,
                       LayerNorm{rows_, norm.weight, norm.bias, narrow_, tokens, shape_.hidden, shape_.epsilon});
}

Status DeviceBert::run_layer(const DeviceBertLayer& layer, const Args& args) {
  using Into = Matmul::Into;
  const uint32_t tokens = args.tokens, hidden = shape_.hidden, wide = shape_.intermediate, dim = weights_.head_dim,
                 heads = shape_.heads * dim;
  // Nothing is turned: all stand at 0.
  RopeStore store{qkv_,          reinterpret_cast<const float*>(zeros_),
                  zeros_,        args.slots,
                  queries_,      keys_,
                  values_,       tokens,
                  shape_.heads,  shape_.heads,
                  dim,           1,
                  layer.qkv_bias};
  Gelu curve{inner_, layer.up_bias, tokens, wide, shape_.curve == BertShape::Curve::kGelu ? Gelu::kExact : Gelu::kTanh};
  return each(
      [&] { return queue_.multiply(narrow_, tokens, layer.qkv, nullptr, 3 * heads, hidden, qkv_, Into::kBf16); },
      [&] { return queue_.launch(queue_.kernels().rope_store, store); },
      [&] { return attend(args, PrefillAttention::kBidirectional, 0, 1 / std::sqrt(float(shape_.head_dim()))); },
      [&] { return queue_.multiply(mixed_, tokens, layer.out, layer.out_bias, hidden, heads, rows_, Into::kAddF32); },
      [&] { return norm(layer.attention_norm, tokens); },
      [&] { return queue_.multiply(narrow_, tokens, layer.up, nullptr, wide, hidden, inner_, Into::kBf16); },
      [&] { return queue_.launch(queue_.kernels().gelu, curve); },
      [&] { return queue_.multiply(inner_, tokens, layer.down, layer.down_bias, hidden, wide, rows_, Into::kAddF32); },
      [&] { return norm(layer.norm, tokens); });
}

}  // namespace weir::llm::cuda
