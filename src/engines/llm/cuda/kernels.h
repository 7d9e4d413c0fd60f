// The kernels of the transformer on CUDA, as a table in libweir_cuda.so (symbol weir_cuda_llm). Standard library only.
//
// All pointers are device memory; matrices are row-major without padding. Bf16 is bfloat16 as its bits. Every function
// queues its work on the stream and returns a cudaError_t as a number; none waits. Results of one row never depend on
// the other rows: sums are taken in an order that a row alone decides. reference.h says the same on the host.
#pragma once

#include <cstdint>

namespace weir::llm::cuda {

inline constexpr uint32_t kKernelsAbi = 1;
inline constexpr const char* kKernelsEntry = "weir_cuda_llm";

using Bf16 = uint16_t;
using Code = int32_t;

inline constexpr uint32_t kNoSlot = UINT32_MAX;    // of a row that only fills a graph's batch: writes nothing
inline constexpr uint32_t kPartition = 256;        // positions that one part of a decode attention looks at
inline constexpr uint32_t kMostHeadsPerGroup = 8;  // query heads that share a key head
inline constexpr uint32_t kBadShape = 1;           // cudaErrorInvalidValue

struct Launch {
  int32_t device = 0;
  void* stream = nullptr;
};

// stream[t] = table[ids[t]], widened.
struct Embed {
  float* stream;      // [tokens][hidden]
  const Bf16* table;  // [vocabulary][hidden]
  const uint32_t* ids;
  uint32_t tokens, hidden;
};

// stream[t] += delta[t]; out[t] = stream[t] / rms(stream[t]) * weight. delta may be null.
struct AddNorm {
  float* stream;       // [tokens][hidden], the residual stream
  const Bf16* delta;   // [tokens][hidden]
  const Bf16* weight;  // [hidden]
  Bf16* out;           // [tokens][hidden]
  uint32_t tokens, hidden;
  float epsilon;
};

// Queries and keys are turned by their position (dimension i against i + dim / 2); keys and values go to their slots.
struct RopeStore {
  const Bf16* qkv;           // [tokens][(heads + 2 * kv_heads) * dim]: queries, keys, values
  const float* frequencies;  // [dim / 2]
  const uint32_t* positions;
  const uint32_t* slots;
  Bf16* q;                  // [tokens][heads][dim]
  Bf16 *k_cache, *v_cache;  // [slots][kv_heads][dim], of one layer
  uint32_t tokens, heads, kv_heads, dim;
  float scale;  // of sine and cosine
};

// out = silu(gate) * up.
struct SwiGlu {
  const Bf16* gate_up;  // [tokens][2 * width]: gate, up
  Bf16* out;            // [tokens][width]
  uint32_t tokens, width;
};

// Attention of one query token per row over all positions of its sequence, found through its block table. Two launches:
// parts of kPartition positions, then their merge. Rows of length 0 give zeros.
struct DecodeAttention {
  const Bf16* q;                        // [rows][heads][dim]
  const Bf16 *k_cache, *v_cache;        // [slots][kv_heads][dim]
  const uint32_t* tables;               // [rows][table_width]: blocks
  const uint32_t* lengths;              // positions, the query's own with it
  float* part_out;                      // [rows][heads][parts][dim]
  float* part_max;                      // [rows][heads][parts]
  float* part_sum;                      // the same
  Bf16* out;                            // [rows][heads][dim]
  uint32_t rows, heads, kv_heads, dim;  // dim: 64, 128 or 256; heads / kv_heads: 1, 2, 4 or 8
  uint32_t table_width, block_size;
  uint32_t parts;   // at least parts_of(longest length), plan.h
  uint32_t window;  // only the last so many positions; 0 = all
  float scale;      // of q·k
};

struct DrawRow {
  float temperature;      // 0 = the likeliest
  float top_p;            // 1 = all
  float min_p;            // 0 = all
  uint32_t top_k;         // 0 = all
  uint64_t seed, number;  // the draw is a function of these two and the logits
};

// One token per row, the likelier and then the lower id first; and its logprob before temperature.
struct Draw {
  const float* logits;  // [rows][vocabulary], finite or -inf
  const DrawRow* wishes;
  uint32_t* ids;              // [rows]; may be mapped host memory
  float* logprobs;            // [rows] or null
  uint32_t rows, vocabulary;  // vocabulary < 2^20
};

// out[i] = in[rows[i]], for logits and readouts of some tokens.
struct Gather {
  const Bf16* in;         // [*][width]
  const uint32_t* which;  // [count]
  Bf16* out;              // [count][width]
  uint32_t count, width;
};

struct Kernels {
  uint32_t abi;
  Code (*embed)(const Launch&, const Embed&);
  Code (*add_norm)(const Launch&, const AddNorm&);
  Code (*rope_store)(const Launch&, const RopeStore&);
  Code (*swiglu)(const Launch&, const SwiGlu&);
  Code (*decode_attention)(const Launch&, const DecodeAttention&);
  Code (*draw)(const Launch&, const Draw&);
  Code (*gather)(const Launch&, const Gather&);
};
using OpenKernels = const Kernels* (*)(uint32_t abi);

}  // namespace weir::llm::cuda
