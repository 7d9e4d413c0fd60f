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
// nvcc 13.0 for sm_90a takes 128, 167, 197 and 224 registers for kDim 64, 96, 128 and 256, and spills none; with 40,
// 60, 80 and 96 KiB of shared memory that is 4, 3, 2 and 2 blocks per multiprocessor of an H100. Left to itself it
// takes 130 for the first, which is a block less. Of codes it takes 168, and 255 for the others: 3 blocks, and 2.
#include "engines/llm/cuda/cache_codes.cuh"
#include "engines/llm/cuda/prefill.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kWarps = 4, kThreads = kWarps * kWarp;
static_assert(kQueryTile == kWarps * 16);

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
template <KvCodes>
constexpr uint32_t kBlocksOf64 = 2;  // there is shared memory for no more
#else
template <KvCodes kCodes>
constexpr uint32_t kBlocksOf64 = kCodes == KvCodes::kNone ? 4 : 3;
#endif

template <uint32_t kDim>
constexpr uint32_t kKeys = kDim == 256 ? 32 : 64;  // of a piece
template <uint32_t kDim, KvCodes kCodes>
constexpr uint32_t kPiece = kKeys<kDim>* kCacheRow<kDim, kCodes>;
// Queries, two pieces of keys and of values, and two of the scales of codes.
template <uint32_t kDim, KvCodes kCodes>
constexpr size_t kShared = (kQueryTile * kDim + 4 * kPiece<kDim, kCodes>)*sizeof(Bf16) +
                           (kCodes == KvCodes::kNone ? 0 : 4 * kKeys<kDim> * sizeof(float));

template <uint32_t kDim>
__device__ void load_queries(Bf16* queries, const PrefillAttention& a, const Work& work) {
  constexpr uint32_t kChunks = kDim / 8;
  for (uint32_t i = threadIdx.x; i < kQueryTile * kChunks; i += kThreads) {
    uint32_t row = i / kChunks, c = i % kChunks;
    bool there = row < work.queries;
    const Bf16* q = a.q + (size_t(work.first + (there ? row : 0)) * a.heads + blockIdx.x) * kDim;
    copy_async(queries + swizzled<kDim>(row, c), q + c * 8, there ? Take::kAll : Take::kNot);
  }
}

// Positions that no query sees become zeros: their memory may hold anything.
template <uint32_t kDim, KvCodes kCodes>
__device__ void load_piece(Bf16* keys, Bf16* values, float (*scales)[2], const PrefillAttention& a, const Work& work,
                           const Pages& pages, uint32_t base) {
  constexpr uint32_t kRow = kCacheRow<kDim, kCodes>, kChunks = kRow / 8;
  size_t kv_head = blockIdx.x / (a.heads / a.kv_heads);
  auto take = [&](uint32_t position) { return position >= work.from && position < work.end ? Take::kAll : Take::kNot; };
  auto vector = [&](uint32_t position) {
    return pages.slot(take(position) == Take::kAll ? position : work.from) * a.kv_heads + kv_head;
  };
  for (uint32_t i = threadIdx.x; i < kKeys<kDim> * kChunks; i += kThreads) {
    uint32_t row = i / kChunks, c = i % kChunks, position = base + row;
    size_t from = vector(position) * kRow + c * 8;
    copy_async(keys + swizzled<kRow>(row, c), a.k_cache + from, take(position));
    copy_async(values + swizzled<kRow>(row, c), a.v_cache + from, take(position));
  }
  if constexpr (kCodes != KvCodes::kNone)
    if (threadIdx.x < kKeys<kDim>)
      copy_async(scales[threadIdx.x], a.scales + 2 * vector(base + threadIdx.x), take(base + threadIdx.x));
}

// The 16 queries of a warp: of lane l those of rows l / 4 and l / 4 + 8. kCodes: how keys and values are kept; of codes
// dimensions lie as cache_codes.cuh says.
template <uint32_t kDim, KvCodes kCodes>
struct Rows {
  static constexpr bool kCoded = kCodes != KvCodes::kNone;
  static constexpr uint32_t kRow = kCacheRow<kDim, kCodes>;
  static constexpr uint32_t kTiles = kKeys<kDim> / 8, kSteps = kDim / 16;
  static constexpr bool kHold = kDim <= 128;  // queries stay in registers

  uint32_t held[kHold ? kSteps : 1][4];
  float out[kDim / 8][4] = {}, highest[2] = {kNone, kNone}, sum[2] = {};

