// Attention of many query tokens per sequence over paged keys and values, on Hopper's tensor cores (sm_90a): the same
// as prefill.cu, in the order of FlashAttention-3. It has not run on a GPU yet: wgmma_check.h tries it first.
//
// A block takes one tile of queries and two heads of a key head. Its first warpgroup copies pieces of keys and values
// into shared memory; each of the others multiplies for one head. While one of them weighs its scores, the other one
// multiplies (`turns`); and a piece's scores are multiplied together with the weights of the piece before.
//
// Copies are cp.async of 16 bytes. TMA would copy whole boxes, but blocks may have any number of rows, and hold
// anything, also NaN, where a sequence has no positions: that must become zeros. A bulk copy of one row would not
// swizzle it. A thread waits for its copies, makes them known to products, and arrives at the piece's barrier.
//
// Every wait ends (Waiter, wgmma.cuh). Where nobody arrives at a barrier the block goes on to its end with wrong
// numbers.
#include "engines/llm/cuda/prefill.cuh"
#include "engines/llm/cuda/wgmma.cuh"

// Elsewhere the kernel is empty, and nobody launches it.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDACC__)
#define WEIR_HAS_WGMMA 1
#else
#define WEIR_HAS_WGMMA 0
#endif

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kHeads = 2;  // of a block
constexpr uint32_t kThreads = (1 + kHeads) * kWarpgroup;
constexpr uint32_t kKeys = 128, kStages = 2;  // positions of a piece; pieces in shared memory
constexpr uint32_t kCopyRegisters = 40, kProductRegisters = 232;
static_assert(kQueryTile == 64);  // rows of a product
static_assert(kCopyRegisters + kHeads * kProductRegisters <= 65536 / kWarpgroup);

// Phases of a stage's barriers are its pieces: copied, and free again.
struct Barriers {
  Barrier keys[kStages], keys_free[kStages], values[kStages], values_free[kStages];
  Barrier turns[kHeads];
};
// As `stuck` has them.
enum Awaited : uint32_t { kKeysFree = 1, kValuesFree, kKeysThere, kValuesThere, kTurn };

template <uint32_t kDim>
constexpr size_t kShared = kPatternBytes + (kHeads * kQueryTile + 2 * kStages * kKeys) * kDim * sizeof(Bf16) +
                           sizeof(Barriers);

// State that all threads of a block share.
template <uint32_t kDim>
struct Block {
  Bf16 *queries, *keys, *values;  // of kHeads, kStages, kStages
  Barriers* barriers;
  Work work;
  uint32_t kv_head, head, heads;  // query heads [head, head + heads)
  uint32_t base, pieces;          // position of the first piece

  explicit __device__ Block(const PrefillAttention& a) : work(a) {
    auto* bytes = dynamic_shared<unsigned char>();
    bytes += (0 - shared_address(bytes)) % kPatternBytes;
    queries = reinterpret_cast<Bf16*>(bytes);
    keys = queries + kHeads * kQueryTile * kDim, values = keys + kStages * kKeys * kDim;
    barriers = reinterpret_cast<Barriers*>(values + kStages * kKeys * kDim);
    const uint32_t group = a.heads / a.kv_heads, pairs = (group + kHeads - 1) / kHeads,
                   first = blockIdx.x % pairs * kHeads;
    kv_head = blockIdx.x / pairs;
    head = kv_head * group + first, heads = min(kHeads, group - first);
    base = work.from / kKeys * kKeys;
    pieces = (work.end - base + kKeys - 1) / kKeys;
  }

  __device__ void make_barriers() {
    constexpr uint32_t kWarps = kWarpgroup / kWarp;
    for (uint32_t stage = 0; stage < kStages; ++stage) {
      make_barrier(barriers->keys[stage], kWarpgroup), make_barrier(barriers->values[stage], kWarpgroup);
      make_barrier(barriers->keys_free[stage], kWarps * heads);
      make_barrier(barriers->values_free[stage], kWarps * heads);
    }
    for (Barrier& turn : barriers->turns) make_barrier(turn, kWarps);
  }
};

#if WEIR_HAS_WGMMA

// --- the copying warpgroup -------------------------------------------------------------------------------------------
template <uint32_t kDim>
struct Copier {
  static constexpr uint32_t kChunks = kDim / 8;

  const PrefillAttention& a;
  const Block<kDim>& block;
  Pages pages;
  uint32_t thread = threadIdx.x % kWarpgroup;

  __device__ void queries() {
    for (uint32_t i = thread; i < block.heads * kQueryTile * kChunks; i += kWarpgroup) {
      uint32_t head = i / (kQueryTile * kChunks), row = i / kChunks % kQueryTile, c = i % kChunks;
      bool there = row < block.work.queries;
      const Bf16* q = a.q + (size_t(block.work.first + (there ? row : 0)) * a.heads + block.head + head) * kDim + c * 8;
      Bf16* to = block.queries + head * kQueryTile * kDim + in_panels<kQueryTile>(row, c);
      copy_async(to, q, there ? Take::kAll : Take::kNot);
    }
  }

