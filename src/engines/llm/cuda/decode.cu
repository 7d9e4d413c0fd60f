// Decode attention over paged keys and values on tensor cores, split along the sequence.
//
// A block takes one row, one key head with the query heads that share it, and one part of kPartition positions, so that
// every key and value is read once. The heads are the rows of the products, of which a tensor core has sixteen and we
// eight at most; that half of its work is idle costs nothing beside the memory. Of a key head that more than eight share
// several blocks take eight each: they run side by side, so that the second finds the keys in the cache. A warp takes every so many-th slice of
// 16 positions by itself: its next slices are on their way into shared memory while it uses one, and no warp waits for
// another before the end. Parts and slices begin at fixed multiples of positions whatever the batch is, and parts are
// merged in order by the block that comes last: a row's result is the same alone and in any batch. Scores are in units
// of log 2; weights are rounded to bfloat16, as those of prefill.cu are.
//
// nvcc 13.0 for sm_90a takes 86, 120, 130 and 254 registers for kDim 64, 96, 128 and 256, and spills none; with 49,
// 50, 66 and 68 KiB of shared memory that is 4, 4, 3 and 3 blocks per multiprocessor of an H100, with 96 KiB and more of
// keys and values on their way, several times what its share of the memory's bandwidth needs.
#include "engines/llm/cuda/mma.cuh"
#include "engines/llm/cuda/paged.cuh"
#include "engines/llm/cuda/turned.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kSlice = 16;  // positions that a warp takes together
constexpr uint32_t kHeads = kHeadsTogether;
static_assert(kHeads == 8 && kPartition % kSlice == 0);

template <uint32_t kDim>
constexpr uint32_t kWarps = kDim == 256 ? 2 : 4;
template <uint32_t kDim>
constexpr uint32_t kThreads = kWarps<kDim>* kWarp;
template <uint32_t kDim>
constexpr uint32_t kStages = kDim == 64 ? 3 : 2;  // slices of a warp in shared memory
template <uint32_t kDim>
constexpr uint32_t kSliceSize = kSlice * kDim;  // keys of a slice; its values are behind them
template <uint32_t kDim>
constexpr uint32_t kQueryRow = kDim + 8;  // so that the rows of a column lie in different banks

// Each warp's slices and the queries; when all is summed, the teams' results instead of the slices.
template <uint32_t kDim>
constexpr size_t kShared =
    (size_t(kWarps<kDim>) * kStages<kDim> * 2 * kSliceSize<kDim> + kHeads * kQueryRow<kDim>)*sizeof(Bf16);

// Element 8 * chunk of a position.
template <uint32_t kDim>
__device__ uint32_t at(uint32_t row, uint32_t chunk) {
  return swizzled<kDim>(row, chunk);
}

// kExtras of all that follows: scores may be capped, and heads may have sinks. Where neither is, no register is for it.

// A weighted sum of values over the sum of the weights.
__device__ Bf16 finished(float all, float total) { return narrow(total > 0 ? all / total : 0.f); }

// The part of a row that a block takes.
struct Part {
  uint32_t row, kv_head, index;
  uint32_t group;  // query heads
  uint32_t first;  // of them, among the row's
  size_t head;     // and among all rows'
  uint32_t length, from, end;

  __device__ explicit Part(const DecodeAttention& a) : row(blockIdx.x), index(blockIdx.z) {
    const uint32_t all = a.heads / a.kv_heads, blocks = (all + kHeads - 1) / kHeads;
    kv_head = blockIdx.y / blocks;
    const uint32_t before = blockIdx.y % blocks * kHeads;
    group = min(kHeads, all - before), first = kv_head * all + before;
    head = size_t(row) * a.heads + first;
    length = a.lengths[row];
    const uint32_t begin = index * kPartition;
    end = min(length, begin + kPartition);
    from = max(begin, a.window && length > a.window ? length - a.window : 0u);
  }
};

// The partial result of each warp, for the whole block to read.
template <uint32_t kDim>
struct Results {
  float sums[kWarps<kDim>][kHeads][kDim];
  float highs[kWarps<kDim>][kHeads], weights[kWarps<kDim>][kHeads];

