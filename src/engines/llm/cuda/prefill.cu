// Attention of many query tokens per sequence over paged keys and values, on tensor cores.
//
// A block takes one tile of queries and one head: FlashAttention-2's loop over pieces of keys, with a running maximum
// and sum per query, scores in registers, and the next piece on its way into shared memory while this one is used. A
// warp takes 16 queries. Pieces begin at multiples of their length, and one that a query does not see changes nothing
// of its result. Scores are in units of log 2.
//
// Shared memory: rows of kDim, whose pieces of 16 bytes change places by row, so that eight rows of one column lie in
// different banks.
//
// nvcc 13.0 for sm_90a takes 128, 168, 194 and 232 registers for kDim 64, 96, 128 and 256, and spills none; with 40, 60,
// 80 and 96 KiB of shared memory that is 4, 3, 2 and 2 blocks per multiprocessor of an H100. Left to itself it takes 130 for the
// first, which is a block less.
#include "engines/llm/cuda/mma.cuh"
#include "engines/llm/cuda/prefill.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kWarps = 4, kThreads = kWarps * kWarp;
static_assert(kQueryTile == kWarps * 16);

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
constexpr uint32_t kBlocksOf64 = 2;  // there is shared memory for no more
#else
constexpr uint32_t kBlocksOf64 = 4;
#endif

template <uint32_t kDim>
constexpr uint32_t kKeys = kDim == 256 ? 32 : 64;  // of a piece
template <uint32_t kDim>
constexpr size_t kShared = (kQueryTile + 4 * kKeys<kDim>)*kDim * sizeof(Bf16);

// Element 8 * chunk of a row.
template <uint32_t kDim>
__device__ uint32_t at(uint32_t row, uint32_t chunk) {
  return swizzled<kDim>(row, chunk);
}

template <uint32_t kDim>
__device__ void load_queries(Bf16* queries, const PrefillAttention& a, const Work& work) {
  constexpr uint32_t kChunks = kDim / 8;
  for (uint32_t i = threadIdx.x; i < kQueryTile * kChunks; i += kThreads) {
    uint32_t row = i / kChunks, c = i % kChunks;
    bool there = row < work.queries;
    const Bf16* q = a.q + (size_t(work.first + (there ? row : 0)) * a.heads + blockIdx.x) * kDim;
    copy_async(queries + at<kDim>(row, c), q + c * 8, there ? Take::kAll : Take::kNot);
  }
}

// Positions that no query sees become zeros: their memory may hold anything.
template <uint32_t kDim>
__device__ void load_piece(Bf16* keys, Bf16* values, const PrefillAttention& a, const Work& work, const Pages& pages,
                           uint32_t base) {
  constexpr uint32_t kChunks = kDim / 8;
  size_t kv_head = blockIdx.x / (a.heads / a.kv_heads);
  for (uint32_t i = threadIdx.x; i < kKeys<kDim> * kChunks; i += kThreads) {
    uint32_t row = i / kChunks, c = i % kChunks, position = base + row;
    Take take = position >= work.from && position < work.end ? Take::kAll : Take::kNot;
    size_t from = (pages.slot(take == Take::kAll ? position : work.from) * a.kv_heads + kv_head) * kDim + c * 8;
    copy_async(keys + at<kDim>(row, c), a.k_cache + from, take);
    copy_async(values + at<kDim>(row, c), a.v_cache + from, take);
  }
}

// The 16 queries of a warp: of lane l those of rows l / 4 and l / 4 + 8.
template <uint32_t kDim>
struct Rows {
  static constexpr uint32_t kTiles = kKeys<kDim> / 8, kSteps = kDim / 16;
  static constexpr bool kHold = kDim <= 128;  // queries stay in registers

  uint32_t held[kHold ? kSteps : 1][4];
  float out[kDim / 8][4] = {}, highest[2] = {kNone, kNone}, sum[2] = {};

