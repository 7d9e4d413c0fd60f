// Decode attention over paged keys and values on tensor cores, split along the sequence.
//
// A block takes one row, one key head with the query heads that share it, and one part of kPartition positions, so that
// every key and value is read once. The heads are the rows of the products, of which a tensor core has sixteen and we
// eight at most; that half of its work is idle costs nothing beside the memory. Of a key head that more than eight
// share several blocks take eight each: they run side by side, so that the second finds the keys in the cache. A warp
// takes every so many-th slice of 16 positions by itself: its next slices are on their way into shared memory while it
// uses one, and no warp waits for another before the end. Parts and slices begin at fixed multiples of positions
// whatever the batch is, and parts are merged in order by the block that comes last: a row's result is the same alone
// and in any batch. Scores are in units of log 2; weights are rounded to bfloat16, as those of prefill.cu are.
//
// nvcc 13.0 for sm_90a takes 88, 122, 130 and 252 registers for kDim 64, 96, 128 and 256, and spills none; with 49,
// 50, 66 and 68 KiB of shared memory that is 4, 4, 3 and 3 blocks per multiprocessor of an H100, with 96 KiB and more
// of keys and values on their way, several times what its share of the memory's bandwidth needs. Of codes it takes 92,
// 138, 168 and 214 registers, which with 45, 40, 53 and 54 KiB is 4, 3, 3 and 4 blocks.
#include "engines/llm/cuda/decode.cuh"
#include "engines/llm/cuda/turned.cuh"

