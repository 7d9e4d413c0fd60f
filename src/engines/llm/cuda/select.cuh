// Which tokens of a row of logits are the likeliest, without sorting. One block per row, of kSelectThreads.
//
// Logits are compared as integers that keep their order (order_of), and masses are 64-bit integers, so that sums do not
// depend on the order in which threads come by. The last token that is kept is found by histograms: first of the
// distance from the highest logit in eighths, which spreads what is likely, then of 8 bits of the order at a time
// within the one eighth, whose tokens are listed the first time so that the row is read twice in all. Shared memory
// adds 32 bits at once, but 64 only in a loop that tries again: masses are added in two pieces that cannot overflow.
// Where many logits are alike the lanes of a warp would wait for each other at one sum: a digit has one for each lane.
#pragma once

#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {

constexpr uint32_t kSelectThreads = 1024, kSelectWarps = kSelectThreads / kWarp, kDigits = 256;
static_assert(kDigits == 8 * kWarp && kSelectWarps <= kWarp);

using Mass = unsigned long long;

// NaN is the lowest; the two zeros are equal.
__device__ inline uint32_t order_of(float value) {
  if (value != value) return 0;
  uint32_t bits = __float_as_uint(value + 0.f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ inline float value_of(uint32_t order) {
  return __uint_as_float(order & 0x80000000u ? order & 0x7fffffffu : ~order);
}

// Which tokens are kept: those above `order`, and of those equal to it the first `equal` by id.
struct Kept {
  uint32_t order = 0;
  uint32_t equal = UINT32_MAX;
};

struct Logits {
  const float* at;
  uint32_t size;
  float highest;

  __device__ uint32_t eighths(float logit) const { return uint32_t(fminf((highest - logit) * 8.f, kDigits - 1.f)); }

  // each(logit, id) by some thread of the block.
  template <class Each>
  __device__ void for_each(Each each) const {
    if (size % 4 == 0) {
#pragma unroll 4
      for (uint32_t i = threadIdx.x * 4; i < size; i += kSelectThreads * 4) {
        float four[4];
        load(four, at + i);
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) each(four[j], i + j);
      }
    } else {
      for (uint32_t i = threadIdx.x; i < size; i += kSelectThreads) each(at[i], i);
    }
  }
};

struct Best {
  uint32_t order, id;
};
__device__ inline Best better(Best a, Best b) {
  return a.order > b.order || (a.order == b.order && a.id < b.id) ? a : b;
}
__device__ inline Best warp_best(Best best) {
  for (uint32_t step = kWarp / 2; step > 0; step /= 2)
    best = better(best, Best{__shfl_xor_sync(kAllLanes, best.order, step), __shfl_xor_sync(kAllLanes, best.id, step)});
  return best;
}

// The likeliest, in every thread.
__device__ inline Best find_best(const Logits& logits) {
  __shared__ Best bests[kSelectWarps];
  Best best{0, UINT32_MAX};
  logits.for_each([&](float logit, uint32_t id) { best = better(best, {order_of(logit), id}); });
  best = warp_best(best);
  if (threadIdx.x % kWarp == 0) bests[threadIdx.x / kWarp] = best;
  __syncthreads();
  return warp_best(bests[threadIdx.x % kSelectWarps]);
}

__device__ inline Mass warp_total(Mass value) {
  for (uint32_t step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}
// Returns the inclusive prefix sum of the lanes' values.
__device__ inline Mass warp_upto(Mass value) {
  uint32_t lane = threadIdx.x % kWarp;
  for (uint32_t step = 1; step < kWarp; step *= 2) {
    Mass other = __shfl_up_sync(kAllLanes, value, step);
    if (lane >= step) value += other;
  }
  return value;
}
// Returns the exclusive prefix sum of the warps' values; the sum of all goes into `total`.
__device__ inline Mass before_me(Mass value, Mass& total) {
  __shared__ Mass values[kSelectWarps];
  uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  __syncthreads();
  if (lane == 0) values[warp] = value;
  __syncthreads();
  Mass upto = warp_upto(lane < kSelectWarps ? values[lane] : 0);
  total = __shfl_sync(kAllLanes, upto, kWarp - 1);
  return __shfl_sync(kAllLanes, upto, warp) - value;
}

// A histogram of masses of at most 2^33 each, of at most 2^20 tokens.
struct Histogram {
  static constexpr uint32_t kPieces = 2, kBits = 17;  // a lane has 2^15 tokens: sums of either piece are below 2^32
  uint32_t sums[kPieces][kDigits][kWarp];
  Mass totals[kDigits];

  // clear(), then barriers around all calls of add(), then total() and another barrier.
  __device__ void clear() {
    for (uint32_t i = threadIdx.x; i < kPieces * kDigits * kWarp; i += kSelectThreads) (&sums[0][0][0])[i] = 0;
  }
  __device__ void add(uint32_t digit, Mass mass) {
    const uint32_t lane = threadIdx.x % kWarp, low = uint32_t(mass) & ((1u << kBits) - 1), high = uint32_t(mass >> kBits);
    if (low) atomicAdd(&sums[0][digit][lane], low);
    if (high) atomicAdd(&sums[1][digit][lane], high);
  }
  __device__ void total() {
    if (threadIdx.x >= kDigits) return;
    Mass low = 0, high = 0;
    for (uint32_t i = 0; i < kWarp; ++i) {  // neighbours begin at other banks
      const uint32_t lane = (threadIdx.x + i) % kWarp;
      low += sums[0][threadIdx.x][lane], high += sums[1][threadIdx.x][lane];
    }
    totals[threadIdx.x] = low + (high << kBits);
  }
};

struct Found {
  uint32_t digit;
  Mass above;  // of all before it
};
// The first digit with which `share` is reached, or the last. One warp.
__device__ inline Found find_digit(const Mass* histogram, Mass above, Mass share) {
  uint32_t lane = threadIdx.x % kWarp;
  Mass mine = 0;
  for (uint32_t i = 0; i < 8; ++i) mine += histogram[lane * 8 + i];
  Mass before = above + warp_upto(mine) - mine;
  uint32_t reached = __ballot_sync(kAllLanes, before + mine >= share);
  uint32_t who = reached ? uint32_t(31 - __clz(int(reached & (0u - reached)))) : kWarp - 1;  // the lowest one
  Found found{lane * 8, before};
  for (; found.digit < lane * 8 + 7 && found.above + histogram[found.digit] < share; ++found.digit)
    found.above += histogram[found.digit];
  return {__shfl_sync(kAllLanes, found.digit, int(who)), __shfl_sync(kAllLanes, found.above, int(who))};
}

// Shared memory of keep_share, one for all of its uses in a kernel: what its launch asks for.
struct SelectRoom {
  static constexpr uint32_t kListed = 4096;
  Histogram histogram;
  Found found;
  Mass share;
  uint32_t count;            // of the tokens of the eighth
  uint32_t orders[kListed];  // theirs, in any order, where they are no more
};

// One pass of keep_share: each(add) adds masses to a histogram, in which the digit of the share is then found, which
// share_of says of the mass of all that was added.
template <class ShareOf, class Each>
__device__ Found pass(SelectRoom& room, Mass above, ShareOf share_of, Each each) {
  room.histogram.clear();
  __syncthreads();
  each();
  __syncthreads();
  room.histogram.total();
  __syncthreads();
  if (threadIdx.x < kWarp) {
    Mass mine = 0;
    for (uint32_t i = threadIdx.x; i < kDigits; i += kWarp) mine += room.histogram.totals[i];
    Found found = find_digit(room.histogram.totals, above, share_of(warp_total(mine)));
    if (threadIdx.x == 0) room.found = found;
  }
  __syncthreads();
  return room.found;
}

// Those above `order`, whose mass is `above`, and of those that are equal to it, and have the same mass each, as many as
// make up the share.
template <class MassOf>
__device__ Kept keep_down_to(uint32_t order, Mass above, Mass share, Kept kept, MassOf mass) {
  Mass each = mass(value_of(order)), equal = each == 0 || above >= share ? 1 : (share - above + each - 1) / each;
  if (order < kept.order) return kept;  // the share is more than there is
  if (order == kept.order && equal > kept.equal) equal = kept.equal;
  return {order, uint32_t(equal > UINT32_MAX ? UINT32_MAX : equal)};
}

// The likeliest tokens, as many as make up a share (a count, or a weight; at least 1) of mass(logit). The mass of what
// is above the last one is less than the share; with it the share is reached. kept: what was kept before this.
// share_of(the mass of all tokens of kept.order and above, those of kept.order beyond kept.equal with them): the share.
template <class ShareOf, class MassOf>
__device__ Kept keep_share(SelectRoom& room, const Logits& logits, Kept kept, ShareOf share_of, MassOf mass) {
  if (threadIdx.x == 0) room.count = 0;
  auto first_share = [&](Mass all) {
    const Mass wanted = share_of(all);
    if (threadIdx.x == 0) room.share = wanted;
    return wanted;
  };
  Found found = pass(room, 0, first_share, [&] {
    logits.for_each([&](float logit, uint32_t) {
      if (order_of(logit) >= kept.order) room.histogram.add(logits.eighths(logit), mass(logit));
    });
  });
  const uint32_t eighth = found.digit;
  const Mass share = room.share;
  uint32_t prefix = 0;
  auto add = [&](uint32_t order, int shift) {
    if (shift == 24 || order >> (shift + 8) == prefix >> (shift + 8))
      room.histogram.add(kDigits - 1 - (order >> shift & (kDigits - 1)), mass(value_of(order)));
  };
  auto same_share = [&](Mass) { return share; };
  for (int shift = 24; shift >= 0; shift -= 8) {
    const uint32_t listed = room.count;
    found = pass(room, found.above, same_share, [&] {
      if (shift < 24 && listed <= SelectRoom::kListed) {
        for (uint32_t i = threadIdx.x; i < listed; i += kSelectThreads) add(room.orders[i], shift);
        return;
      }
      logits.for_each([&](float logit, uint32_t) {
        uint32_t order = order_of(logit);
        if (order < kept.order || logits.eighths(logit) != eighth) return;
        if (shift == 24)
          if (uint32_t at = atomicAdd(&room.count, 1u); at < SelectRoom::kListed) room.orders[at] = order;
        add(order, shift);
      });
    });
    prefix |= (kDigits - 1 - found.digit) << shift;
  }
  return keep_down_to(prefix, found.above, share, kept, mass);
}

// So many of the likeliest tokens.
__device__ inline Kept keep_most(SelectRoom& room, const Logits& logits, Kept kept, uint32_t count) {
  auto share = [&](Mass) { return Mass(count); };
  return keep_share(room, logits, kept, share, [](float) { return Mass(1); });
}

}  // namespace weir::llm::cuda
