// Tiles of products with a weight in codes (device_matrix.h), on tensor cores: some rows of x and some of the weight,
// which are the tile's columns. Pieces of both are on their way into shared memory while one is used; codes become
// bfloat16 in the registers of the thread that multiplies them, without rounding, and what 32 inputs make is added
// times the scale that they share.
//
// A thread of a product takes eight neighbouring inputs, 16 bytes of x and the codes beside them, for its places in two
// instructions: which input has which place does not matter to a sum, as long as x and the weight agree.
//
// Shared memory: pieces of rows change places by row, so that what a quarter (of x) or half or all of a warp reads at
// once lies in different banks.
//
// `Source` says where a tile's rows lie; what is not there counts as zeros:
//   const DeviceMatrix& weight; uint32_t inputs;
//   const Bf16* x(uint32_t row) const;                    null: there is no such row
//   const unsigned char* codes(uint32_t column) const;    the same of the weight's
#pragma once

#include "engines/llm/cuda/codes.cuh"
#include "engines/llm/cuda/mma.cuh"

namespace weir::llm::cuda {

constexpr uint32_t kTogether = kCodedTogether, kLine = 128;  // inputs of a step; bytes that all banks have

// The shape of tiles: kDown warps share the rows, kAcross the columns, kSplit the inputs of a piece.
template <uint32_t kRows_, uint32_t kColumns_, uint32_t kDepth_, uint32_t kDown_, uint32_t kAcross_, uint32_t kSplit_>
struct TileShape {
  static constexpr uint32_t kRows = kRows_, kColumns = kColumns_, kDepth = kDepth_;
  static constexpr uint32_t kDown = kDown_, kAcross = kAcross_, kSplit = kSplit_;
  static constexpr uint32_t kThreads = kDown * kAcross * kSplit * kWarp;
  static constexpr uint32_t kHigh = kRows / kDown / 16, kWide = kColumns / kAcross / 8;
  static constexpr uint32_t kSteps = kDepth / kTogether / kSplit, kStages = 4;
};
// Few rows: what matters is that many codes are on their way on all multiprocessors. Many: that a number in shared
// memory is used often.
using FewRows = TileShape<16, 32, 256, 1, 1, 4>;
using SomeRows = TileShape<64, 32, 128, 4, 1, 1>;
using ManyRows = TileShape<128, 64, 64, 4, 2, 1>;

template <Format kFormat, class C>
struct TileStage {
  static constexpr uint32_t kStep = kTogether * kBits<kFormat> / 8, kRow = C::kDepth * kBits<kFormat> / 8;  // bytes
  static constexpr uint32_t kX = C::kRows * C::kDepth * sizeof(Bf16), kBytes = kX + C::kColumns * kRow;