  __device__ void query(uint32_t (&q)[4], const Bf16* queries, uint32_t step) {
    uint32_t lane = threadIdx.x % kWarp, first = threadIdx.x / kWarp * 16;
    if constexpr (!kCoded) {
      load_matrices(q, queries + swizzled<kDim>(first + lane % 16, step * 2 + lane / 16));
    } else {
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        const uint2 four = *reinterpret_cast<const uint2*>(
            queries + swizzled<kDim>(first + half * 8 + lane / 4, step * 2 + lane % 4 / 2) + lane % 2 * 4);
        q[half] = four.x, q[2 + half] = four.y;
      }
    }
  }
  __device__ void hold(const Bf16* queries) {
    if constexpr (kHold)
#pragma unroll
      for (uint32_t step = 0; step < kSteps; ++step) query(held[step], queries, step);
  }

  __device__ void score(float (&s)[kTiles][4], const Bf16* queries, const Bf16* keys) {
#pragma unroll kHold ? kSteps : 2
    for (uint32_t step = 0; step < kSteps; ++step) {
      uint32_t q[4];
      if constexpr (kHold) {
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) q[i] = held[step][i];
      } else {
        query(q, queries, step);
      }
#pragma unroll
      for (uint32_t tile = 0; tile < kTiles; tile += kCoded ? 4 : 2) score_tiles(s, q, keys, step, tile);
    }
  }
  // One step of as many tiles as ldmatrix brings.
  __device__ void score_tiles(float (&s)[kTiles][4], const uint32_t (&q)[4], const Bf16* keys, uint32_t step,
                              uint32_t tile) {
    uint32_t lane = threadIdx.x % kWarp, k[4];
    if constexpr (!kCoded) {
      load_matrices(k, keys + swizzled<kRow>(tile * 8 + lane % 8 + lane / 16 * 8, step * 2 + lane / 8 % 2));
      mma(s[tile], q, k[0], k[1]);
      mma(s[tile + 1], q, k[2], k[3]);
    } else {
      load_matrices(k, keys + swizzled<kRow>(tile * 8 + lane, step));
#pragma unroll
      for (uint32_t m = 0; m < 4; ++m)
        mma(s[tile + m], q, widen_pair<kCodes, 0, 1>(k[m]), widen_pair<kCodes, 2, 3>(k[m]));
    }
  }
  // By the scales of a piece.
  template <Of kOf>
  __device__ void multiply(float (&s)[kTiles][4], float (*scales)[2]) {
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half)
        multiply_scales<kOf>(s[tile][2 * half], s[tile][2 * half + 1], scales[tile * 8 + threadIdx.x % 4 * 2]);
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
      for (uint32_t d = 0; d < kRow / 8; d += 2) {
        uint32_t v[4];
        load_transposed(v, values + swizzled<kRow>(tile * 8 + lane % 16, d + lane / 16));
#pragma unroll
        for (uint32_t m = 0; m < 4; m += 2) add_products(d + m / 2, weights, v[m], v[m + 1]);
      }
    }
  }
  // The products with matrix `d` of the values: eight dimensions, or sixteen of codes.
  __device__ void add_products(uint32_t d, const uint32_t (&weights)[4], uint32_t first, uint32_t second) {
    if constexpr (kCoded) {
      mma(out[2 * d], weights, widen_pair<kCodes, 0, 2>(first), widen_pair<kCodes, 0, 2>(second));
      mma(out[2 * d + 1], weights, widen_pair<kCodes, 1, 3>(first), widen_pair<kCodes, 1, 3>(second));
    } else {
      mma(out[d], weights, first, second);
    }
  }

  // A piece, whose first position is `base`.
  template <bool kExtras>
  __device__ void take(const Bf16* queries, const Bf16* keys, const Bf16* values, float (*scales)[2],
                       const PrefillAttention& a, const Work& work, uint32_t base) {
    float s[kTiles][4] = {};
    score(s, queries, keys);
    if constexpr (kCoded) multiply<Of::kKeys>(s, scales);
    const bool caps = kExtras && a.cap > 0;
    if (caps) cap(s, to_cap(a.scale, a.cap), a.cap * kLog2E);
    if (work.whole)
      cut(s, base, work.end);
    else
      mask_scores(s, base, work.position + threadIdx.x / kWarp * 16, a.window);
    weigh(s, caps ? 1.f : a.scale * kLog2E);
    if constexpr (kCoded) multiply<Of::kValues>(s, scales);
    add(s, values);
  }

  // A half's results, into its rows of shared memory.
  __device__ void put(Bf16* rows, uint32_t row, uint32_t half, float share) {
    uint32_t lane = threadIdx.x % kWarp;
    auto pair = [&](uint32_t d, uint32_t e, uint32_t i, uint32_t j) {
      return narrow2(out[d][2 * half + i] * share, out[e][2 * half + j] * share);
    };
#pragma unroll
    for (uint32_t d = 0; d < kDim / 8; d += kCoded ? 2 : 1) {
      if constexpr (kCoded)
        *reinterpret_cast<uint2*>(rows + swizzled<kDim>(row, d + lane % 4 / 2) + lane % 2 * 4) =
            make_uint2(pair(d, d + 1, 0, 0), pair(d, d + 1, 1, 1));
      else
        *reinterpret_cast<uint32_t*>(rows + swizzled<kDim>(row, d) + lane % 4 * 2) = pair(d, d, 0, 1);
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
      put(rows, first + half * 8 + lane / 4, half, share_of(sum[half], sink));
    }
    __syncwarp();
    for (uint32_t i = lane; i < 16 * kChunks; i += kWarp) {
      uint32_t row = first + i / kChunks, c = i % kChunks;
      if (row < work.queries)
        *reinterpret_cast<uint4*>(a.out + (size_t(work.first + row) * a.heads + blockIdx.x) * kDim + c * 8) =
            *reinterpret_cast<const uint4*>(rows + swizzled<kDim>(row, c));
    }
  }
};

