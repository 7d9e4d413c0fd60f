// The parts that both kernels of prefill attention share (prefill.cu, prefill_wgmma.cu): a tile's queries, and the
// running maximum and sum of their scores. Scores lie in registers as products leave them: lane l of a warp has, of its
// 16 queries, those of rows l / 4 and l / 4 + 8, and of each eight keys the pair 2 (l % 4). Scores are in units of
// log 2.
#pragma once

#include "engines/llm/cuda/paged.cuh"

namespace weir::llm::cuda {

// State that all threads of a block share: of the tile blockIdx.y.
struct Work {
  Chunk chunk;
  uint32_t queries;    // of this tile
  uint32_t first;      // the first one's row in q and out
  uint32_t position;   // and its position
  uint32_t from, end;  // positions that any query of the tile sees
  bool whole;          // and all of them do

  __device__ Work(const PrefillAttention& a) {
    Tile tile = a.tiles[blockIdx.y];
    chunk = a.chunks[tile.chunk];
    queries = min(kQueryTile, chunk.count - tile.query);
    first = chunk.first + tile.query, position = chunk.begin + tile.query;
    end = position + queries;
    from = a.window && position + 1 > a.window ? position + 1 - a.window : 0;
    whole = a.mask == PrefillAttention::kBidirectional;
    if (whole) end = chunk.begin + chunk.count;
  }
};

// base: position of the first key; first: of the warp's first query.
template <uint32_t kTiles>
__device__ inline void mask_scores(float (&s)[kTiles][4], uint32_t base, uint32_t first, uint32_t window) {
  if (base + kTiles * 8 <= first + 1 && (window == 0 || base + window > first + 15)) return;
  uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
  for (uint32_t tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      uint32_t key = base + tile * 8 + lane % 4 * 2 + i % 2, query = first + lane / 4 + i / 2 * 8;
      if (key > query || (window && key + window <= query)) s[tile][i] = -INFINITY;
    }
}

// Scores of one of a lane's two queries become weights relative to the highest so far. Returns the factor that brings
// what was summed before down to that.
template <uint32_t kTiles>
__device__ inline float weigh_scores(float (&s)[kTiles][4], uint32_t half, float scale, float& highest, float& sum) {
  float top = -INFINITY;
#pragma unroll
  for (uint32_t tile = 0; tile < kTiles; ++tile) top = fmaxf(top, fmaxf(s[tile][2 * half], s[tile][2 * half + 1]));
  top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
  top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
  float now = fmaxf(highest, top * scale), shrink = exp2f(highest - now), here = 0;
  highest = now;
#pragma unroll
  for (uint32_t tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (uint32_t i = 2 * half; i < 2 * half + 2; ++i) here += s[tile][i] = exp2f(fmaf(s[tile][i], scale, -now));
  sum = sum * shrink + here;
  return shrink;
}

// The reciprocal of a query's sum; four lanes have a part of it.
__device__ inline float share_of(float sum, float sink) {
  sum += __shfl_xor_sync(kAllLanes, sum, 1);
  sum += __shfl_xor_sync(kAllLanes, sum, 2);
  sum += sink;
  return sum > 0 ? 1 / sum : 0.f;
}

}  // namespace weir::llm::cuda
