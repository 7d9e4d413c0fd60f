// Products of pairs of a row and an expert. Of few rows a warp has a pair and two rows of its expert's weight: blocks
// of all pairs for the same rows run side by side, so that what two pairs share is read from memory once.
//
// Of more rows a block has a tile, the pairs of one expert, and 128 rows of its weight, on tensor cores; pieces of 64
// inputs are on their way into shared memory while one is used. With gates, rows of gates and of `up` lie in turns of
// eight, so that a thread has both of a place. The chain of additions of a place is the same in tiles of every size.
//
// Shared memory: rows of 64 inputs, whose pieces of 16 bytes change places by row, so that eight rows of one column lie
// in different banks. Tiles with a weight in codes are those of grouped_coded.cu.
#include "engines/llm/cuda/codes.cuh"
#include "engines/llm/cuda/expert_rows.cuh"
#include "engines/llm/cuda/gates.cuh"
#include "engines/llm/cuda/matmul.h"
#include "engines/llm/cuda/mma.cuh"
#include "engines/llm/cuda/weights.cuh"

namespace weir::llm::cuda {
namespace {

using Into = ExpertMatmul::Into;

constexpr uint32_t kPairWarps = 4, kPairThreads = kPairWarps * kWarp;
constexpr uint32_t kAtOnce = 4;  // steps whose weights are on their way together

// An expert's biases, those of gates and of `up`; or null.
template <Into kInto>
__device__ const float* bias_of(const ExpertMatmul& a, uint32_t expert) {
  return a.bias ? a.bias + row_of_expert<kInto>(a, expert) : nullptr;
}

template <Format kFormat, Into kInto>
__global__ void __launch_bounds__(kPairThreads, kFormat == Format::kBf16 ? 8 : 6) pair_kernel(ExpertMatmul a) {
  constexpr bool kGates = kInto == ExpertMatmul::kSwiGlu;
  constexpr uint32_t kTurn = kStep * kAtOnce;
  await_inputs();  // the weight's rows are the router's choice
  const uint32_t lane = threadIdx.x % kWarp, pair = blockIdx.x;
  const uint32_t first = (blockIdx.y * kPairWarps + threadIdx.x / kWarp) * (kGates ? 1 : 2);
  if (first >= a.outputs) return;
  const uint32_t other = kGates ? first + a.outputs : min(first + 1, a.outputs - 1);
  const uint32_t expert = row_of_expert<kInto>(a, a.experts[pair]);
  const unsigned char* weight[2] = {row_of<kFormat>(a.weight, expert + first, a.inputs),
                                    row_of<kFormat>(a.weight, expert + other, a.inputs)};
  const Bf16* row = a.x + size_t(pair / a.per) * a.inputs;
  float sum[2] = {};
  for (uint32_t base = lane * kPer; base < a.inputs; base += kTurn) {
    LoadedCodes<kFormat> w[kAtOnce][2];
    load_codes(w, weight, base, kStep, a.weight, a.inputs);
#pragma unroll
    for (uint32_t s = 0; s < kAtOnce; ++s) {
      if (base + s * kStep >= a.inputs) break;
      float x[kPer], v[2][kPer];
      load(x, row + base + s * kStep);
      widen(v[0], expand<kFormat>(w[s][0].codes)), widen(v[1], expand<kFormat>(w[s][1].codes));
      add_products<kFormat>(sum, x, v, w[s], a.weight.offsets != 0);
    }
  }
  sum[0] = warp_sum(sum[0]), sum[1] = warp_sum(sum[1]);
  if (const float* bias = bias_of<kInto>(a, a.experts[pair])) sum[0] += bias[first], sum[1] += bias[other];
  const size_t at = size_t(pair) * a.outputs + first;
  if (kGates && lane == 0) static_cast<Bf16*>(a.out)[at] = narrow(gated(a.kind, sum[0], sum[1]));
  if (!kGates && lane < 2 && first + lane < a.outputs) static_cast<float*>(a.out)[at + lane] = lane ? sum[1] : sum[0];
}

constexpr uint32_t kColumns = 128, kDepth = 64;  // rows of a weight that a block has; inputs of a piece

__device__ uint32_t at(uint32_t row, uint32_t chunk) { return row * kDepth + (chunk ^ (row & 7)) * 8; }

template <uint32_t kRows>
constexpr uint32_t kStages = kRows == 16 ? 4 : 3;  // pieces in shared memory
template <uint32_t kRows>
constexpr size_t kShared = size_t(kStages<kRows>) * (kRows + kColumns) * kDepth * sizeof(Bf16);
template <uint32_t kRows>
constexpr uint32_t kThreads = kRows == 128 ? 256 : 128;

// The part of each piece that a thread brings: 16 bytes of several rows, of x and then of the weight; null: zeros.
template <uint32_t kRows>
struct Source {
  static constexpr uint32_t kPieces = (kRows + kColumns) * (kDepth / 8) / kThreads<kRows>, kApart = kThreads<kRows> / 8;
  static_assert(kRows % kApart == 0);
  const Bf16* from[kPieces];

