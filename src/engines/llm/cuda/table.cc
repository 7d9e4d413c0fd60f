// The module's table of kernels.
#include <initializer_list>

#include "engines/llm/cuda/kernels.h"
#include "engines/llm/cuda/nccl.h"

namespace weir::llm::cuda {

Code embed(const Launch& launch, const Embed& a);
Code add_norm(const Launch& launch, const AddNorm& a);
Code rope_store(const Launch& launch, const RopeStore& a);
Code swiglu(const Launch& launch, const SwiGlu& a);
Code decode_attention(const Launch& launch, const DecodeAttention& a);
Code draw(const Launch& launch, const Draw& a);
Code gather(const Launch& launch, const Gather& a);
Code patch(const Launch& launch, const Patch& a);
Code prefill_attention(const Launch& launch, const PrefillAttention& a);
Code matmul_open(int32_t device, void* workspace, Matmuls** out);
Code matmul_close(Matmuls* matmuls);
Code matmul(const Launch& launch, Matmuls* matmuls, const Matmul& a);
Code adjust(const Launch& launch, const Adjust& a);
Code logprobs(const Launch& launch, const Logprobs& a);
Code read_out(const Launch& launch, const ReadOut& a);
Code pool(const Launch& launch, const Pool& a);
Code embed_text(const Launch& launch, const EmbedText& a);
Code layer_norm(const Launch& launch, const LayerNorm& a);
Code gelu(const Launch& launch, const Gelu& a);
Code norm_matmul(const Launch& launch, const NormMatmul& a);
Code add_normed(const Launch& launch, const AddNormed& a);
Code norm_whole(const Launch& launch, const NormWhole& a);
Code soft_cap(const Launch& launch, const SoftCap& a);
Code route(const Launch& launch, const Route& a);
Code place_pairs(const Launch& launch, const PlacePairs& a);
Code expert_matmul(const Launch& launch, const ExpertMatmul& a);
Code add_experts(const Launch& launch, const AddExperts& a);
Code load_coded(int32_t device);
Code load_decode(int32_t device);
Code load_draw(int32_t device);
Code load_encoder(int32_t device);
Code load_experts(int32_t device);
Code load_grouped(int32_t device);
Code load_grouped_coded(int32_t device);
Code load_logits(int32_t device);
Code load_normed(int32_t device);
Code load_norms(int32_t device);
Code load_prefill(int32_t device);
Code load_prefill_wgmma(int32_t device);
Code load_rope(int32_t device);
Code load_rows(int32_t device);
Code load_states(int32_t device);
Code load_thin(int32_t device);
Code load_thin_coded(int32_t device);

namespace {

Code load_all(int32_t device) {
  Code code = 0;
  for (auto load : {load_coded, load_decode, load_draw, load_encoder, load_experts, load_grouped, load_grouped_coded,
                    load_logits, load_normed, load_norms, load_prefill, load_prefill_wgmma, load_rope, load_rows,
                    load_states, load_thin, load_thin_coded})
    if (code == 0) code = load(device);
  return code;
}

constexpr ExpertKernels kExperts = {route, place_pairs, expert_matmul, add_experts};
constexpr Collectives kCollectives = {open_communicators, close_communicator, all_reduce,
                                      broadcast,          communicator_error, abort_communicator};
constexpr Kernels kKernels = {kKernelsAbi, embed,    add_norm,     rope_store,        swiglu,      decode_attention,
                              draw,        gather,   patch,        prefill_attention, matmul_open, matmul_close,
                              matmul,      adjust,   logprobs,     read_out,          pool,        embed_text,
                              layer_norm,  gelu,     norm_matmul,  load_all,          kExperts,    add_normed,
                              norm_whole,  soft_cap, &kCollectives};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Kernels* weir_cuda_llm(uint32_t abi);
extern "C" const Kernels* weir_cuda_llm(uint32_t abi) { return abi == kKernelsAbi ? &kKernels : nullptr; }

}  // namespace weir::llm::cuda