  __device__ void query(uint32_t (&q)[4], const Bf16* queries, uint32_t step) {
    uint32_t lane = threadIdx.x % kWarp;
    load_matrices(q, queries + at<kDim>(threadIdx.x / kWarp * 16 + lane % 16, step * 2 + lane / 16));
  }
  __device__ void hold(const Bf16* queries) {
    if constexpr (kHold)
#pragma unroll
      for (uint32_t step = 0; step < kSteps; ++step) query(held[step], queries, step);
  }

  __device__ void score(float (&s)[kTiles][4], const Bf16* queries, const Bf16* keys) {
    uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
    for (uint32_t step = 0; step < kSteps; ++step) {
      uint32_t q[4];
      if constexpr (kHold) {
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) q[i] = held[step][i];
      } else {
        query(q, queries, step);
      }
#pragma unroll
      for (uint32_t tile = 0; tile < kTiles; tile += 2) {
        uint32_t k[4];
        load_matrices(k, keys + at<kDim>(tile * 8 + lane % 8 + lane / 16 * 8, step * 2 + lane / 8 % 2));
        mma(s[tile], q, k[0], k[1]);
        mma(s[tile + 1], q, k[2], k[3]);
      }
    }
  }

  // In place of mask_scores() where every query sees all before `end`.
  __device__ void cut(float (&s)[kTiles][4], uint32_t base, uint32_t end) {
    if (base + kKeys<kDim> <= end) return;
    uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i)
        if (base + tile * 8 + lane % 4 * 2 + i % 2 >= end) s[tile][i] = -INFINITY;
  }

  // Before they are masked.
  __device__ void cap(float (&s)[kTiles][4], float scale, float cap) {
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) s[tile][i] = capped(s[tile][i] * scale, cap);
  }

  __device__ void weigh(float (&s)[kTiles][4], float scale) {
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const float shrink = weigh_scores(s, half, scale, highest[half], sum[half]);
#pragma unroll
      for (uint32_t d = 0; d < kDim / 8; ++d) out[d][2 * half] *= shrink, out[d][2 * half + 1] *= shrink;
    }
  }

  __device__ void add(const float (&s)[kTiles][4], const Bf16* values) {
    uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; tile += 2) {
      const uint32_t weights[4] = {narrow2(s[tile][0], s[tile][1]), narrow2(s[tile][2], s[tile][3]),
                                   narrow2(s[tile + 1][0], s[tile + 1][1]), narrow2(s[tile + 1][2], s[tile + 1][3])};
#pragma unroll
      for (uint32_t d = 0; d < kDim / 8; d += 2) {
        uint32_t v[4];
        load_transposed(v, values + at<kDim>(tile * 8 + lane % 16, d + lane / 16));
        mma(out[d], weights, v[0], v[1]);
        mma(out[d + 1], weights, v[2], v[3]);
      }
    }
  }

  // Through the warp's own rows of shared memory, so that whole lines are written.
  template <bool kExtras>
  __device__ void finish(Bf16* rows, const PrefillAttention& a, const Work& work) {
    constexpr uint32_t kChunks = kDim / 8;
    uint32_t lane = threadIdx.x % kWarp, first = threadIdx.x / kWarp * 16;
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      float sink = 0;
      if constexpr (kExtras) sink = sink_weight(a.sinks, blockIdx.x, highest[half]);
      const float share = share_of(sum[half], sink);
#pragma unroll
      for (uint32_t d = 0; d < kChunks; ++d)
        *reinterpret_cast<uint32_t*>(rows + at<kDim>(first + half * 8 + lane / 4, d) + lane % 4 * 2) =
            narrow2(out[d][2 * half] * share, out[d][2 * half + 1] * share);
    }
    __syncwarp();
    for (uint32_t i = lane; i < 16 * kChunks; i += kWarp) {
      uint32_t row = first + i / kChunks, c = i % kChunks;
      if (row < work.queries)
        *reinterpret_cast<uint4*>(a.out + (size_t(work.first + row) * a.heads + blockIdx.x) * kDim + c * 8) =
            *reinterpret_cast<const uint4*>(rows + at<kDim>(row, c));
    }
  }
};

