// The host versions of kernels that do the work of several: those one after the other, so that results are the same to
// the last bit whether a step takes them or not.
#include <vector>

#include "engines/llm/cuda/reference.h"

namespace weir::llm::cuda::reference {
namespace {

std::vector<Bf16> normed(const NormMatmul& a) {
  std::vector<float> stream(a.stream, a.stream + size_t(a.rows) * a.inputs);
  std::vector<Bf16> out(stream.size());
  add_norm({stream.data(), nullptr, a.norm, out.data(), a.rows, a.inputs, a.epsilon, nullptr, a.offset});
  return out;
}

}  // namespace

void norm_matmul(const NormMatmul& a) {
  const std::vector<Bf16> x = normed(a);
  auto multiply = [&](Bf16* out, uint32_t outputs) {
    matmul({x.data(), a.weight, nullptr, out, a.rows, outputs, a.inputs, Matmul::Into::kBf16});
  };
  if (a.into == NormMatmul::kPlain) return multiply(a.out, a.outputs);
  std::vector<Bf16> gates(size_t(a.rows) * 2 * a.outputs);
  multiply(gates.data(), 2 * a.outputs);
  swiglu({gates.data(), a.out, a.rows, a.outputs, a.bias, a.kind});
}

void attend_turned(const DecodeAttention& a) {
  if (!a.turn.qkv) return decode_attention(a);
  std::vector<Bf16> queries(size_t(a.rows) * a.heads * a.dim);
  RopeStore turn = a.turn;
  turn.q = queries.data(), turn.k_cache = a.k_cache, turn.v_cache = a.v_cache, turn.tokens = a.rows;
  turn.codes = a.codes, turn.scales = a.scales;
  rope_store(turn);
  DecodeAttention attention = a;
  attention.q = queries.data();
  decode_attention(attention);
}

}  // namespace weir::llm::cuda::reference
