// The kernels of the transformer on CUDA, as a table in libweir_cuda.so (symbol weir_cuda_llm). Standard library only.
//
// All pointers are device memory; matrices are row-major without padding. Bf16 is bfloat16 as its bits. Every function
// queues its work on the stream and returns a cudaError_t as a number; none waits, and all can be captured into a
// graph. Results of one row never depend on the other rows: sums are taken in an order that a row alone decides; only
// matmul, and products by expert, promise less. reference.h says the same on the host, through the same table.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engines/llm/cuda/attention_kernels.h"
#include "engines/llm/cuda/collectives.h"
#include "engines/llm/cuda/device_matrix.h"
#include "engines/llm/cuda/expert_kernels.h"

namespace weir::llm::cuda {

inline constexpr uint32_t kKernelsAbi = 14;
inline constexpr const char* kKernelsEntry = "weir_cuda_llm";

inline constexpr uint32_t kNoToken = UINT32_MAX;  // in the place of an id: there is none
inline constexpr uint32_t kNoIndex = UINT32_MAX;  // in the place of an index: there is none
inline constexpr uint32_t kNormRows = 2;          // that a norm_matmul takes
inline constexpr uint32_t kMostTop = 128;         // likeliest tokens that are told
inline constexpr uint32_t kBadShape = 1;          // cudaErrorInvalidValue
inline constexpr uint32_t kRefused = 801;         // cudaErrorNotSupported: the library has no way to do it
inline constexpr uint32_t kNoLibrary = 303;       // the library is not there, or is another one

// An id with this bit stands for sampled[id without it]: what a step before has sampled, before the host knows it.
// Where that is kNoToken the row is computed with some other token, and nobody uses it.
inline constexpr uint32_t kSampled = 1u << 31;

// stream[t] = table[ids[t]], widened, times scale.
struct Embed {
  float* stream;      // [tokens][hidden]
  const Bf16* table;  // [vocabulary][hidden]
  const uint32_t* ids;
  uint32_t tokens, hidden;
  const uint32_t* sampled = nullptr;  // null: no id has kSampled
  float scale = 1;                    // of what is widened
};

// stream[tokens[i]] = features[i], for what is no token (images).
struct Patch {
  float* stream;          // [*][hidden]
  const float* features;  // [count][hidden]
  const uint32_t* tokens;
  uint32_t count, hidden;
};

// stream[t] += delta[t]; out[t] = stream[t] / rms(stream[t]) * (weight + offset). delta may be null.
struct AddNorm {
  float* stream;       // [tokens][hidden], the residual stream
  const Bf16* delta;   // [tokens][hidden]
  const Bf16* weight;  // [hidden]; null: out is the stream, only rounded
  Bf16* out;           // [tokens][hidden]
  uint32_t tokens, hidden;
  float epsilon;
  float* exact = nullptr;  // the same before it is rounded, or null; may be `stream`
  float offset = 0;        // 1 where weights are stored less 1
};

// stream[t] += branch[t] / rms(branch[t]) * (weight + offset).
struct AddNormed {
  float* stream;        // [tokens][hidden], the residual stream
  const float* branch;  // [tokens][hidden]
  const Bf16* weight;   // [hidden]
  uint32_t tokens, hidden;
  float epsilon, offset;
};

// In place: biases are added, and queries and keys normalised, those of all heads of a row together.
struct NormWhole {
  Bf16* qkv;                       // [tokens][queries + 2 * keys]: queries, keys, values
  const Bf16 *q_norm, *k_norm;     // [queries], [keys]
  uint32_t tokens, queries, keys;  // queries and keys: even
  float epsilon;
  const float* bias = nullptr;  // [queries + 2 * keys], or null
};

// rows = cap * tanh(rows / cap), in place.
struct SoftCap {
  float* rows;  // [count][width]
  uint32_t count, width;
  float cap;
};

// out = gate and up as `kind` says.
struct SwiGlu {
  const Bf16* gate_up;  // [tokens][2 * width]: gate, up
  Bf16* out;            // [tokens][width]
  uint32_t tokens, width;
  const float* bias = nullptr;  // [2 * width], added first; or null
  Gate kind = Gate::kSilu;
};

// out = AddNorm(stream, norm) weight^T as Bf16; with kSwiGlu `weight` has the gates' rows and then those of `up`, and
// out = SwiGlu of both products. For at most kNormRows rows, whose stream is read again by each block. The norm's
// result is not rounded on a device; on the host it is, so that results are the same as those of the kernels one by
// one.
struct NormMatmul {
  enum Into : uint32_t { kPlain, kSwiGlu };
  const float* stream;             // [rows][inputs]
  const Bf16* norm;                // [inputs]
  DeviceMatrix weight;             // [outputs][inputs], with kSwiGlu [2 * outputs][inputs]
  Bf16* out;                       // [rows][outputs]
  uint32_t rows, outputs, inputs;  // inputs: a multiple of 8; stream, norm and weight are 16-byte aligned
  float epsilon;
  Into into;
  const float* bias = nullptr;  // with kSwiGlu [2 * outputs], or null
  Gate kind = Gate::kSilu;      // with kSwiGlu
  float offset = 0;             // added to the norm's weights
};

// out = scale x weight^T (+ bias) (+ out). Sums are in float32.
//
// The promise: the same shape (rows, outputs, inputs, into) gives every row the same result whatever the other
// rows hold, on the same device and library, for the life of the handle: the algorithm is chosen once per shape, and no
// sum is taken by atomic additions. Not promised by the library, though mostly so: that a row has the same last bits
// with another number of rows. On the host a row's result is the same with any number of rows.
struct Matmul {
  enum class Into : uint32_t {
    kBf16,    // out is Bf16; bias is null
    kF32,     // out is float
    kAddF32,  // out is float, and added to
  };
  const Bf16* x;        // [rows][inputs]
  DeviceMatrix weight;  // [outputs][inputs]
  const float* bias;    // [outputs], or null
  void* out;            // [rows][outputs]
  uint32_t rows, outputs, inputs;
  Into into;
  // The launch may wait, and may write `out` several times: where an algorithm is chosen for this shape, those that the
  // library names are tried and the fastest is kept. Never in a capture.
  bool timed = false;
  float scale = 1;
};
// The state of matmul on a device: the library's handle, its workspace, and the algorithms chosen so far. Owned by who
// opened it; used by one thread and one stream at a time, also for as long as graphs that captured it are launched.
struct Matmuls;
inline constexpr size_t kWorkspace = size_t(32) << 20;  // bytes

struct DrawRow {
  float temperature;      // 0 = the likeliest
  float top_p;            // 1 = all
  float min_p;            // 0 = all
  uint32_t top_k;         // 0 = all
  uint64_t seed, number;  // the draw is a function of these two and the logits
};

// Logits that are changed before a draw, in this order: bias; repetition penalty of a token that was there; presence
// and frequency penalties of one that was generated; -inf for one that must not come, also by the row's mask. The token
// that a step before has sampled was generated once more than the changes say, also where they do not name it.
struct Change {
  uint32_t id;
  uint32_t generated;  // how often it was
  float bias;
  enum : uint32_t { kWasThere = 1, kNever = 2 };
  uint32_t flags;
};
struct AdjustRow {
  uint32_t row;                           // of logits
  uint32_t first, count;                  // of changes; every id once
  float presence, frequency, repetition;  // 0, 0, 1: nothing. x > 0 ? x / repetition : x * repetition
  uint32_t last = kNoIndex;               // index in `sampled` of that token; kNoIndex: the changes have all
  uint32_t mask = kNoIndex;               // where its mask begins in `masks`; kNoIndex: every token may come
};
// adjusted[i] = logits[rows[i].row], changed.
struct Adjust {
  const float* logits;  // [*][vocabulary]
  const AdjustRow* rows;
  const Change* changes;
  float* adjusted;  // [count][vocabulary]
  uint32_t count, vocabulary;
  const uint32_t* sampled = nullptr;  // null: no row has `last`
  // Words of 32 ids, ceil(vocabulary / 32) of each mask: a bit for each token that may come. Null: no row has one.
  const uint32_t* masks = nullptr;
};

// One token per row, the likelier and then the lower id first; and its logprob before temperature. A row of which no
// logit is above -inf (a mask allows nothing, or all are NaN) gives kNoToken and -inf.
struct Draw {
  const float* logits;  // [rows][vocabulary], finite or -inf; NaN is never drawn
  const DrawRow* params;
  uint32_t* ids;              // [rows]; may be mapped host memory
  float* logprobs;            // [rows] or null
  uint32_t rows, vocabulary;  // vocabulary < 2^20
  // Row i draws from adjusted[from[i] without kAdjusted] if it has that bit, and else from logits[from[i]]; its id and
  // logprob go to index to[i]. Null: i.
  const uint32_t *from = nullptr, *to = nullptr;
  const float* adjusted = nullptr;
};
inline constexpr uint32_t kAdjusted = 1u << 31;

// Logprobs of row i are of logits[rows[i].row]: of the token ids[rows[i].id], and of the `top` likeliest, the likelier
// and then the lower id first; NaN is never among them, and where there are fewer the rest is kNoToken.
struct LogprobRow {
  uint32_t row, id, top;
};
struct Logprobs {
  const float* logits;  // [*][vocabulary]
  const LogprobRow* rows;
  const uint32_t* ids;
  float* logprobs;             // [count]; of an id beyond the vocabulary -inf
  uint32_t* best_ids;          // [count][most]
  float* best;                 // [count][most]
  uint32_t count, vocabulary;  // vocabulary < 2^20
  uint32_t most;               // the largest `top`; at most kMostTop
};

// out[i] = in[which[i]], bit by bit: of float32 with twice their width.
struct Gather {
  const Bf16* in;         // [*][width]; width is even
  const uint32_t* which;  // [count]
  Bf16* out;              // [count][width]
  uint32_t count, width;
};

// out[i][c] = stream[tokens[i]] · vectors[c].
struct ReadOut {
  const float* stream;  // [*][hidden]
  const uint32_t* tokens;
  const float* vectors;  // [concepts][hidden]
  float* out;            // row i begins at i * stride
  uint32_t count, concepts, hidden, stride;
};

// out[i] = the sum of before[ranges[i].before], in[ranges[i].first] and the `count` - 1 rows after it, in their order:
// sums do not depend on where the rows of a text were divided. In float64.
struct PoolRange {
  uint32_t first, count;
  uint32_t before = kNoIndex;  // kNoIndex: zeros
};
struct Pool {
  const Bf16* in;  // [*][hidden]
  const PoolRange* ranges;
  double* out;  // [count][hidden]
  uint32_t count, hidden;
  const float* exact = nullptr;    // in place of `in`, or null
  const double* before = nullptr;  // [*][hidden]; null: no range has `before`
};

// Encoders of BERT's family: stream[t] = words[ids[t]] + types[kinds[t]] + places[positions[t]].
struct EmbedText {
  float* stream;        // [tokens][hidden]
  const Bf16* words;    // [vocabulary][hidden]
  const float* types;   // [*][hidden], or null
  const float* places;  // [*][hidden]
  const uint32_t* ids;
  const uint32_t* kinds;  // null when types is
  const uint32_t* positions;
  uint32_t tokens, hidden;
};

// stream[t] = (stream[t] - mean) / deviation * weight + bias, and out[t] the same.
struct LayerNorm {
  float* stream;  // [tokens][hidden]
  const float *weight, *bias;
  Bf16* out;  // [tokens][hidden]
  uint32_t tokens, hidden;
  float epsilon;
};

// rows = the curve of (rows + bias), in place.
struct Gelu {
  Bf16* rows;         // [tokens][width]
  const float* bias;  // [width]
  uint32_t tokens, width;
  enum Curve : uint32_t { kExact, kTanh } curve;
};

// A slot may be null in a build that does not have that kernel yet; whoever uses the table looks first.
struct Kernels {
  uint32_t abi;
  Code (*embed)(const Launch&, const Embed&);
  Code (*add_norm)(const Launch&, const AddNorm&);
  Code (*rope_store)(const Launch&, const RopeStore&);
  Code (*swiglu)(const Launch&, const SwiGlu&);
  Code (*decode_attention)(const Launch&, const DecodeAttention&);
  Code (*draw)(const Launch&, const Draw&);
  Code (*gather)(const Launch&, const Gather&);
  Code (*patch)(const Launch&, const Patch&);
  Code (*prefill_attention)(const Launch&, const PrefillAttention&);
  // `workspace`: kWorkspace bytes on the device, kept until matmul_close.
  Code (*matmul_open)(int32_t device, void* workspace, Matmuls** out);
  Code (*matmul_close)(Matmuls* matmuls);
  Code (*matmul)(const Launch&, Matmuls* matmuls, const Matmul&);
  Code (*adjust)(const Launch&, const Adjust&);
  Code (*logprobs)(const Launch&, const Logprobs&);
  Code (*read_out)(const Launch&, const ReadOut&);
  Code (*pool)(const Launch&, const Pool&);
  Code (*embed_text)(const Launch&, const EmbedText&);
  Code (*layer_norm)(const Launch&, const LayerNorm&);
  Code (*gelu)(const Launch&, const Gelu&);
  Code (*norm_matmul)(const Launch&, const NormMatmul&);
  // Loads all kernels of the table onto a device, so that none is loaded at its first launch, when a request waits.
  Code (*load)(int32_t device);
  ExpertKernels experts;
  Code (*add_normed)(const Launch&, const AddNormed&);
  Code (*norm_whole)(const Launch&, const NormWhole&);
  Code (*soft_cap)(const Launch&, const SoftCap&);
  const Collectives* collectives;
};
using OpenKernels = const Kernels* (*)(uint32_t abi);

}  // namespace weir::llm::cuda