namespace weir::llm::cuda {
namespace {

// A slice of keys and values, from position `base` on, is put on its way. Positions that are not attended to become
// zeros: their memory may hold anything.
template <uint32_t kDim, KvCodes kCodes>
__device__ void load_slice(Bf16* to, const DecodeAttention& a, const Part& part, const Pages& pages, uint32_t base) {
  constexpr uint32_t kRow = kCacheRow<kDim, kCodes>, kChunks = kRow / 8, kSize = kSliceSize<kDim, kCodes>;
  const uint32_t lane = threadIdx.x % kWarp, position = base + lane % kSlice;
  const bool mine = position >= part.from && position < part.end;
  const auto slot = uint32_t(pages.slot(mine ? position : part.from));
  const uint32_t seen = __ballot_sync(kAllLanes, mine);
#pragma unroll kDim == 256 ? 1 : 4
  for (uint32_t i = lane; i < kSlice * kChunks; i += kWarp) {
    const uint32_t row = i / kChunks, c = i % kChunks;
    const size_t from = (size_t(__shfl_sync(kAllLanes, slot, int(row))) * a.kv_heads + part.kv_head) * kRow + c * 8;
    const Take take = seen >> row & 1 ? Take::kAll : Take::kNot;
    copy_async(to + at<kDim, kCodes>(row, c), a.k_cache + from, take);
    copy_async(to + kSize + at<kDim, kCodes>(row, c), a.v_cache + from, take);
  }
  if constexpr (kCodes != KvCodes::kNone) {
    auto* scales = reinterpret_cast<float(*)[2]>(to + 2 * kSize);
    if (lane < kSlice)
      copy_async(scales[lane], a.scales + (size_t(slot) * a.kv_heads + part.kv_head) * 2,
                 mine ? Take::kAll : Take::kNot);
  }
}

// The positions of a part that a warp takes; `slices`: its kStages places in shared memory.
template <uint32_t kDim, bool kExtras, KvCodes kCodes>
__device__ void take_slices(Running<kDim, kCodes>& mine, Bf16* slices, const DecodeAttention& a, const Part& part) {
  constexpr uint32_t kSteps = kSlice * kWarps<kDim>, kSize = kStage<kDim, kCodes>, kPlaces = kStages<kDim, kCodes>;
  Pages pages(a.tables + (a.starts ? a.starts[part.row] : size_t(part.row) * a.table_width), a.block_size);
  uint32_t base = part.from / kSteps * kSteps + threadIdx.x / kWarp * kSlice, next = base, stage = 0, next_stage = 0;
  auto load_next = [&] {
    if (next < part.end) load_slice<kDim, kCodes>(slices + next_stage * kSize, a, part, pages, next);
    commit_copies();
    next += kSteps, next_stage = next_stage + 1 == kPlaces ? 0 : next_stage + 1;
  };
  for (uint32_t i = 0; i + 1 < kPlaces; ++i) load_next();
  for (; base < part.end; base += kSteps) {
    load_next();
    wait_for_copies<kPlaces - 1>();
    __syncwarp();
    const Bf16* keys = slices + stage * kSize;
    float s[2][2] = {};
    mine.score(s, keys);
    mine.template weigh<kExtras>(s, base, part, kExtras && a.cap > 0 ? to_cap(a.scale, a.cap) : a.scale * kLog2E,
                                 a.cap * kLog2E);
    mine.add(s, keys);
    stage = stage + 1 == kPlaces ? 0 : stage + 1;
    __syncwarp();  // before this slice's place is taken
  }
  wait_for_copies<0>();
}

// The group's queries, one row each and zeros behind them; first the row's own key and value go into the cache.
template <uint32_t kDim, KvCodes kCodes>
__device__ void load_queries(Bf16* queries, const DecodeAttention& a, const Part& part) {
  constexpr uint32_t kLanes = kTurnedLanes<kDim>, kTeams = kWarp / kLanes;
  const uint32_t lane = threadIdx.x % kWarp, team = lane / kLanes;
  __shared__ Turn<kDim> turn;
  TurnedHead<kDim> turned{a.turn, turn, part.row, lane % kLanes * kTurnedPer};
  if (a.turn.qkv) {
    turn.make(a.turn, part.row);
    __syncthreads();
    if (part.end == part.length) {
      store_own<kDim, kCodes>(turned, a, part.kv_head);
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
template <uint32_t kDim, bool kExtras, KvCodes kCodes>
__device__ void attend(const DecodeAttention& a, const Part& part) {
  constexpr uint32_t kOfWarp = kStages<kDim, kCodes> * kStage<kDim, kCodes>;
  auto* slices = dynamic_shared<Bf16>();
  Bf16* queries = slices + kWarps<kDim> * kOfWarp;
  load_queries<kDim, kCodes>(queries, a, part);
  Running<kDim, kCodes> mine;
  mine.hold(queries);
  take_slices<kDim, kExtras>(mine, slices + threadIdx.x / kWarp * kOfWarp, a, part);
  __syncthreads();
  auto& results = *reinterpret_cast<Results<kDim>*>(slices);
  static_assert(sizeof(Results<kDim>) <= kShared<kDim, kCodes>);
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
    a.out[part.head * kDim + i] =
        finished(all, total + (kExtras ? sink_weight(a.sinks, part.first + i / kDim, top) : 0));
  }
}

// Left to itself nvcc takes 96 registers of codes with 64 dimensions for sm_100, and spills.
template <uint32_t kDim, bool kExtras, KvCodes kCodes>
__global__ void __launch_bounds__(kThreads<kDim>, kDim == 64 && kCodes != KvCodes::kNone ? 4 : 0)
    decode_kernel(DecodeAttention a) {
  await_inputs();
  const Part part(a);
  if (part.index * kPartition >= part.length) {  // the merge does not look at it; a row without positions has zeros
    for (uint32_t i = threadIdx.x; part.index == 0 && i < part.group * kDim; i += kThreads<kDim>)
      a.out[part.head * kDim + i] = 0;
    return;
  }
  if (part.from < part.end)
    attend<kDim, kExtras, kCodes>(a, part);
  else if (threadIdx.x < part.group)  // wholly before the window
    a.part_max[(part.head + threadIdx.x) * a.parts + part.index] = kNone;
  if (a.parts == 1) return;  // a single part is the whole
  const uint32_t parts = min((part.length + kPartition - 1) / kPartition, a.parts);
  if (comes_last(a, parts)) merge_parts<kDim, kExtras>(a, part, parts);
}

template <uint32_t kDim, KvCodes kCodes>
Code start_as(const Launch& launch, const DecodeAttention& a) {
  const dim3 grid(a.rows, a.kv_heads * head_blocks(a.heads, a.kv_heads), a.parts);
  auto kernel = a.cap > 0 || a.sinks ? decode_kernel<kDim, true, kCodes> : decode_kernel<kDim, false, kCodes>;
  return run(launch, kernel, grid, kThreads<kDim>, kShared<kDim, kCodes>, a);
}
template <uint32_t kDim>
Code start(const Launch& launch, const DecodeAttention& a) {
  return a.codes == KvCodes::kNone   ? start_as<kDim, KvCodes::kNone>(launch, a)
         : a.codes == KvCodes::kInt8 ? start_as<kDim, KvCodes::kInt8>(launch, a)
                                     : start_as<kDim, KvCodes::kFp8>(launch, a);
}

template <bool kExtras, KvCodes kCodes>
Code load_all(int32_t device) {
  return load_kernels(device, decode_kernel<64, kExtras, kCodes>, decode_kernel<96, kExtras, kCodes>,
                      decode_kernel<128, kExtras, kCodes>, decode_kernel<256, kExtras, kCodes>);
}
template <KvCodes kCodes>
Code load_both(int32_t device) {
  const Code code = load_all<false, kCodes>(device);
  return code ? code : load_all<true, kCodes>(device);
}

// Lanes hold eight dimensions, which turn against eight others.
bool can_turn(const RopeStore& turn, uint32_t dim) {
  return turn.dim == dim && !turn.q_norm == !turn.k_norm && turn.pairs % kTurnedPer == 0 && 2 * turn.pairs <= dim;
}

}  // namespace

Code decode_attention(const Launch& launch, const DecodeAttention& a) {
  if (a.kv_heads == 0 || a.heads == 0 || a.heads % a.kv_heads || a.heads > 65535 || a.block_size == 0 || a.parts == 0 ||
      a.parts > 65535 || (a.parts > 1 && !a.arrived) || (a.turn.qkv && !can_turn(a.turn, a.dim)) ||
      (a.codes != KvCodes::kNone && !a.scales))
    return kBadShape;
  if (a.rows == 0) return 0;
  return a.dim == 64    ? start<64>(launch, a)
         : a.dim == 96  ? start<96>(launch, a)
         : a.dim == 128 ? start<128>(launch, a)
         : a.dim == 256 ? start<256>(launch, a)
                        : Code(kBadShape);
}

Code load_decode(int32_t device) {
  Code code = load_both<KvCodes::kNone>(device);
  if (!code) code = load_both<KvCodes::kInt8>(device);
  return code ? code : load_both<KvCodes::kFp8>(device);
}

}  // namespace weir::llm::cuda