  // Positions that no query sees become zeros: their memory may hold anything.
  __device__ void piece(Bf16* to, const Bf16* cache, uint32_t base) {
#pragma unroll 4
    for (uint32_t i = thread; i < kKeys * kChunks; i += kWarpgroup) {
      uint32_t row = i / kChunks, c = i % kChunks, position = base + row;
      Take take = position >= block.work.from && position < block.work.end ? Take::kAll : Take::kNot;
      size_t from = pages.slot(take == Take::kAll ? position : block.work.from) * a.kv_heads + block.kv_head;
      copy_async(to + in_panels<kKeys>(row, c), cache + from * kDim + c * 8, take);
    }
  }

  // All but the last kOpen groups of copies are there.
  template <uint32_t kOpen>
  __device__ void tell(Barrier& barrier) {
    wait_for_copies<kOpen>();
    fence_copies();
    arrive(barrier);
  }

  // Keys and values are told of one after the other, each while the next ones are on their way.
  __device__ void run(Waiter waiter) {
    Barriers& at = *block.barriers;
    queries();
    for (uint32_t i = 0; i < block.pieces; ++i) {
      const uint32_t stage = i % kStages, parity = i / kStages % 2, base = block.base + i * kKeys;
      waiter.await(at.keys_free[stage], parity ^ 1, kKeysFree);
      piece(block.keys + stage * kKeys * kDim, a.k_cache, base);
      commit_copies();
      if (i > 0) tell<1>(at.values[(i - 1) % kStages]);
      waiter.await(at.values_free[stage], parity ^ 1, kValuesFree);
      piece(block.values + stage * kKeys * kDim, a.v_cache, base);
      commit_copies();
      tell<1>(at.keys[stage]);
    }
    tell<0>(at.values[(block.pieces - 1) % kStages]);
  }
};

// --- a multiplying warpgroup: one head -------------------------------------------------------------------------------
template <uint32_t kDim>
struct Multiplier {
  const PrefillAttention& a;
  const Block<kDim>& block;
  uint32_t mine;  // which of the block's heads
  uint32_t queries, keys, values;

  float s[kKeys / 8][4], out[kDim / 8][4] = {};  // scores, then weights
  uint32_t weights[kKeys / 16][4];               // the same, narrow
  float highest[2] = {kNone, kNone}, sum[2] = {};

  __device__ Multiplier(const PrefillAttention& attention, const Block<kDim>& of, uint32_t head)
      : a(attention), block(of), mine(head) {
    queries = shared_address(block.queries + mine * kQueryTile * kDim);
    keys = shared_address(block.keys), values = shared_address(block.values);
  }

  __device__ uint32_t stage_bytes(uint32_t i) const { return i % kStages * kKeys * kDim * uint32_t(sizeof(Bf16)); }

  __device__ void score(uint32_t i) {
    const uint32_t at = keys + stage_bytes(i);
#pragma unroll
    for (uint32_t step = 0; step < kDim / Matrix::kStep; ++step)
      multiply(s, Matrix::rows<kQueryTile>(queries, step), Matrix::rows<kKeys>(at, step), step ? Sum::kOn : Sum::kAnew);
    commit_products();
  }
  __device__ void add(uint32_t i) {
    const uint32_t at = values + stage_bytes(i);
#pragma unroll
    for (uint32_t step = 0; step < kKeys / Matrix::kStep; ++step)
      multiply(out, weights[step], Matrix::columns<kKeys>(at, step));
    commit_products();
  }

  // Both heads take turns, where there are two.
  __device__ void take_turn(Waiter& waiter, uint32_t i) {
    if (block.heads == kHeads) waiter.await(block.barriers->turns[mine], (i & 1) ^ (mine ^ 1), kTurn);
  }
  __device__ void pass_turn() {
    if (block.heads == kHeads) arrive_as_warp(block.barriers->turns[mine ^ 1]);
  }

  __device__ uint32_t first_row() const { return threadIdx.x / kWarp % 4 * 16; }

