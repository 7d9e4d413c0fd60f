// Kernels: the inner loops, for the instruction set that this CPU has.
//
// Two forms of numbers. kF32: activations, weights, keys and values are floats. kBf16: they are bfloat16, summed in
// float. Either way the summed dimension is walked in steps of 4 bytes of activation against 64 bytes of weights: one
// float against 16, or a pair of neighbours against 16 pairs. A "panel" is 16 outputs: `depth` such steps.
//
// Every output is one chain of additions in ascending order, in every kernel, however many rows, panels or pieces of
// the sum a call has. A row's result is therefore the same to the last bit alone and in any batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engines/llm/load/coding.h"

namespace weir::llm {

enum class WeightFormat : uint8_t { kF32, kBf16 };
// How keys and values are kept: as numbers of the model's form, or as int8 or E4M3 with one scale for each
// vector.
enum class KvFormat : uint8_t { kAsComputed, kInt8, kFp8 };
constexpr size_t size_of(WeightFormat form) { return form == WeightFormat::kF32 ? 4 : 2; }
constexpr uint32_t steps_of(WeightFormat form, uint32_t n) { return form == WeightFormat::kF32 ? n : (n + 1) / 2; }

// c[r][16 p + j] = (or +=) the sum over k of a[r][k] * b[p][k][j].
struct Product {
  const std::byte* a;
  size_t a_stride;  // bytes from row to row
  const std::byte* const* b;
  uint32_t rows, panels, depth;  // depth in steps
  float* c;
  size_t c_stride;  // floats from row to row
  enum class Onto : uint8_t { kNothing, kWhatIsThere } onto;
};

// The inputs of a panel that share their scales, where weights are coded: 16 scales (floats), of Coding::kInt4 16 zero
// points (bytes), then the steps, which are 32 codes in the order of a step of bfloat16: of kInt8 and kFp8 a byte each,
// of kInt4 the pair of an output in one byte, its first input in the low half.
constexpr size_t code_bytes(Coding coding) { return coding == Coding::kInt4 ? 16 : 32; }  // of a step
constexpr size_t scale_bytes(Coding coding) { return coding == Coding::kInt4 ? 64 + 16 : 64; }
constexpr size_t group_bytes(Coding coding, uint32_t steps) { return scale_bytes(coding) + steps * code_bytes(coding); }
// Behind them, where there are such, 16 offsets (floats).
constexpr size_t kOffsetBytes = 64;

// Keys and values of one head and 16 positions: a panel of keys (16 positions, depth = head_dim), then head_dim / 16
// panels of values (16 dimensions, depth = 16 positions). head_dim is a multiple of 16 here (zeros fill it up).
//
// KvFormat::kInt8 and kFp8: the same numbers in the same order, one byte each, then 16 floats, the scales of the keys,
// and 16 more, those of the values. A number is its byte times its position's scale. Bytes are exact in either form, so
// attention multiplies the scales into scores and weights, and rounds nothing but what write_tile() rounded.
constexpr uint32_t kTile = 16;
constexpr size_t tile_bytes(WeightFormat form, uint32_t head_dim, KvFormat kept = KvFormat::kAsComputed) {
  size_t numbers = 2 * size_t(kTile) * head_dim;
  return kept == KvFormat::kAsComputed ? numbers * size_of(form) : numbers + 2 * kTile * sizeof(float);
}

// Queries at consecutive positions of one sequence, all query heads that share one key head.
struct Attention {
  const std::byte* q;  // [queries][group][head_dim]
  uint32_t queries, group, head_dim;
  uint32_t position;  // of the first query
  uint32_t window;    // how many positions a query sees, its own included; 0 = all
  float scale;
  KvFormat kept;
  const std::byte* kv;  // this layer's and head's tiles in block 0
  size_t block_stride;
  const uint32_t* table;
  uint32_t tiles_per_block;
  std::byte* out;  // [queries][group][out_dim]
  size_t out_stride;
  uint32_t out_dim;
  float* scratch;      // attention_scratch() floats
  uint32_t all;        // 0: a query sees the positions up to its own; else every query sees [0, all), without a window
  uint32_t reach;      // of `all`: those that are at most so far to either side; 0: all
  const float* sinks;  // of the group's heads: a score for which no position is seen; null: there are none
  float cap;           // scores become cap * tanh(score / cap); 0: they stay
};
constexpr uint32_t kAttentionRows = 24;  // queries * group at most
constexpr uint32_t kAttentionChunk = 128;
constexpr size_t attention_scratch(uint32_t head_dim, KvFormat kept = KvFormat::kAsComputed) {
  size_t widened = kept == KvFormat::kAsComputed ? 0 : size_t(kAttentionChunk) * head_dim;  // a chunk's keys, or values
  return kAttentionRows * (2 * size_t(kAttentionChunk) + head_dim + 32) + widened;
}

struct Kernels {
  std::string_view name;  // "avx512_bf16"
  // Indexed by WeightFormat.
  void (*product[2])(const Product&);
  void (*attend[2])(const Attention&);
  // By Coding; null for kWhole. Codes, less their zero points, as the bfloat16 that product() reads: `steps` steps,
  // from the first of a group (or from a later one that `skip` says) on.
  void (*expand[4])(const std::byte* group, uint32_t skip, uint32_t steps, std::byte* out);
  // c[r][16 p + j] = (or +=) sums[r][16 p + j] * the scale of output j of group p; `stride` floats from row to row.
  void (*add_scaled)(const float* sums, const std::byte* const* groups, uint32_t rows, uint32_t panels, uint32_t stride,
                     Product::Onto onto, float* c);
  // c[r][16 p + j] += sums[r] * offset j of offsets[p]; `sums_stride` and `stride` floats from row to row.
  void (*add_offsets)(const float* sums, size_t sums_stride, const std::byte* const* offsets, uint32_t rows,
                      uint32_t panels, uint32_t stride, float* c);
  // out = x / rms(x) * weight; `out` is padded with zeros to a multiple of 16. It may be `x` itself where it has room.
  void (*rms_norm[2])(const float* x, const float* weight, float epsilon, uint32_t n, std::byte* out);
  void (*layer_norm[2])(const float* x, const float* weight, const float* bias, float epsilon, uint32_t n,
                        std::byte* out);
  void (*convert[2])(const float* x, uint32_t n, std::byte* out);
  // silu(x[i]) * x[i + 16], for 16 i at a time: x holds panels of gate and up in turn.
  void (*swiglu[2])(const float* x, uint32_t pairs, std::byte* out);
  void (*geglu[2])(const float* x, uint32_t pairs, std::byte* out);       // the same with gelu
  void (*geglu_tanh[2])(const float* x, uint32_t pairs, std::byte* out);  // with gelu_tanh
  // (x[i + 16] + 1) * g sigmoid(1.702 g), g being x[i]; g is at most 7, x[i + 16] from -7 to 7 (gpt-oss).
  void (*swiglu_clamped[2])(const float* x, uint32_t pairs, std::byte* out);
  void (*gelu[2])(const float* x, uint32_t n, std::byte* out);       // with the error function
  void (*gelu_tanh[2])(const float* x, uint32_t n, std::byte* out);  // its approximation with the hyperbolic tangent
  float (*maximum)(const float* x, size_t n);
  float (*sum_exp)(const float* x, size_t n, float shift);          // sum of e^(x - shift)
  void (*exps)(const float* x, size_t n, float shift, float* out);  // e^(x - shift)
  float (*dot)(const float* x, const float* y, size_t n);
  void (*soft_cap)(float* x, size_t n, float cap);  // x = cap * tanh(x / cap)
};

// The best that this CPU runs, or those of that name ("portable", "avx2", "avx512", "avx512_bf16"); null when there is
// no such name or the CPU does not run it.
const Kernels& kernels();
const Kernels* kernels(std::string_view name);

}  // namespace weir::llm