// kExtras: scores may be capped, and heads may have sinks.
template <uint32_t kDim, bool kExtras, KvCodes kCodes>
__global__ void __launch_bounds__(kThreads, kDim == 64 && !kExtras ? kBlocksOf64<kCodes> : 1)
    prefill_kernel(PrefillAttention a) {
  await_inputs();
  constexpr uint32_t kSize = kPiece<kDim, kCodes>;
  auto* queries = dynamic_shared<Bf16>();
  Bf16 *keys = queries + kQueryTile * kDim, *values = keys + 2 * kSize;  // two pieces each
  auto* scales = reinterpret_cast<float(*)[2]>(values + 2 * kSize);
  Work work(a);
  if (work.queries == 0) return;
  Pages pages(a.tables + work.chunk.table, a.block_size);
  uint32_t base = work.from / kKeys<kDim> * kKeys<kDim>;
  auto load = [&](uint32_t piece, uint32_t from) {
    load_piece<kDim, kCodes>(keys + piece * kSize, values + piece * kSize, scales + piece * kKeys<kDim>, a, work, pages,
                             from);
  };
  load_queries<kDim>(queries, a, work);
  commit_copies();
  load(0, base);
  commit_copies();
  wait_for_copies<1>();
  __syncthreads();

  Rows<kDim, kCodes> mine;
  mine.hold(queries);
  for (uint32_t turn = 0; base < work.end; base += kKeys<kDim>, turn ^= 1) {
    uint32_t next = base + kKeys<kDim>;
    if (next < work.end) load(turn ^ 1, next);
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();
    mine.template take<kExtras>(queries, keys + turn * kSize, values + turn * kSize, scales + turn * kKeys<kDim>, a,
                                work, base);
    __syncthreads();  // before this piece's place is taken
  }
  mine.template finish<kExtras>(queries, a, work);
}

template <uint32_t kDim, KvCodes kCodes>
Code start_as(const Launch& launch, const PrefillAttention& a) {
  auto kernel = a.cap > 0 || a.sinks ? prefill_kernel<kDim, true, kCodes> : prefill_kernel<kDim, false, kCodes>;
  return run(launch, kernel, dim3(a.heads, a.count), kThreads, kShared<kDim, kCodes>, a);
}
template <uint32_t kDim>
Code start(const Launch& launch, const PrefillAttention& a) {
  return a.codes == KvCodes::kNone   ? start_as<kDim, KvCodes::kNone>(launch, a)
         : a.codes == KvCodes::kInt8 ? start_as<kDim, KvCodes::kInt8>(launch, a)
                                     : start_as<kDim, KvCodes::kFp8>(launch, a);
}

template <bool kExtras, KvCodes kCodes>
Code load_all(int32_t device) {
  return load_kernels(device, prefill_kernel<64, kExtras, kCodes>, prefill_kernel<96, kExtras, kCodes>,
                      prefill_kernel<128, kExtras, kCodes>, prefill_kernel<256, kExtras, kCodes>);
}
template <KvCodes kCodes>
Code load_both(int32_t device) {
  const Code code = load_all<false, kCodes>(device);
  return code ? code : load_all<true, kCodes>(device);
}

}  // namespace

// prefill_wgmma.cu
Code prefill_wgmma(const Launch& launch, const PrefillAttention& a);

Code prefill_attention(const Launch& launch, const PrefillAttention& a) {
  if (a.mask == PrefillAttention::kBidirectional && a.window > 0) return kBadShape;
  if (a.kv_heads == 0 || a.heads == 0 || a.heads % a.kv_heads || a.block_size == 0 || a.count > 65535 ||
      (a.codes != KvCodes::kNone && !a.scales))
    return kBadShape;
  if (a.count == 0) return 0;
  if (a.with == PrefillAttention::kWgmma) return prefill_wgmma(launch, a);
  return a.dim == 64    ? start<64>(launch, a)
         : a.dim == 96  ? start<96>(launch, a)
         : a.dim == 128 ? start<128>(launch, a)
         : a.dim == 256 ? start<256>(launch, a)
                        : Code(kBadShape);
}

Code load_prefill(int32_t device) {
  Code code = load_both<KvCodes::kNone>(device);
  if (!code) code = load_both<KvCodes::kInt8>(device);
  return code ? code : load_both<KvCodes::kFp8>(device);
}

}  // namespace weir::llm::cuda