  __device__ void weigh(uint32_t i, float (&shrink)[2]) {
    mask_scores(s, block.base + i * kKeys, block.work.position + first_row(), a.window);
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half)
      shrink[half] = weigh_scores(s, half, a.scale * kLog2E, highest[half], sum[half]);
  }
  // Weights of a piece, once those of the one before are not needed any more.
  __device__ void take_weights() {
#pragma unroll
    for (uint32_t step = 0; step < kKeys / 16; ++step)
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i)
        weights[step][i] = narrow2(s[2 * step + i / 2][i % 2 * 2], s[2 * step + i / 2][i % 2 * 2 + 1]);
  }
  __device__ void shrink_out(const float (&shrink)[2]) {
#pragma unroll
    for (uint32_t d = 0; d < kDim / 8; ++d)
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) out[d][i] *= shrink[i / 2];
  }

  __device__ void run(Waiter waiter) {
    Barriers& at = *block.barriers;
    float shrink[2];
    waiter.await(at.keys[0], 0, kKeysThere);  // and the queries
    take_turn(waiter, 0);
    fence_products();
    score(0);
    pass_turn();
    wait_for_products<0>(s);
    arrive_as_warp(at.keys_free[0]);
    weigh(0, shrink);
    take_weights();
    for (uint32_t i = 1; i < block.pieces; ++i) {
      const uint32_t stage = i % kStages, before = (i - 1) % kStages;
      waiter.await(at.keys[stage], i / kStages % 2, kKeysThere);
      waiter.await(at.values[before], (i - 1) / kStages % 2, kValuesThere);
      take_turn(waiter, i);
      hold(out);
      fence_products();
      score(i);
      add(i - 1);
      pass_turn();
      wait_for_products<1>(s);
      arrive_as_warp(at.keys_free[stage]);
      weigh(i, shrink);
      wait_for_products<0>(out);
      arrive_as_warp(at.values_free[before]);
      shrink_out(shrink);
      take_weights();
    }
    const uint32_t last = block.pieces - 1;
    waiter.await(at.values[last % kStages], last / kStages % 2, kValuesThere);
    hold(out);
    fence_products();
    add(last);
    wait_for_products<0>(out);
    finish();
  }

  __device__ void finish() {
    const uint32_t lane = threadIdx.x % kWarp, head = block.head + mine;
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t row = first_row() + half * 8 + lane / 4;
      const float share = share_of(sum[half], sink_weight(a.sinks, head, highest[half]));
      Bf16* to = a.out + (size_t(block.work.first + row) * a.heads + head) * kDim + lane % 4 * 2;
      if (row < block.work.queries)
#pragma unroll
        for (uint32_t d = 0; d < kDim / 8; ++d)
          *reinterpret_cast<uint32_t*>(to + d * 8) = narrow2(out[d][2 * half] * share, out[d][2 * half + 1] * share);
    }
  }
};

#endif

template <uint32_t kDim>
__global__ void __launch_bounds__(kThreads, 1) prefill_wgmma_kernel([[maybe_unused]] PrefillAttention a) {
#if WEIR_HAS_WGMMA
  await_inputs();
  Block<kDim> block(a);
  if (block.work.queries == 0) return;
  if (threadIdx.x == 0) block.make_barriers();
  __syncthreads();
  const uint32_t group = threadIdx.x / kWarpgroup;
  if (group == 0) {
    take_fewer_registers<kCopyRegisters>();
    Copier<kDim>{a, block, Pages(a.tables + block.work.chunk.table, a.block_size)}.run(Waiter(a.stuck));
  } else {
    take_more_registers<kProductRegisters>();  // on every way to the products: ptxas counts with the least
    if (group <= block.heads) Multiplier<kDim>(a, block, group - 1).run(Waiter(a.stuck));
  }
#endif
}

template <uint32_t kDim>
Code start(const Launch& launch, const PrefillAttention& a) {
  const uint32_t group = a.heads / a.kv_heads, pairs = (group + kHeads - 1) / kHeads;
  return run(launch, prefill_wgmma_kernel<kDim>, dim3(a.kv_heads * pairs, a.count), kThreads, kShared<kDim>, a);
}

// Whether the compiler left a block what its warpgroups take: else the last of them would wait for registers for good.
template <uint32_t kDim>
bool has_registers() {
  cudaFuncAttributes found{};
  return cudaFuncGetAttributes(&found, prefill_wgmma_kernel<kDim>) == cudaSuccess &&
         uint32_t(found.numRegs) * (1 + kHeads) >= kCopyRegisters + kHeads * kProductRegisters;
}

// The devices, as those of begins_early, that the kernel was compiled for. Written when kernels are loaded.
std::atomic<bool> has_wgmma[1 + kMostDevices];

}  // namespace

Code prefill_wgmma(const Launch& launch, const PrefillAttention& a) {
  const bool can = launch.device >= -1 && launch.device < kMostDevices && has_wgmma[1 + launch.device];
  if (!can || !takes_wgmma(a)) return Code(kRefused);
  return a.dim == 64 ? start<64>(launch, a) : start<128>(launch, a);
}

Code load_prefill_wgmma([[maybe_unused]] int32_t device) {
#if CUDART_VERSION >= 12000  // older ones are not asked for sm_90a (src/device/cuda/meson.build)
  if (device < -1 || device >= kMostDevices) return 0;
  int major = 0, minor = 0;
  auto code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (code == cudaSuccess) code = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  if (code != cudaSuccess) return Code(code);
  if (major != 9 || minor != 0) return 0;
  code = cudaError_t(load_kernels(device, prefill_wgmma_kernel<64>, prefill_wgmma_kernel<128>));
  has_wgmma[1 + device] = code == cudaSuccess && has_registers<64>() && has_registers<128>();
  return Code(code);
#else
  return 0;
#endif
}

}  // namespace weir::llm::cuda