  template <Into kInto>
  __device__ void find(const ExpertMatmul& a, const ExpertTile& tile, const uint32_t* pairs) {
    const uint32_t row = threadIdx.x / 8, first = blockIdx.x * (kColumns / kRowsOf<kInto>);
    const Bf16* expert =
        static_cast<const Bf16*>(a.weight.data) + size_t(row_of_expert<kInto>(a, tile.expert)) * a.inputs;
#pragma unroll
    for (uint32_t i = 0; i < kPieces; ++i) {
      from[i] = nullptr;
      if (i < kRows / kApart) {
        const uint32_t r = row + i * kApart;
        if (r < tile.count) from[i] = a.x + size_t(pairs[r] / a.per) * a.inputs;
      } else {
        const uint32_t of_expert = row_of_column<kInto>(a, first, row + i * kApart - kRows);
        if (of_expert != kNoIndex) from[i] = expert + size_t(of_expert) * a.inputs;
      }
    }
  }
  __device__ void bring(Bf16* stage, const ExpertMatmul& a, uint32_t base) const {
    const uint32_t chunk = threadIdx.x % 8, input = base + chunk * 8;
#pragma unroll
    for (uint32_t i = 0; i < kPieces; ++i) {
      const bool there = from[i] && input < a.inputs;
      copy_async(stage + at(threadIdx.x / 8 + i * kApart, chunk), there ? from[i] + input : a.x,
                 there ? Take::kAll : Take::kNot);
    }
  }
};

// A warp's part of a block's results.
template <uint32_t kRows>
struct Part {
  static constexpr uint32_t kWarps = kThreads<kRows> / kWarp, kDown = kRows == 16 ? 1 : kRows / 32;
  static constexpr uint32_t kAcross = kWarps / kDown, kHigh = kRows / kDown / 16, kWide = kColumns / kAcross / 8;
  float sum[kHigh][kWide][4] = {};
  uint32_t row, column;  // the first

