// The emulator finds what is wrong with a kernel.
#include "emulator.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "engines/llm/cuda/mma.cuh"
#include "written.h"

namespace weir::llm::cuda {
namespace {

template <class... Params, class... Args>
Code start(void (*kernel)(Params...), dim3 grid, uint32_t threads, size_t shared, Args... args) {
  return run(Launch{}, kernel, grid, threads, shared, args...);
}
bool said(const char* what) { return emulator::failure().find(what) != std::string::npos; }

__global__ void sum_kernel(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t sums[4];
  uint32_t value = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (uint32_t step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(out, sums[0] + sums[1] + sums[2] + sums[3]);
}

__global__ void late_kernel() {}
__global__ void unloaded_kernel() { __syncwarp(); }

TEST(Emulator, LanesWarpsAndBlocksWorkTogether) {
  std::vector<uint32_t> in(3 * 128);
  std::iota(in.begin(), in.end(), 1u);
  uint32_t out = 0;
  EXPECT_EQ(start(sum_kernel, 3, 128, 0, in.data(), &out), 0);
  EXPECT_EQ(out, 384u * 385 / 2);
}

TEST(Emulator, AKernelIsLoadedOnceAndLateUnlessSomebodyLoadedIt) {
  std::vector<uint32_t> in(128);
  uint32_t out = 0;
  const uint32_t before = emulator::late_loads();
  EXPECT_EQ(load_kernels(1, late_kernel, sum_kernel), 0);
  EXPECT_EQ(start(sum_kernel, 1, 128, 0, in.data(), &out), 0);
  EXPECT_EQ(emulator::late_loads(), before);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(start(unloaded_kernel, 1, 32, 0), 0);
  EXPECT_EQ(emulator::late_loads(), before + 1);
  EXPECT_EQ(start(late_kernel, 1, 32, 0), 0);
  EXPECT_EQ(emulator::late_loads(), before + 1);
}

__global__ void waiting_kernel(int all) {
  if (all || threadIdx.x != 5) await_inputs();
}

TEST(Emulator, AThreadThatBeginsEarlyAndEndsWithoutHavingWaitedIsAFailure) {
  constexpr int32_t kDevice = 2;
  auto start_there = [](int all) { return run(Launch{kDevice, nullptr}, waiting_kernel, dim3(2), 32, 0, all); };
  EXPECT_EQ(start_there(0), 0);  // nothing begins early where nobody has seen that the device can
  EXPECT_EQ(load_kernels(kDevice, waiting_kernel), 0);
  EXPECT_EQ(start_there(1), 0);
  EXPECT_NE(start_there(0), 0);
  EXPECT_TRUE(said("thread 5 ends without having waited")) << emulator::failure();
}

// A buffer of the device, which is watched; `from` is in one, too.
struct DeviceWords {
  explicit DeviceWords(uint32_t value) { *words = value; }
  ~DeviceWords() { emulator::drop_guarded(reinterpret_cast<std::byte*>(words)); }
  uint32_t* words = reinterpret_cast<uint32_t*>(emulator::guarded(sizeof(uint32_t)));
};

__global__ void hasty_kernel(const uint32_t* from, uint32_t* to, uint32_t* ends) {
  uint32_t value = *from;
  await_inputs();
  if (threadIdx.x == 0) *to = value + *ends, *ends = 1;
}

TEST(EmulatorDeathTest, WhatAKernelHasWrittenIsReadAfterTheWait) {
  if (!emulator::kFindsFaults) GTEST_SKIP() << "AddressSanitizer wants the faults for itself";
  constexpr int32_t kDevice = 3;
  DeviceWords weight(40), made(0), ends(2);
  auto start_there = [](auto... words) {
    return run(Launch{kDevice, nullptr}, hasty_kernel, dim3(2), 32, 0, words...);
  };
  EXPECT_EQ(load_kernels(kDevice, hasty_kernel), 0);
  EXPECT_EQ(start_there(weight.words, made.words, ends.words), 0);
  EXPECT_EQ(*made.words, 41u);  // the second block's
  EXPECT_DEATH(start_there(made.words, weight.words, ends.words), "before it has waited for its inputs");
  *weight.words = 7;  // the host may, and so may a kernel that waits
  EXPECT_EQ(start_there(weight.words, made.words, ends.words), 0);
  EXPECT_EQ(*made.words, 8u);
}

__global__ void sociable_kernel() {
  __syncthreads();
  await_inputs();
}

TEST(Emulator, AKernelThatWaitsForOthersBeforeItsInputsIsAFailure) {
  constexpr int32_t kDevice = 4;
  EXPECT_EQ(load_kernels(kDevice, sociable_kernel), 0);
  EXPECT_NE(run(Launch{kDevice, nullptr}, sociable_kernel, dim3(2), 64, 0), 0);
  EXPECT_TRUE(said("waits for others before its inputs")) << emulator::failure();
}

__global__ void votes_kernel(uint32_t* out) {
  uint32_t lane = threadIdx.x;
  uint32_t all = __ballot_sync(kAllLanes, lane % 3 == 0);
  uint32_t below = __shfl_up_sync(kAllLanes, lane, 1), last = __shfl_sync(kAllLanes, lane, 31);
  uint32_t most = __reduce_max_sync(kAllLanes, lane * 7 % 32);
  out[lane] = all == 0x49249249u && below == (lane ? lane - 1 : 0) && last == 31 && most == 31;
}

TEST(Emulator, VotesAndShufflesAreThoseOfAWarp) {
  std::vector<uint32_t> out(32);
  EXPECT_EQ(start(votes_kernel, 1, 32, 0, out.data()), 0);
  EXPECT_EQ(out, std::vector<uint32_t>(32, 1));
}

__global__ void forgotten_barrier_kernel(uint32_t* out) {
  __shared__ uint32_t value[2];
  if (threadIdx.x % 32 == 0) value[threadIdx.x / 32] = blockIdx.x + 1;
  out[blockIdx.x * 64 + threadIdx.x] = value[1 - threadIdx.x / 32];
}

TEST(Emulator, AForgottenBarrierGivesOtherResultsSoonerOrLater) {
  std::vector<uint32_t> out(64 * 64);
  EXPECT_EQ(start(forgotten_barrier_kernel, 64, 64, 0, out.data()), 0);
  uint32_t wrong = 0;
  for (size_t i = 0; i < out.size(); ++i) wrong += out[i] != i / 64 + 1;
  EXPECT_GT(wrong, 0u);
}

__global__ void divergent_kernel(int how) {
  if (how == 0 && threadIdx.x == 5) return;
  if (how == 1 && threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void lost_lane_kernel() {
  if (threadIdx.x == 7) return;
  __syncwarp();
}
__global__ void two_meetings_kernel(uint32_t* out) {
  if (threadIdx.x < 16)
    out[0] = __ballot_sync(kAllLanes, 1);
  else
    out[1] = __ballot_sync(kAllLanes, 1);
}

TEST(Emulator, BarriersAndMeetingsThatSomeMissAreFailures) {
  EXPECT_EQ(start(divergent_kernel, 1, 64, 0, 2), 0);
  EXPECT_NE(start(divergent_kernel, 1, 64, 0, 0), 0);
  EXPECT_TRUE(said("have ended")) << emulator::failure();
  EXPECT_NE(start(divergent_kernel, 1, 64, 0, 1), 0);
  EXPECT_TRUE(said("barriers of")) << emulator::failure();
  EXPECT_NE(start(lost_lane_kernel, 1, 32, 0), 0);
  EXPECT_TRUE(said("for lanes that have ended")) << emulator::failure();
  uint32_t out[2];
  EXPECT_NE(start(two_meetings_kernel, 1, 32, 0, out), 0);
  EXPECT_TRUE(said("other lanes wait at")) << emulator::failure();
  EXPECT_EQ(start(divergent_kernel, 1, 64, 0, 2), 0);  // and all is well again
}

__global__ void shared_kernel(float* out, uint32_t at) {
  auto* all = dynamic_shared<float>();
  if (threadIdx.x == 0) all[at] = 1;
  __syncthreads();
  if (threadIdx.x == 1) *out = all[0];
}

TEST(Emulator, SharedMemoryIsNanAtFirstAndEndsWhereItEnds) {
  float out = 0;
  EXPECT_EQ(start(shared_kernel, 1, 32, 64, &out, 0u), 0);
  EXPECT_EQ(out, 1);
  EXPECT_EQ(start(shared_kernel, 1, 32, 64, &out, 15u), 0);
  EXPECT_TRUE(std::isnan(out));
  EXPECT_DEATH(start(shared_kernel, 1, 32, 64, &out, 16u), "beyond a buffer|SEGV");
}

TEST(Emulator, ShapesThatNoDeviceTakesAreRefused) {
  EXPECT_NE(start(lost_lane_kernel, 1, 1025, 0), 0);
  EXPECT_NE(start(lost_lane_kernel, dim3(1, 65536), 32, 0), 0);
  EXPECT_NE(start(lost_lane_kernel, dim3(0), 32, 0), 0);
  float out = 0;
  EXPECT_EQ(start(shared_kernel, 1, 32, (48 << 10) + 16, &out, 0u), 0);  // run() asks for more than the default
  EXPECT_NE(start(shared_kernel, 1, 32, (99 << 10) + 16, &out, 0u), 0);
}

// d = a b^T with a [16][16], b [8][16], all in memory.
__global__ void product_kernel(const float* a, const float* b, float* d) {
  uint32_t g = threadIdx.x / 4, t = threadIdx.x % 4 * 2;
  auto pair = [](const float* at) { return narrow2(at[0], at[1]); };
  const uint32_t left[4] = {pair(a + g * 16 + t), pair(a + (g + 8) * 16 + t), pair(a + g * 16 + t + 8),
                            pair(a + (g + 8) * 16 + t + 8)};
  float out[4] = {};
  mma(out, left, pair(b + g * 16 + t), pair(b + g * 16 + t + 8));
  d[g * 8 + t] = out[0], d[g * 8 + t + 1] = out[1], d[(g + 8) * 8 + t] = out[2], d[(g + 8) * 8 + t + 1] = out[3];
}

TEST(Emulator, TensorCoresMultiply) {
  std::vector<float> a(256), b(128), d(128);
  for (size_t i = 0; i < a.size(); ++i) a[i] = float(int(i * 37 % 64) - 32);
  for (size_t i = 0; i < b.size(); ++i) b[i] = float(int(i * 29 % 32) - 16);
  EXPECT_EQ(start(product_kernel, 1, 32, 0, a.data(), b.data(), d.data()), 0);
  for (size_t row = 0; row < 16; ++row)
    for (size_t column = 0; column < 8; ++column) {
      float sum = 0;
      for (size_t k = 0; k < 16; ++k) sum += a[row * 16 + k] * b[column * 16 + k];
      ASSERT_EQ(d[row * 8 + column], sum) << row << ' ' << column;
    }
}

__global__ void matrices_kernel(const Bf16* in, uint32_t* out, int turned, int early) {
  auto* tile = dynamic_shared<Bf16>();
  copy_async(tile + threadIdx.x * 8, in + threadIdx.x * 8, Take::kAll);
  commit_copies();
  if (!early) wait_for_copies<0>();
  __syncthreads();
  uint32_t words[4];
  turned ? load_transposed(words, tile + threadIdx.x * 8) : load_matrices(words, tile + threadIdx.x * 8);
  for (uint32_t m = 0; m < 4; ++m) out[m * 32 + threadIdx.x] = words[m];
  if (early) wait_for_copies<0>();
}

TEST(Emulator, MatricesAreLoadedAfterTheirCopiesAreWaitedFor) {
  std::vector<Bf16> in(4 * 64);
  std::iota(in.begin(), in.end(), Bf16(0));
  std::vector<uint32_t> out(128);
  EXPECT_EQ(start(matrices_kernel, 1, 32, 512, in.data(), out.data(), 0, 0), 0);
  for (uint32_t i = 0; i < 128; ++i) ASSERT_EQ(out[i], (2 * i) | (2 * i + 1) << 16) << i;
  EXPECT_EQ(start(matrices_kernel, 1, 32, 512, in.data(), out.data(), 1, 0), 0);
  for (uint32_t i = 0; i < 128; ++i) {
    uint32_t row = i / 32 * 8 + i % 4 * 2, column = i % 32 / 4;
    ASSERT_EQ(out[i], (row * 8 + column) | (row * 8 + 8 + column) << 16) << i;
  }
  EXPECT_EQ(start(matrices_kernel, 1, 32, 512, in.data(), out.data(), 0, 1), 0);
  EXPECT_EQ(out[0], 0xffffffffu);
}

__global__ void forgotten_copies_kernel(const Bf16* in) {
  copy_async(dynamic_shared<Bf16>(), in, Take::kAll);
  commit_copies();
}

TEST(Emulator, CopiesThatNobodyWaitsForAreFailures) {
  alignas(16) Bf16 in[8] = {};
  EXPECT_NE(start(forgotten_copies_kernel, 1, 1, 16, static_cast<const Bf16*>(in)), 0);
  EXPECT_TRUE(said("nobody waits for")) << emulator::failure();
}

}  // namespace
}  // namespace weir::llm::cuda
