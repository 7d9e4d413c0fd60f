#include "engines/llm/cuda/device_rotary.h"

#include <utility>

#include "engines/llm/cuda/choice.h"
#include "engines/llm/cuda/launches.h"

namespace weir::llm::cuda {

using base::Status;

Status DeviceRotary::check(const Shape& shape, const device::Device& device, const Kernels& k) {
  const bool there = k.abi == kKernelsAbi && k.load && k.embed && k.add_norm && k.rope_store && k.swiglu &&
                     k.prefill_attention && k.matmul_open && k.matmul_close && k.matmul && k.pool;
  if (!there) return base::failure(base::Code::kFailedPrecondition, "libweir_cuda.so lacks kernels of this build");
  if (shape.experts || shape.embedding_scale != 1 || shape.residual_scale != 1)
    return base::failure(base::Code::kUnimplemented, "experts and scales of " + shape.architecture +
                                                         " are not known to encoders on devices; use device: cpu");
  if (shape.norms != Norms::kInputs || shape.norms_less_one || shape.qk_norm_whole || shape.sinks ||
      shape.attention_cap > 0 || shape.activation != Activation::kSilu)
    return base::failure(base::Code::kUnimplemented, "norms, caps and gates of " + shape.architecture +
                                                         " are not known to encoders on devices; use device: cpu");
  return check_widths(shape, device);
}

base::Result<std::unique_ptr<DeviceRotary>> DeviceRotary::make(device::Device& device, const Kernels& kernels,
                                                               Shape shape, DeviceWeights weights,
                                                               const EncoderLimits& limits,
                                                               DeviceEncoderOptions options) {
  if (auto s = check(shape, device, kernels); !s.ok()) return s;
  std::unique_ptr<DeviceRotary> out(
      new DeviceRotary(device, kernels, std::move(shape), std::move(weights), limits, std::move(options)));
  if (auto s = out->start(); !s.ok()) return s;
  return out;
}

DeviceRotary::DeviceRotary(device::Device& device, const Kernels& kernels, Shape shape, DeviceWeights weights,
                           const EncoderLimits& limits, DeviceEncoderOptions options)
    : DeviceEncoder(device, kernels, limits,
                    {shape.heads, shape.kv_heads, shape.head_dim, 2 * shape.intermediate, shape.intermediate},
                    std::move(options)),
      shape_(std::move(shape)),
      weights_(std::move(weights)) {}

Status DeviceRotary::forward(const Args& args) {
  auto status =
      queue_.launch(queue_.kernels().embed, Embed{rows_, weights_.embedding, args.ids, args.tokens, shape_.hidden});
  for (uint32_t i = 0; i < shape_.layers && status.ok(); ++i) status = run_layer(i, args);
  return status.ok() ? norm(weights_.norm, args.tokens, rows_) : status;
}

Status DeviceRotary::norm(const Bf16* weight, uint32_t tokens, float* exact) {
  return queue_.launch(queue_.kernels().add_norm,
                       AddNorm{rows_, nullptr, weight, narrow_, tokens, shape_.hidden, shape_.epsilon, exact});
}

Status DeviceRotary::run_layer(uint32_t index, const Args& args) {
  using Into = Matmul::Into;
  const DeviceLayer& layer = weights_.layers[index];
  const uint32_t tokens = args.tokens, hidden = shape_.hidden, wide = shape_.intermediate,
                 q = shape_.heads * shape_.head_dim, kv = shape_.kv_heads * shape_.head_dim;
  RopeStore rope = rope_of(shape_, weights_, index);
  rope.qkv = qkv_, rope.positions = args.positions, rope.slots = args.slots, rope.tokens = tokens;
  rope.q = queries_, rope.k_cache = keys_, rope.v_cache = values_;
  const auto mask = shape_.causal ? PrefillAttention::kCausal : PrefillAttention::kBidirectional;
  return each(
      [&] { return norm(layer.input_norm, tokens); },
      [&] { return queue_.multiply(narrow_, tokens, layer.qkv, nullptr, q + 2 * kv, hidden, qkv_, Into::kBf16); },
      [&] { return queue_.launch(queue_.kernels().rope_store, rope); },
      [&] { return attend(args, mask, shape_.windows[index], shape_.score_scale()); },
      [&] { return queue_.multiply(mixed_, tokens, layer.out, layer.out_bias, hidden, q, rows_, Into::kAddF32); },
      [&] { return norm(layer.post_norm, tokens); },
      [&] { return queue_.multiply(narrow_, tokens, layer.gate_up, nullptr, 2 * wide, hidden, inner_, Into::kBf16); },
      [&] {
        return queue_.launch(queue_.kernels().swiglu, SwiGlu{inner_, gated_, tokens, wide, layer.gate_up_bias});
      },
      [&] { return queue_.multiply(gated_, tokens, layer.down, layer.down_bias, hidden, wide, rows_, Into::kAddF32); });
}

}  // namespace weir::llm::cuda