  __device__ Part() {
    const uint32_t warp = threadIdx.x / kWarp;
    row = warp / kAcross * kHigh * 16, column = warp % kAcross * kWide * 8;
  }
  __device__ void add(const Bf16* stage) {
    const uint32_t lane = threadIdx.x % kWarp;
    const Bf16* weight = stage + kRows * kDepth;
#pragma unroll
    for (uint32_t step = 0; step < kDepth / 16; ++step) {
      uint32_t x[kHigh][4];
#pragma unroll
      for (uint32_t m = 0; m < kHigh; ++m)
        load_matrices(x[m], stage + at(row + m * 16 + lane % 16, step * 2 + lane / 16));
#pragma unroll
      for (uint32_t n = 0; n < kWide; n += 2) {
        uint32_t w[4];
        load_matrices(w, weight + at(column + n * 8 + lane % 8 + lane / 16 * 8, step * 2 + lane / 8 % 2));
#pragma unroll
        for (uint32_t m = 0; m < kHigh; ++m) mma(sum[m][n], x[m], w[0], w[1]), mma(sum[m][n + 1], x[m], w[2], w[3]);
      }
    }
  }
  // `pairs`: those of the tile, so many; `bias`: of its expert.
  template <Into kInto>
  __device__ void put(const ExpertMatmul& a, const uint32_t* pairs, uint32_t count, const float* bias) const {
    const uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
    for (uint32_t m = 0; m < kHigh; ++m)
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t r = row + m * 16 + half * 8 + lane / 4;
        if (r >= count) continue;
        const size_t to = size_t(pairs[r]) * a.outputs;
#pragma unroll
        for (uint32_t n = 0; n < kWide; n += kRowsOf<kInto>) {
          const float *one = &sum[m][n][half * 2], *up = &sum[m][n + kRowsOf<kInto> - 1][half * 2];
          const uint32_t output =
              blockIdx.x * (kColumns / kRowsOf<kInto>)+(column + n * 8) / kRowsOf<kInto> + lane % 4 * 2;
          if (output >= a.outputs) continue;
          float b[2] = {}, c[2] = {};
          if (bias) load(b, bias + output), load(c, bias + (kRowsOf<kInto> - 1) * a.outputs + output);
          if constexpr (kInto == ExpertMatmul::kSwiGlu)
            store<2>(static_cast<Bf16*>(a.out) + to + output,
                     {gated(a.kind, one[0] + b[0], up[0] + c[0]), gated(a.kind, one[1] + b[1], up[1] + c[1])});
          else
            store<2>(static_cast<float*>(a.out) + to + output, {one[0] + b[0], one[1] + b[1]});
        }
      }
  }
};

template <uint32_t kRows, Into kInto>
__global__ void __launch_bounds__(kThreads<kRows>) grouped_kernel(ExpertMatmul a) {
  constexpr uint32_t kOpen = kStages<kRows> - 1, kStage = (kRows + kColumns) * kDepth;
  __shared__ uint32_t pairs[kRows];
  auto* stages = dynamic_shared<Bf16>();
  await_inputs();
  const ExpertTile tile = a.tiles[blockIdx.y];
  if (tile.count == 0) return;
  for (uint32_t r = threadIdx.x; r < tile.count; r += kThreads<kRows>) pairs[r] = a.order[tile.first + r];
  __syncthreads();
  Source<kRows> source;
  source.template find<kInto>(a, tile, pairs);
  const uint32_t pieces = (a.inputs + kDepth - 1) / kDepth;
#pragma unroll
  for (uint32_t p = 0; p < kOpen; ++p) {
    if (p < pieces) source.bring(stages + p * kStage, a, p * kDepth);
    commit_copies();
  }
  Part<kRows> part;
  for (uint32_t p = 0; p < pieces; ++p) {
    wait_for_copies<kOpen - 1>();
    __syncthreads();  // the piece is there, and the one before it is not read any more
    const uint32_t next = p + kOpen;
    if (next < pieces) source.bring(stages + next % kStages<kRows> * kStage, a, next * kDepth);
    commit_copies();
    part.add(stages + p % kStages<kRows> * kStage);
  }
  part.template put<kInto>(a, pairs, tile.count, bias_of<kInto>(a, tile.expert));
}

template <Format kFormat, Into kInto>
Code multiply_pairs(const Launch& launch, const ExpertMatmul& a) {
  const uint32_t each = kPairWarps * (kInto == ExpertMatmul::kSwiGlu ? 1 : 2), blocks = (a.outputs + each - 1) / each;
  if (blocks > 65535) return kBadShape;
  return run(launch, pair_kernel<kFormat, kInto>, dim3(a.pairs, blocks), kPairThreads, 0, a);
}

template <uint32_t kRows, Into kInto>
Code multiply_tiles(const Launch& launch, const ExpertMatmul& a) {
  const uint32_t each = kColumns / kRowsOf<kInto>, tiles = expert_tiles(a.pairs, a.count);
  if (tiles > 65535) return kBadShape;
  return run(launch, grouped_kernel<kRows, kInto>, dim3((a.outputs + each - 1) / each, tiles), kThreads<kRows>,
             kShared<kRows>, a);
}

template <Into kInto>
Code multiply_pairs(const Launch& launch, const ExpertMatmul& a) {
  if (a.weight.format == Format::kBf16) return multiply_pairs<Format::kBf16, kInto>(launch, a);
  return with_format(a.weight.format, [&](auto format) { return multiply_pairs<format.value, kInto>(launch, a); });
}

template <Into kInto>
Code multiply(const Launch& launch, const ExpertMatmul& a) {
  if (!a.order) return multiply_pairs<kInto>(launch, a);
  if (a.weight.format != Format::kBf16) return coded_expert_matmul(launch, a);
  switch (expert_tile_rows(a.pairs, a.count)) {
    case 16: return multiply_tiles<16, kInto>(launch, a);
    case 64: return multiply_tiles<64, kInto>(launch, a);
    default: return multiply_tiles<128, kInto>(launch, a);
  }
}

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

}  // namespace

Code expert_matmul(const Launch& launch, const ExpertMatmul& a) {
  if (a.count == 0 || a.per == 0 || a.inputs == 0 || a.inputs % 8 || a.outputs % 8 || !is_aligned(a.x) ||
      !is_aligned(a.weight.data) || !is_aligned(a.out) || (a.order && !a.tiles) ||
      (a.weight.format != Format::kBf16 && !is_coded_right(a.weight, a.inputs)))
    return kBadShape;
  if (a.pairs == 0 || a.outputs == 0) return 0;
  return a.into == ExpertMatmul::kSwiGlu ? multiply<ExpertMatmul::kSwiGlu>(launch, a)
                                         : multiply<ExpertMatmul::kF32>(launch, a);
}

Code load_grouped(int32_t device) {
  constexpr Into kF32 = ExpertMatmul::kF32, kSwiGlu = ExpertMatmul::kSwiGlu;
  constexpr Format kInt8 = Format::kInt8, kFp8 = Format::kFp8, kInt4 = Format::kInt4, kBf16 = Format::kBf16;
  return load_kernels(device, pair_kernel<kBf16, kF32>, pair_kernel<kBf16, kSwiGlu>, pair_kernel<kInt8, kF32>,
                      pair_kernel<kInt8, kSwiGlu>, pair_kernel<kFp8, kF32>, pair_kernel<kFp8, kSwiGlu>,
                      pair_kernel<kInt4, kF32>, pair_kernel<kInt4, kSwiGlu>, grouped_kernel<16, kF32>,
                      grouped_kernel<16, kSwiGlu>, grouped_kernel<64, kF32>, grouped_kernel<64, kSwiGlu>,
                      grouped_kernel<128, kF32>, grouped_kernel<128, kSwiGlu>);
}

}  // namespace weir::llm::cuda