// kExtras: scores may be capped, and heads may have sinks.
template <uint32_t kDim, bool kExtras>
__global__ void __launch_bounds__(kThreads, kDim == 64 && !kExtras ? kBlocksOf64 : 1) prefill_kernel(PrefillAttention a) {
  await_inputs();
  constexpr uint32_t kPiece = kKeys<kDim> * kDim;
  auto* queries = dynamic_shared<Bf16>();
  Bf16 *keys = queries + kQueryTile * kDim, *values = keys + 2 * kPiece;  // two pieces each
  Work work(a);
  if (work.queries == 0) return;
  Pages pages(a.tables + work.chunk.table, a.block_size);
  uint32_t base = work.from / kKeys<kDim> * kKeys<kDim>;
  load_queries<kDim>(queries, a, work);
  commit_copies();
  load_piece<kDim>(keys, values, a, work, pages, base);
  commit_copies();
  wait_for_copies<1>();
  __syncthreads();

  Rows<kDim> mine;
  mine.hold(queries);
  uint32_t first = work.position + threadIdx.x / kWarp * 16;
  for (uint32_t turn = 0; base < work.end; base += kKeys<kDim>, turn ^= 1) {
    uint32_t next = base + kKeys<kDim>, other = turn ^ 1;
    if (next < work.end) load_piece<kDim>(keys + other * kPiece, values + other * kPiece, a, work, pages, next);
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();
    float s[Rows<kDim>::kTiles][4] = {};
    mine.score(s, queries, keys + turn * kPiece);
    const bool caps = kExtras && a.cap > 0;
    if (caps) mine.cap(s, to_cap(a.scale, a.cap), a.cap * kLog2E);
    if (work.whole)
      mine.cut(s, base, work.end);
    else
      mask_scores(s, base, first, a.window);
    mine.weigh(s, caps ? 1.f : a.scale * kLog2E);
    mine.add(s, values + turn * kPiece);
    __syncthreads();  // before this piece's place is taken
  }
  mine.template finish<kExtras>(queries, a, work);
}

template <uint32_t kDim>
Code start(const Launch& launch, const PrefillAttention& a) {
  auto kernel = a.cap > 0 || a.sinks ? prefill_kernel<kDim, true> : prefill_kernel<kDim, false>;
  return run(launch, kernel, dim3(a.heads, a.count), kThreads, kShared<kDim>, a);
}

}  // namespace

// prefill_wgmma.cu
Code prefill_wgmma(const Launch& launch, const PrefillAttention& a);

Code prefill_attention(const Launch& launch, const PrefillAttention& a) {
  if (a.mask == PrefillAttention::kBidirectional && a.window > 0) return kBadShape;
  if (a.kv_heads == 0 || a.heads == 0 || a.heads % a.kv_heads || a.block_size == 0 || a.count > 65535) return kBadShape;
  if (a.count == 0) return 0;
  if (a.with == PrefillAttention::kWgmma) return prefill_wgmma(launch, a);
  return a.dim == 64    ? start<64>(launch, a)
         : a.dim == 96  ? start<96>(launch, a)
         : a.dim == 128 ? start<128>(launch, a)
         : a.dim == 256 ? start<256>(launch, a)
                        : Code(kBadShape);
}

Code load_prefill(int32_t device) {
  return load_kernels(device, prefill_kernel<64, false>, prefill_kernel<96, false>, prefill_kernel<128, false>,
                      prefill_kernel<256, false>, prefill_kernel<64, true>, prefill_kernel<96, true>,
                      prefill_kernel<128, true>, prefill_kernel<256, true>);
}

}  // namespace weir::llm::cuda