  // The warps become one, in order.
  template <bool kExtras>
  __device__ void merge(const DecodeAttention& a, const Part& part) const {
    for (uint32_t i = threadIdx.x; i < part.group * kDim; i += kThreads<kDim>) {
      uint32_t g = i / kDim, d = i % kDim;
      float top = kNone, all = 0, total = 0;
      for (uint32_t w = 0; w < kWarps<kDim>; ++w) top = fmaxf(top, highs[w][g]);
      for (uint32_t w = 0; w < kWarps<kDim>; ++w) {
        float factor = highs[w][g] == kNone ? 0.f : exp2f(highs[w][g] - top);
        all += factor * sums[w][g][d];
        total += factor * weights[w][g];
      }
      if (a.parts == 1) {
        a.out[part.head * kDim + i] = finished(all, total + (kExtras ? sink_weight(a.sinks, part.first + g, top) : 0));
        continue;
      }
      size_t to = (part.head + g) * a.parts + part.index;
      a.part_out[to * kDim + d] = all;
      if (d == 0) a.part_max[to] = top, a.part_sum[to] = total;
    }
  }
};

// A warp's heads over its slices. Lane l holds of head l / 4 the pairs of dimensions 8 d + 2 (l % 4).
template <uint32_t kDim>
struct Running {
  static constexpr uint32_t kSteps = kDim / 16;

  uint32_t queries[kSteps][2];
  float out[kDim / 8][2] = {}, highest = kNone, sum = 0;

  __device__ void hold(const Bf16* from) {
    uint32_t lane = threadIdx.x % kWarp;
    const Bf16* mine = from + lane / 4 * kQueryRow<kDim> + lane % 4 * 2;
#pragma unroll
    for (uint32_t step = 0; step < kSteps; ++step)
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half)
        queries[step][half] = *reinterpret_cast<const uint32_t*>(mine + step * 16 + half * 8);
  }

  __device__ void score(float (&s)[2][2], const Bf16* keys) {
    uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
    for (uint32_t step = 0; step < kSteps; ++step) {
      uint32_t k[4];
      load_matrices(k, keys + at<kDim>(lane % 8 + lane / 16 * 8, step * 2 + lane / 8 % 2));
      mma_upper(s[0], queries[step], k[0], k[1]);
      mma_upper(s[1], queries[step], k[2], k[3]);
    }
  }

  // Scores of the positions from `base` on become weights; those outside of [from, end) have none.
  // `scale` makes them units of log 2, or with a cap what capped() takes.
  template <bool kExtras>
  __device__ void weigh(float (&s)[2][2], uint32_t base, const Part& part, float scale, float cap) {
    uint32_t lane = threadIdx.x % kWarp;
    float top = -INFINITY;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      uint32_t position = base + i / 2 * 8 + lane % 4 * 2 + i % 2;
      float& score = s[i / 2][i % 2];
      score *= scale;
      if (kExtras && cap > 0) score = capped(score, cap);
      if (position < part.from || position >= part.end) score = -INFINITY;
      top = fmaxf(top, score);
    }
    top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
    top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
    float now = fmaxf(highest, top), shrink = exp2f(highest - now);
    highest = now, sum *= shrink;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) sum += s[i / 2][i % 2] = exp2f(s[i / 2][i % 2] - now);
#pragma unroll
    for (uint32_t d = 0; d < kDim / 8; ++d) out[d][0] *= shrink, out[d][1] *= shrink;
  }

  __device__ void add(const float (&s)[2][2], const Bf16* values) {
    uint32_t lane = threadIdx.x % kWarp;
    const uint32_t weights[2] = {narrow2(s[0][0], s[0][1]), narrow2(s[1][0], s[1][1])};
#pragma unroll
    for (uint32_t d = 0; d < kDim / 8; d += 2) {
      uint32_t v[4];
      load_transposed(v, values + at<kDim>(lane % 16, d + lane / 16));
      mma_upper(out[d], weights, v[0], v[1]);
      mma_upper(out[d + 1], weights, v[2], v[3]);
    }
  }

  __device__ void put(Results<kDim>& results) {
    uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, head = lane / 4;
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    if (lane % 4 == 0) results.highs[warp][head] = highest, results.weights[warp][head] = sum;
#pragma unroll
    for (uint32_t d = 0; d < kDim / 8; ++d) store(&results.sums[warp][head][d * 8 + lane % 4 * 2], out[d]);
  }
};