  static __device__ uint32_t of_x(uint32_t row, uint32_t chunk) {
    return row * (C::kDepth * 2) + (chunk ^ (row & 1) << 2) * 16;
  }
  static __device__ uint32_t of_codes(uint32_t row, uint32_t step) {
    constexpr uint32_t kRowsOfLine = kRow < kLine ? kLine / kRow : 1;
    constexpr uint32_t kPlaces = (kRow < kLine ? kRow : kLine) / kStep;
    return kX + row * kRow + (step ^ (row / kRowsOfLine & (kPlaces - 1))) * kStep;
  }
};

// Every thread brings 16 bytes of several rows; those that are not there become zeros.
template <Format kFormat, class C, class Source>
__device__ void bring(unsigned char* stage, const Source& from, uint32_t base) {
  using S = TileStage<kFormat, C>;
  constexpr uint32_t kOfX = C::kDepth / 8, kOfRow = S::kRow / 16, kInputs = 16 * 8 / kBits<kFormat>;
  static_assert(C::kRows * kOfX % C::kThreads == 0);
  auto copy = [&](uint32_t to, const void* bytes) {
    copy_async(reinterpret_cast<Bf16*>(stage + to), static_cast<const Bf16*>(bytes ? bytes : from.weight.data),
               bytes ? Take::kAll : Take::kNot);
  };
#pragma unroll
  for (uint32_t i = threadIdx.x; i < C::kRows * kOfX; i += C::kThreads) {
    const uint32_t input = base + i % kOfX * 8;
    const Bf16* row = input < from.inputs ? from.x(i / kOfX) : nullptr;
    copy(S::of_x(i / kOfX, i % kOfX), row ? row + input : nullptr);
  }
#pragma unroll
  for (uint32_t i = threadIdx.x; i < C::kColumns * kOfRow; i += C::kThreads) {
    const uint32_t byte = i % kOfRow * 16, input = base + i % kOfRow * kInputs;
    const unsigned char* row = input < from.inputs ? from.codes(i / kOfRow) : nullptr;
    copy(S::of_codes(i / kOfRow, byte / S::kStep) + byte % S::kStep,
         row ? row + size_t(base) * kBits<kFormat> / 8 + byte : nullptr);
  }
}

// A warp's part of a block's results. A lane has, of each 16 rows and 8 columns, four places as mma() has them.
template <Format kFormat, class C>
struct TilePart {
  using S = TileStage<kFormat, C>;
  // Scales, and offsets, of a piece: of each step and column that the lane has.
  struct Scales {
    float scale[C::kSteps][C::kWide][2], offset[C::kSteps][C::kWide][2];
  };
  float sum[C::kHigh][C::kWide][4] = {};
  uint32_t row, column, step;  // the first of the tile, and of a piece

  __device__ TilePart() {
    const uint32_t warp = threadIdx.x / kWarp;
    step = warp % C::kSplit * C::kSteps;
    row = warp / C::kSplit / C::kAcross * C::kHigh * 16;
    column = warp / C::kSplit % C::kAcross * C::kWide * 8;
  }

  template <class Source>
  __device__ void load_scales(Scales& to, const Source& from, uint32_t base) const {
    const uint32_t mine = column + threadIdx.x % 4 * 2;
#pragma unroll
    for (uint32_t s = 0; s < C::kSteps; ++s) {
      const uint32_t input = min(base + (step + s) * kTogether, from.inputs - 1);
      const uint32_t group = input / from.weight.group << from.weight.offsets;
#pragma unroll
      for (uint32_t n = 0; n < C::kWide; ++n)
#pragma unroll
        for (uint32_t i = 0; i < 2; ++i) {
          const unsigned char* row = from.codes(mine + n * 8 + i);
          if (!row) continue;
          const float* scales = scales_of<kFormat>(row, from.inputs) + group;
          to.scale[s][n][i] = __ldg(scales);
          if (from.weight.offsets) to.offset[s][n][i] = __ldg(scales + 1);
        }
    }
  }

  // The products of a piece.
  __device__ void add(const unsigned char* stage, const Scales& scales, bool offsets) {
    const uint32_t g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
#pragma unroll
    for (uint32_t s = 0; s < C::kSteps; ++s) {
      uint4 upper[C::kHigh], lower[C::kHigh];
#pragma unroll
      for (uint32_t m = 0; m < C::kHigh; ++m) {
        const uint32_t r = row + m * 16 + g, chunk = (step + s) * 4 + t;
        upper[m] = *reinterpret_cast<const uint4*>(stage + S::of_x(r, chunk));
        lower[m] = *reinterpret_cast<const uint4*>(stage + S::of_x(r + 8, chunk));
      }
#pragma unroll
      for (uint32_t n = 0; n < C::kWide; ++n) {
        const unsigned char* codes = stage + S::of_codes(column + n * 8 + g, step + s) + t * kBits<kFormat>;
        const uint4 w = expand<kFormat>(*reinterpret_cast<const Eight<kFormat>*>(codes));
#pragma unroll
        for (uint32_t m = 0; m < C::kHigh; ++m) {
          float products[4] = {};
          multiply(products, upper[m], lower[m], w);
#pragma unroll
          for (uint32_t i = 0; i < 4; ++i) sum[m][n][i] = fmaf(scales.scale[s][n][i % 2], products[i], sum[m][n][i]);
        }
      }
      if (offsets) add_offsets(upper, lower, scales, s);
    }
  }

