// Logits changed before a draw, and logprobs of them, without a copy of the vocabulary to the host.
#include "engines/llm/cuda/select.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kThreads = 256, kCapThreads = 256;
constexpr uint32_t kSlice = 8192;  // ids of a row that a block of adjust_kernel copies and changes

__device__ float changed(float logit, const Change& change, const AdjustRow& row) {
  logit += change.bias;
  if (change.flags & Change::kWasThere) logit = logit > 0 ? logit / row.repetition : logit * row.repetition;
  if (change.generated > 0) logit -= row.presence + row.frequency * float(change.generated);
  return change.flags & Change::kNever ? -INFINITY : logit;
}

__global__ void __launch_bounds__(kThreads) adjust_kernel(Adjust a) {
  await_inputs();
  __shared__ uint32_t named;  // the last token is in the changes
  AdjustRow row = a.rows[blockIdx.x];
  uint32_t last = row.last == kNoIndex ? kNoToken : a.sampled[row.last];
  if (threadIdx.x == 0) named = 0;
  const float* from = a.logits + size_t(row.row) * a.vocabulary;
  float* to = a.adjusted + size_t(blockIdx.x) * a.vocabulary;
  uint32_t begin = blockIdx.y * kSlice, end = min(begin + kSlice, a.vocabulary);
  const uint32_t* mask = row.mask == kNoIndex ? nullptr : a.masks + row.mask;
  auto word_of = [mask](uint32_t id) { return mask ? mask[id / 32] : UINT32_MAX; };
  if (a.vocabulary % 4 == 0) {
    for (uint32_t i = begin + threadIdx.x * 4; i < end; i += kThreads * 4) {
      float four[4];
      load(four, from + i);
      const uint32_t bits = word_of(i) >> i % 32;  // of all four
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) four[j] = bits >> j & 1 ? four[j] : -INFINITY;
      store(to + i, four);
    }
  } else {
    for (uint32_t i = begin + threadIdx.x; i < end; i += kThreads)
      to[i] = word_of(i) >> i % 32 & 1 ? from[i] : -INFINITY;
  }
  __syncthreads();
  for (uint32_t c = row.first + threadIdx.x; c < row.first + row.count; c += kThreads) {
    Change change = a.changes[c];
    if (change.id == last) named = 1, ++change.generated, change.flags |= Change::kWasThere;
    if (change.id >= begin && change.id < end) to[change.id] = changed(to[change.id], change, row);
  }
  __syncthreads();
  if (threadIdx.x == 0 && !named && last >= begin && last < end)
    to[last] = changed(to[last], {last, 1, 0.f, Change::kWasThere}, row);
}

// The tokens that are kept, in no order.
struct List {
  Best entries[kMostTop];
  uint32_t count;

  __device__ void push(Best entry) {
    uint32_t at = atomicAdd(&count, 1u);
    if (at < kMostTop) entries[at] = entry;
  }
};

// Among equal tokens the first by id wins: so each warp goes over its part of the row in order.
__device__ void collect(const Logits& logits, Kept kept, List& list) {
  uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  uint32_t each = (logits.size + kSelectWarps - 1) / kSelectWarps;
  uint32_t from = min(warp * each, logits.size), to = min(from + each, logits.size);
  Mass equals = 0, all = 0;
#pragma unroll 4
  for (uint32_t id = from + lane; id < to; id += kWarp) equals += order_of(logits.at[id]) == kept.order;
  Mass rank = before_me(warp_total(equals), all);
#pragma unroll 4
  for (uint32_t base = from; base < to; base += kWarp) {
    uint32_t id = base + lane, order = id < to ? order_of(logits.at[id]) : 0;
    bool equal = id < to && order == kept.order;
    uint32_t votes = __ballot_sync(kAllLanes, equal);
    bool early = rank + Mass(__popc(votes & ((1u << lane) - 1))) < kept.equal;
    if (id < to && (order > kept.order || (equal && early))) list.push({order, id});
    rank += Mass(__popc(votes));
  }
}

__global__ void __launch_bounds__(kSelectThreads, 1) logprobs_kernel(Logprobs a) {
  auto& room = *dynamic_shared<SelectRoom>();
  await_inputs();
  __shared__ List list;
  LogprobRow wanted = a.rows[blockIdx.x];
  Logits logits{a.logits + size_t(wanted.row) * a.vocabulary, a.vocabulary, 0};
  Best best = find_best(logits);
  logits.highest = value_of(best.order);
  float sum = 0;
  logits.for_each([&](float logit, uint32_t) { sum += expf(logit - logits.highest); });
  float log_sum = logf(block_sum(sum));
  if (threadIdx.x == 0) {
    uint32_t id = a.ids[wanted.id];
    a.logprobs[blockIdx.x] = id < a.vocabulary ? logits.at[id] - logits.highest - log_sum : -INFINITY;
    list.count = 0;
  }
  __syncthreads();
  uint32_t top = min(wanted.top, a.most);
  if (top > 0) {
    const Kept numbers{1, UINT32_MAX};  // NaN is 0
    collect(logits, keep_most(room, logits, numbers, top), list);
  }
  __syncthreads();
  uint32_t found = min(min(list.count, top), kMostTop);
  uint32_t* ids = a.best_ids + size_t(blockIdx.x) * a.most;
  float* logprobs = a.best + size_t(blockIdx.x) * a.most;
  for (uint32_t i = threadIdx.x; i < a.most; i += kSelectThreads) {
    if (i >= found) {
      ids[i] = kNoToken, logprobs[i] = -INFINITY;
      continue;
    }
    Best mine = list.entries[i];
    uint32_t place = 0;
    for (uint32_t j = 0; j < found; ++j) {
      Best other = list.entries[j];
      place += other.order > mine.order || (other.order == mine.order && other.id < mine.id);
    }
    ids[place] = mine.id, logprobs[place] = value_of(mine.order) - logits.highest - log_sum;
  }
}

__global__ void __launch_bounds__(kCapThreads) soft_cap_kernel(SoftCap a) {
  await_inputs();
  const uint32_t i = blockIdx.y * kCapThreads + threadIdx.x;
  if (i >= a.width) return;
  float& logit = a.rows[size_t(blockIdx.x) * a.width + i];
  logit = a.cap * tanhf(logit / a.cap);
}

}  // namespace

Code soft_cap(const Launch& launch, const SoftCap& a) {
  const uint32_t blocks = (a.width + kCapThreads - 1) / kCapThreads;
  if (!(a.cap > 0) || blocks > 65535) return kBadShape;
  if (a.count == 0 || a.width == 0) return 0;
  return run(launch, soft_cap_kernel, dim3(a.count, blocks), kCapThreads, 0, a);
}

Code adjust(const Launch& launch, const Adjust& a) {
  if (a.vocabulary == 0 || a.vocabulary >= 1u << 20) return kBadShape;
  if (a.count == 0) return 0;
  return run(launch, adjust_kernel, dim3(a.count, (a.vocabulary + kSlice - 1) / kSlice), kThreads, 0, a);
}

Code logprobs(const Launch& launch, const Logprobs& a) {
  if (a.vocabulary == 0 || a.vocabulary >= 1u << 20 || a.most > kMostTop) return kBadShape;
  if (a.count == 0) return 0;
  return run(launch, logprobs_kernel, a.count, kSelectThreads, sizeof(SelectRoom), a);
}

Code load_logits(int32_t device) { return load_kernels(device, adjust_kernel, logprobs_kernel, soft_cap_kernel); }

}  // namespace weir::llm::cuda