// A slice of keys and values, from position `base` on, is put on its way. Positions that are not attended to become
// zeros: their memory may hold anything.
template <uint32_t kDim>
__device__ void load_slice(Bf16* to, const DecodeAttention& a, const Part& part, const Pages& pages, uint32_t base) {
  constexpr uint32_t kChunks = kDim / 8;
  const uint32_t lane = threadIdx.x % kWarp, position = base + lane % kSlice;
  const bool mine = position >= part.from && position < part.end;
  const auto slot = uint32_t(pages.slot(mine ? position : part.from));
  const uint32_t seen = __ballot_sync(kAllLanes, mine);
#pragma unroll kDim == 256 ? 1 : 4
  for (uint32_t i = lane; i < kSlice * kChunks; i += kWarp) {
    const uint32_t row = i / kChunks, c = i % kChunks;
    const size_t from = (size_t(__shfl_sync(kAllLanes, slot, int(row))) * a.kv_heads + part.kv_head) * kDim + c * 8;
    const Take take = seen >> row & 1 ? Take::kAll : Take::kNot;
    copy_async(to + at<kDim>(row, c), a.k_cache + from, take);
    copy_async(to + kSliceSize<kDim> + at<kDim>(row, c), a.v_cache + from, take);
  }
}

// The positions of a part that a warp takes; `slices`: its kStages places in shared memory.
template <uint32_t kDim, bool kExtras>
__device__ void take_slices(Running<kDim>& mine, Bf16* slices, const DecodeAttention& a, const Part& part) {
  constexpr uint32_t kSteps = kSlice * kWarps<kDim>, kStage = 2 * kSliceSize<kDim>;
  Pages pages(a.tables + (a.starts ? a.starts[part.row] : size_t(part.row) * a.table_width), a.block_size);
  uint32_t base = part.from / kSteps * kSteps + threadIdx.x / kWarp * kSlice, next = base, stage = 0, next_stage = 0;
  auto load_next = [&] {
    if (next < part.end) load_slice<kDim>(slices + next_stage * kStage, a, part, pages, next);
    commit_copies();
    next += kSteps, next_stage = next_stage + 1 == kStages<kDim> ? 0 : next_stage + 1;
  };
  for (uint32_t i = 0; i + 1 < kStages<kDim>; ++i) load_next();
  for (; base < part.end; base += kSteps) {
    load_next();
    wait_for_copies<kStages<kDim> - 1>();
    __syncwarp();
    const Bf16* keys = slices + stage * kStage;
    float s[2][2] = {};
    mine.score(s, keys);
    mine.template weigh<kExtras>(s, base, part, kExtras && a.cap > 0 ? to_cap(a.scale, a.cap) : a.scale * kLog2E,
                                 a.cap * kLog2E);
    mine.add(s, keys + kSliceSize<kDim>);
    stage = stage + 1 == kStages<kDim> ? 0 : stage + 1;
    __syncwarp();  // before this slice's place is taken
  }
  wait_for_copies<0>();
}

// The group's queries, one row each and zeros behind them; first the row's own key and value go into the cache.
template <uint32_t kDim>
__device__ void load_queries(Bf16* queries, const DecodeAttention& a, const Part& part) {
  constexpr uint32_t kLanes = kTurnedLanes<kDim>, kTeams = kWarp / kLanes;
  const uint32_t lane = threadIdx.x % kWarp, team = lane / kLanes;
  __shared__ Turn<kDim> turn;
  TurnedHead<kDim> turned{a.turn, turn, part.row, lane % kLanes * kTurnedPer};
  if (a.turn.qkv) {
    turn.make(a.turn, part.row);
    __syncthreads();
    if (part.end == part.length) {
      store_own(turned, a.k_cache, a.v_cache, part.kv_head);
      __threadfence();  // its copies are asynchronous
    }
  }
  for (uint32_t g = threadIdx.x / kWarp * kTeams; g < kHeads; g += kWarps<kDim> * kTeams) {
    float q[kTurnedPer] = {};
    const uint32_t head = min(g + team, part.group - 1);
    if (a.turn.qkv)
      turned.get(q, part.first + head, a.turn.q_norm);
    else if (turned.holds())
      load(q, a.q + (part.head + head) * kDim + turned.at);
    if (g + team >= part.group)
      for (float& value : q) value = 0;
    if (turned.holds()) store(queries + (g + team) * kQueryRow<kDim> + turned.at, q);
  }
  __syncthreads();
}

// A part that is not empty.
template <uint32_t kDim, bool kExtras>
__device__ void attend(const DecodeAttention& a, const Part& part) {
  auto* slices = dynamic_shared<Bf16>();
  Bf16* queries = slices + kWarps<kDim> * kStages<kDim> * 2 * kSliceSize<kDim>;
  load_queries<kDim>(queries, a, part);
  Running<kDim> mine;
  mine.hold(queries);
  take_slices<kDim, kExtras>(mine, slices + threadIdx.x / kWarp * (kStages<kDim> * 2 * kSliceSize<kDim>), a, part);
  __syncthreads();
  auto& results = *reinterpret_cast<Results<kDim>*>(slices);
  static_assert(sizeof(Results<kDim>) <= kShared<kDim>);
  mine.put(results);
  __syncthreads();
  results.template merge<kExtras>(a, part);
}