  __device__ static void multiply(float (&d)[4], uint4 upper, uint4 lower, uint4 w) {
    const uint32_t first[4] = {upper.x, lower.x, upper.y, lower.y}, second[4] = {upper.z, lower.z, upper.w, lower.w};
    mma(d, first, w.x, w.y);
    mma(d, second, w.z, w.w);
  }

  // The sums of a step's inputs are products with ones.
  __device__ void add_offsets(const uint4 (&upper)[C::kHigh], const uint4 (&lower)[C::kHigh], const Scales& scales,
                              uint32_t s) {
    constexpr uint32_t kOnes = 0x3f803f80u;
#pragma unroll
    for (uint32_t m = 0; m < C::kHigh; ++m) {
      float inputs[4] = {};
      multiply(inputs, upper[m], lower[m], make_uint4(kOnes, kOnes, kOnes, kOnes));
#pragma unroll
      for (uint32_t n = 0; n < C::kWide; ++n)
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) sum[m][n][i] = fmaf(scales.offset[s][n][i % 2], inputs[i], sum[m][n][i]);
    }
  }

  // Those of warps that share the inputs become one, in order, in the first of them. `room`: shared memory.
  __device__ void join(float* room) {
    if constexpr (C::kSplit > 1) {
      constexpr uint32_t kMine = C::kHigh * C::kWide * 4;
      static_assert(C::kDown == 1 && C::kAcross == 1);
      const uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
      auto at = [&](uint32_t w, uint32_t i) -> float& { return room[(w * kMine + i) * kWarp + lane]; };
#pragma unroll
      for (uint32_t i = 0; i < kMine; ++i) at(warp, i) = sum[i / 4 / C::kWide][i / 4 % C::kWide][i % 4];
      __syncthreads();
      if (warp > 0) return;
#pragma unroll
      for (uint32_t i = 0; i < kMine; ++i)
        for (uint32_t w = 1; w < C::kSplit; ++w) sum[i / 4 / C::kWide][i / 4 % C::kWide][i % 4] += at(w, i);
    }
  }

  // The products of all pieces. `scales`: of the first; `stages`: kTileBytes of shared memory.
  template <class Source>
  __device__ void run(const Source& from, unsigned char* stages, Scales& scales) {
    constexpr uint32_t kOpen = C::kStages - 1;
    const uint32_t pieces = (from.inputs + C::kDepth - 1) / C::kDepth;
    Scales next{};
#pragma unroll
    for (uint32_t p = 0; p < kOpen; ++p) {
      if (p < pieces) bring<kFormat, C>(stages + p * S::kBytes, from, p * C::kDepth);
      commit_copies();
    }
    for (uint32_t p = 0; p < pieces; ++p) {
      if (p + 1 < pieces) load_scales(next, from, (p + 1) * C::kDepth);
      wait_for_copies<kOpen - 1>();
      __syncthreads();  // the piece is there, and the one before it is not read any more
      const uint32_t later = p + kOpen;
      if (later < pieces) bring<kFormat, C>(stages + later % C::kStages * S::kBytes, from, later * C::kDepth);
      commit_copies();
      add(stages + p % C::kStages * S::kBytes, scales, from.weight.offsets != 0);
      scales = next;
    }
    wait_for_copies<0>();
    __syncthreads();  // the stages are not used any more
    join(reinterpret_cast<float*>(stages));
  }
  // Whether this warp has the sums, then.
  __device__ bool has_sums() const { return step == 0; }
};

// Shared memory that a block's tile takes.
template <Format kFormat, class C>
constexpr size_t kTileBytes = size_t(C::kStages) * TileStage<kFormat, C>::kBytes;

}  // namespace weir::llm::cuda
