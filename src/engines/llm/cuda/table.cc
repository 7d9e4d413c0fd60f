// The module's table of kernels.
#include "engines/llm/cuda/kernels.h"

namespace weir::llm::cuda {

Code embed(const Launch& launch, const Embed& a);
Code add_norm(const Launch& launch, const AddNorm& a);
Code rope_store(const Launch& launch, const RopeStore& a);
Code swiglu(const Launch& launch, const SwiGlu& a);
Code decode_attention(const Launch& launch, const DecodeAttention& a);
Code draw(const Launch& launch, const Draw& a);
Code gather(const Launch& launch, const Gather& a);

namespace {
constexpr Kernels kKernels = {kKernelsAbi, embed, add_norm, rope_store, swiglu, decode_attention, draw, gather};
}  // namespace

extern "C" __attribute__((visibility("default"))) const Kernels* weir_cuda_llm(uint32_t abi);
extern "C" const Kernels* weir_cuda_llm(uint32_t abi) { return abi == kKernelsAbi ? &kKernels : nullptr; }

}  // namespace weir::llm::cuda