// Whether this block is the last of its row's and heads' to arrive, of `parts`: it sees what the others have written.
__device__ bool comes_last(const DecodeAttention& a, uint32_t parts) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t* arrived = a.arrived + blockIdx.x * gridDim.y + blockIdx.y;
    last = atomicAdd(arrived, 1u) + 1 == parts;
    if (last) *arrived = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

// The parts become one, in order.
template <uint32_t kDim, bool kExtras>
__device__ void merge_parts(const DecodeAttention& a, const Part& part, uint32_t parts) {
  for (uint32_t i = threadIdx.x; i < part.group * kDim; i += kThreads<kDim>) {
    size_t from = (part.head + i / kDim) * a.parts;
    float top = kNone, all = 0, total = 0;
    for (uint32_t p = 0; p < parts; ++p) top = fmaxf(top, __ldcg(a.part_max + from + p));
    for (uint32_t p = 0; p < parts; ++p) {
      float highest = __ldcg(a.part_max + from + p);
      if (highest == kNone) continue;  // wholly before the window
      float factor = exp2f(highest - top);
      all += factor * __ldcg(a.part_out + (from + p) * kDim + i % kDim);
      total += factor * __ldcg(a.part_sum + from + p);
    }
    a.out[part.head * kDim + i] = finished(all, total + (kExtras ? sink_weight(a.sinks, part.first + i / kDim, top) : 0));
  }
}

template <uint32_t kDim, bool kExtras>
__global__ void __launch_bounds__(kThreads<kDim>) decode_kernel(DecodeAttention a) {
  await_inputs();
  const Part part(a);
  if (part.index * kPartition >= part.length) {  // the merge does not look at it; a row without positions has zeros
    for (uint32_t i = threadIdx.x; part.index == 0 && i < part.group * kDim; i += kThreads<kDim>)
      a.out[part.head * kDim + i] = 0;
    return;
  }
  if (part.from < part.end)
    attend<kDim, kExtras>(a, part);
  else if (threadIdx.x < part.group)  // wholly before the window
    a.part_max[(part.head + threadIdx.x) * a.parts + part.index] = kNone;
  if (a.parts == 1) return;  // a single part is the whole
  const uint32_t parts = min((part.length + kPartition - 1) / kPartition, a.parts);
  if (comes_last(a, parts)) merge_parts<kDim, kExtras>(a, part, parts);
}

template <uint32_t kDim>
Code start(const Launch& launch, const DecodeAttention& a) {
  const dim3 grid(a.rows, a.kv_heads * head_blocks(a.heads, a.kv_heads), a.parts);
  auto kernel = a.cap > 0 || a.sinks ? decode_kernel<kDim, true> : decode_kernel<kDim, false>;
  return run(launch, kernel, grid, kThreads<kDim>, kShared<kDim>, a);
}

// Lanes hold eight dimensions, which turn against eight others.
bool can_turn(const RopeStore& turn, uint32_t dim) {
  return turn.dim == dim && !turn.q_norm == !turn.k_norm && turn.pairs % kTurnedPer == 0 && 2 * turn.pairs <= dim;
}

}  // namespace

Code decode_attention(const Launch& launch, const DecodeAttention& a) {
  if (a.kv_heads == 0 || a.heads == 0 || a.heads % a.kv_heads || a.heads > 65535 || a.block_size == 0 || a.parts == 0 ||
      a.parts > 65535 || (a.parts > 1 && !a.arrived) || (a.turn.qkv && !can_turn(a.turn, a.dim)))
    return kBadShape;
  if (a.rows == 0) return 0;
  return a.dim == 64    ? start<64>(launch, a)
         : a.dim == 96  ? start<96>(launch, a)
         : a.dim == 128 ? start<128>(launch, a)
         : a.dim == 256 ? start<256>(launch, a)
                        : Code(kBadShape);
}

Code load_decode(int32_t device) {
  return load_kernels(device, decode_kernel<64, false>, decode_kernel<96, false>, decode_kernel<128, false>,
                      decode_kernel<256, false>, decode_kernel<64, true>, decode_kernel<96, true>,
                      decode_kernel<128, true>, decode_kernel<256, true>);
}

}  // namespace weir::llm::cuda
