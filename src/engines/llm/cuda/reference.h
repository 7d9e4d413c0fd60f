// The computations of kernels.h on the host, as plainly as can be: the tests of the kernels compare with
// these, and these are tested by hand-made tables. The structs are the same, with host pointers. Sums are in double.
#pragma once

#include "engines/llm/cuda/kernels.h"

namespace weir::llm::cuda::reference {

void embed(const Embed& a);
void add_norm(const AddNorm& a);
void add_normed(const AddNormed& a);
void norm_whole(const NormWhole& a);
void soft_cap(const SoftCap& a);
void rope_store(const RopeStore& a);
void swiglu(const SwiGlu& a);
// Without parts: the memory for them is not touched.
void decode_attention(const DecodeAttention& a);
void draw(const Draw& a);
void gather(const Gather& a);
void patch(const Patch& a);
void prefill_attention(const PrefillAttention& a);
void matmul(const Matmul& a);
void adjust(const Adjust& a);
void logprobs(const Logprobs& a);
void read_out(const ReadOut& a);
void pool(const Pool& a);
void embed_text(const EmbedText& a);
void layer_norm(const LayerNorm& a);
void gelu(const Gelu& a);
void norm_matmul(const NormMatmul& a);
void route(const Route& a);
void place_pairs(const PlacePairs& a);
void expert_matmul(const ExpertMatmul& a);
void add_experts(const AddExperts& a);
// decode_attention, behind rope_store where `turn` has qkv.
void attend_turned(const DecodeAttention& a);

// The curve of a gate, times what goes with it.
double gated(Gate kind, double gate, double up);

// The collectives of ranks that are threads of this process.
extern const Collectives kCollectives;

// All of them as the table that the module has; a Launch is not looked at, and everything is done at once.
const Kernels& table();

// The random number of a draw, from 0 to below 1; the CPU engine's sampler has the same.
double uniform(uint64_t seed, uint64_t number);

}  // namespace weir::llm::cuda::reference
