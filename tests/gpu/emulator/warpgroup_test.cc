// Hopper's products of warpgroups and its barriers: the emulator, and the descriptors of wgmma.cuh, against the
// formulas of the PTX ISA ("Register fragments and shared memory matrix layouts" of wgmma, "mbarrier").
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "emulator.h"
#include "engines/llm/cuda/wgmma.cuh"

namespace weir::llm::cuda {
namespace {

bool failed_with(const char* what) { return emulator::failure().find(what) != std::string::npos; }

template <class... Params, class... Args>
Code start_group(void (*kernel)(Params...), uint32_t threads, size_t shared, Args... args) {
  return run(Launch{}, kernel, dim3(1), threads, shared, args...);
}

// Canonical layouts in elements, T = 8 of 2 bytes: K-major ((8,m),(T,2k)) : ((8T,SBO),(1,T)), MN-major ((T,8,m),(8,k))
// :
// ((1,T,LBO),(8T,SBO)); then Swizzle<3,4,3> of bytes. SBO is 64 T, the next eight rows.
size_t swizzled_bytes(size_t at) { return at ^ ((at & 0x380) >> 3); }
size_t k_major(size_t n, size_t k, size_t stride) { return n % 8 * 64 + n / 8 * stride + k % 8 + k / 8 * 8; }
size_t mn_major(size_t n, size_t k, size_t leading, size_t stride) {
  return n % 8 + n / 8 % 8 * 8 + n / 64 * leading + k % 8 * 64 + k / 8 * stride;
}
constexpr size_t kStride = 512;  // elements

float left_of(uint32_t row, uint32_t k) { return float(int((row * 7 + k * 3) % 9) - 4); }
float right_of(uint32_t k, uint32_t column) { return float(int((k * 5 + column * 11) % 13) - 6); }

// The ISA's formulas of fragments, of thread t of a warpgroup.
struct GroupPlace {
  uint32_t row, column;
};
GroupPlace place_of_left(uint32_t t, uint32_t i) {
  const uint32_t lane = t % 32;
  const bool upper = i < 2 || (4 <= i && i < 6);
  return {t / 32 * 16 + lane / 4 + (upper ? 0 : 8), lane % 4 * 2 + (i & 1) + (i < 4 ? 0 : 8)};
}
GroupPlace place_of_result(uint32_t t, uint32_t i) {
  const uint32_t lane = t % 32;
  return {t / 32 * 16 + lane / 4 + (i % 4 < 2 ? 0 : 8), i / 4 * 8 + lane % 4 * 2 + (i & 1)};
}

template <class T>
__device__ T* aligned_shared() {
  auto* bytes = dynamic_shared<unsigned char>();
  return reinterpret_cast<T*>(bytes + (0 - shared_address(bytes)) % kPatternBytes);
}

// Left out of the ways to bring an image into shared memory.
enum Without : uint32_t { kNothing, kFence, kWait };
__device__ void bring(Bf16* to, const Bf16* image, uint32_t count, Without without) {
  for (uint32_t i = threadIdx.x * 8; i < count; i += kWarpgroup * 8) copy_async(to + i, image + i, Take::kAll);
  commit_copies();
  if (without != kWait) wait_for_copies<0>();
  if (without != kFence) fence_copies();
  __syncthreads();
}

constexpr uint32_t kDepth = 128, kLeft = 64 * kDepth, kRight = 128 * kDepth;

__global__ void scores_kernel(const Bf16* image, float* d, Without without) {
  auto* shared = aligned_shared<Bf16>();
  bring(shared, image, kLeft + kRight, without);
  float s[16][4] = {};
  fence_products();
  for (uint32_t step = 0; step < kDepth / 16; ++step)
    multiply(s, Matrix::rows<64>(shared_address(shared), step), Matrix::rows<128>(shared_address(shared + kLeft), step),
             step ? Sum::kOn : Sum::kAnew);
  commit_products();
  wait_for_products<0>(s);
  for (uint32_t i = 0; i < 64; ++i) d[threadIdx.x * 64 + i] = s[i / 4][i % 4];
  if (without == kWait) wait_for_copies<0>();
}
constexpr size_t kScoresShared = kPatternBytes + (kLeft + kRight) * sizeof(Bf16);

// Panels of 64 columns, one after the other.
std::vector<Bf16> scores_image() {
  std::vector<Bf16> image(kLeft + kRight);
  auto put = [&](size_t first, uint32_t rows, auto value) {
    for (uint32_t n = 0; n < rows; ++n)
      for (uint32_t k = 0; k < kDepth; ++k)
        image[first + k / 64 * rows * 64 + swizzled_bytes(2 * k_major(n, k % 64, kStride)) / 2] = narrow(value(n, k));
  };
  put(0, 64, left_of);
  put(kLeft, 128, [](uint32_t n, uint32_t k) { return right_of(k, n); });
  return image;
}

TEST(Warpgroup, ProductsOfRowsAreWhereThePtxIsaSays) {
  const auto image = scores_image();
  std::vector<float> d(128 * 64);
  ASSERT_EQ(start_group(scores_kernel, 128, kScoresShared, image.data(), d.data(), kNothing), 0) << emulator::failure();
  for (uint32_t t = 0; t < 128; ++t)
    for (uint32_t i = 0; i < 64; ++i) {
      const auto [row, column] = place_of_result(t, i);
      float sum = 0;
      for (uint32_t k = 0; k < kDepth; ++k) sum += left_of(row, k) * right_of(k, column);
      ASSERT_EQ(d[t * 64 + i], sum) << t << ' ' << i;
    }
}

TEST(Warpgroup, PiecesOfAMatrixAreCopiedToWhereThePtxIsaSays) {
  for (uint32_t row = 0; row < 128; ++row)
    for (uint32_t column = 0; column < 128; column += 8) {
      const size_t panel = column / 64 * 128 * 64;
      EXPECT_EQ(in_panels<128>(row, column / 8), panel + swizzled_bytes(2 * k_major(row, column % 64, kStride)) / 2);
      EXPECT_EQ(in_panels<128>(row, column / 8), swizzled_bytes(2 * mn_major(column, row, 128 * 64, kStride)) / 2);
    }
}

template <uint32_t kDim>
__global__ void values_kernel(const Bf16* image, const uint32_t* a, float* d) {
  auto* shared = aligned_shared<Bf16>();
  bring(shared, image, kDepth * kDim, kNothing);
  float out[kDim / 8][4] = {};
  uint32_t weights[kDepth / 16][4];
  for (uint32_t i = 0; i < kDepth / 4; ++i) weights[i / 4][i % 4] = a[(i / 4 * 128 + threadIdx.x) * 4 + i % 4];
  fence_products();
  for (uint32_t step = 0; step < kDepth / 16; ++step)
    multiply(out, weights[step], Matrix::columns<kDepth>(shared_address(shared), step));
  commit_products();
  wait_for_products<0>(out);
  for (uint32_t i = 0; i < kDim / 2; ++i) d[threadIdx.x * (kDim / 2) + i] = out[i / 4][i % 4];
}

template <uint32_t kDim>
void check_values() {
  std::vector<Bf16> image(kDepth * kDim);
  for (uint32_t k = 0; k < kDepth; ++k)
    for (uint32_t n = 0; n < kDim; ++n)
      image[swizzled_bytes(2 * mn_major(n, k, kDepth * 64, kStride)) / 2] = narrow(right_of(k, n));
  std::vector<uint32_t> a(kDepth / 16 * 128 * 4);
  for (uint32_t t = 0; t < 128; ++t)
    for (uint32_t step = 0; step < kDepth / 16; ++step)
      for (uint32_t i = 0; i < 8; ++i) {
        const auto [row, k] = place_of_left(t, i);
        a[(step * 128 + t) * 4 + i / 2] |= uint32_t(narrow(left_of(row, step * 16 + k))) << (i % 2 * 16);
      }
  std::vector<float> d(128 * kDim / 2);
  const size_t shared = kPatternBytes + image.size() * sizeof(Bf16);
  ASSERT_EQ(start_group(values_kernel<kDim>, 128, shared, static_cast<const Bf16*>(image.data()),
                        static_cast<const uint32_t*>(a.data()), d.data()),
            0)
      << emulator::failure();
  for (uint32_t t = 0; t < 128; ++t)
    for (uint32_t i = 0; i < kDim / 2; ++i) {
      const auto [row, column] = place_of_result(t, i);
      float sum = 0;
      for (uint32_t k = 0; k < kDepth; ++k) sum += left_of(row, k) * right_of(k, column);
      ASSERT_EQ(d[t * kDim / 2 + i], sum) << t << ' ' << i;
    }
}

TEST(Warpgroup, ProductsOfRegistersAndColumnsAreWhereThePtxIsaSays) {
  check_values<64>();
  check_values<128>();
}

TEST(Warpgroup, CopiesThatProductsMayNotReadYetAreFailures) {
  const auto image = scores_image();
  std::vector<float> d(128 * 64);
  for (auto without : {kFence, kWait}) {
    EXPECT_NE(start_group(scores_kernel, 128, kScoresShared, image.data(), d.data(), without), 0);
    EXPECT_TRUE(failed_with("under way, or not fenced")) << emulator::failure();
  }
}

// A product owns its registers until it is waited for; these are ways to use it wrongly.
enum Mistake : int { kNone, kNoFence, kNoWait, kEarly, kChanged, kUnaligned, kTooFar };
__global__ void wrong_kernel(const Bf16* image, float* d, int wrong) {
  auto* shared = aligned_shared<Bf16>();
  bring(shared, image, kDepth * 64, kNothing);
  float out[8][4] = {};
  uint32_t weights[4] = {0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80};
  if (wrong != kNoFence) fence_products();
  auto matrix = Matrix::columns<kDepth>(shared_address(shared), wrong == kTooFar ? 8 : 0);
  multiply(out, weights, wrong == kUnaligned ? matrix & ~(uint64_t(3) << 62) : matrix);
  commit_products();
  if (wrong == kEarly) d[threadIdx.x] = out[0][0];
  if (wrong == kChanged) weights[1] = 0;
  if (wrong != kNoWait) wait_for_products<0>(out);
  if (wrong != kEarly) d[threadIdx.x] = out[0][0];
}
constexpr size_t kWrongShared = kPatternBytes + kDepth * 64 * sizeof(Bf16);

TEST(Warpgroup, ProductsThatAreUsedWronglyAreFailures) {
  const std::vector<Bf16> image(kDepth * 64, narrow(1));
  std::vector<float> d(128);
  auto result = [&](int wrong) {
    return start_group(wrong_kernel, 128, kWrongShared, static_cast<const Bf16*>(image.data()), d.data(), wrong);
  };
  EXPECT_EQ(result(kNone), 0) << emulator::failure();
  EXPECT_EQ(d, std::vector<float>(128, 16.f));
  EXPECT_NE(result(kNoFence), 0);
  EXPECT_TRUE(failed_with("without a fence")) << emulator::failure();
  EXPECT_NE(result(kNoWait), 0);
  EXPECT_TRUE(failed_with("products that nobody waits for")) << emulator::failure();
  EXPECT_EQ(result(kEarly), 0);
  EXPECT_TRUE(std::isnan(d[0]));
  EXPECT_NE(result(kChanged), 0);  // of 128 threads some read late
  EXPECT_TRUE(failed_with("registers that change")) << emulator::failure();
  EXPECT_NE(result(kUnaligned), 0);
  EXPECT_TRUE(failed_with("not swizzled")) << emulator::failure();
  EXPECT_NE(result(kTooFar), 0);
  EXPECT_TRUE(failed_with("beyond shared memory")) << emulator::failure();
}

// Two warps hand a number to and fro.
__global__ void barriers_kernel(uint32_t* out, uint32_t arrivals, uint32_t* stuck) {
  struct Shared {
    Barrier full, free;
    uint32_t number;
  };
  auto* shared = aligned_shared<Shared>();
  if (threadIdx.x == 0) make_barrier(shared->full, kWarp), make_barrier(shared->free, 1);
  __syncthreads();
  Waiter waiter(stuck);
  for (uint32_t i = 0; i < 5; ++i) {
    if (threadIdx.x < kWarp) {
      waiter.await(shared->free, i % 2 ^ 1, 7);
      if (threadIdx.x == 0) shared->number = i;
      if (threadIdx.x < arrivals) arrive(shared->full);
    } else {
      waiter.await(shared->full, i % 2, 9);
      if (threadIdx.x == kWarp) out[i] = shared->number;
      arrive_as_warp(shared->free);
    }
  }
}

TEST(Warpgroup, BarriersHandOnWhatWasDoneBeforeThem) {
  for (int times = 0; times < 8; ++times) {  // in another order each time
    std::vector<uint32_t> out(5), expected(5);
    std::iota(expected.begin(), expected.end(), 0u);
    uint32_t stuck = 0;
    ASSERT_EQ(start_group(barriers_kernel, 64, 2048, out.data(), 32u, &stuck), 0) << emulator::failure();
    EXPECT_EQ(out, expected);
    EXPECT_EQ(stuck, 0u);
  }
}

TEST(Warpgroup, AWaitForABarrierThatNobodyArrivesAtEndsAndIsTold) {
  std::vector<uint32_t> out(5);
  uint32_t stuck = 0;
  EXPECT_EQ(start_group(barriers_kernel, 64, 2048, out.data(), 31u, &stuck), 0) << emulator::failure();
  EXPECT_EQ(stuck, 9u);
  EXPECT_NE(start_group(barriers_kernel, 64, 2048, out.data(), 31u, static_cast<uint32_t*>(nullptr)), 0);
  EXPECT_TRUE(failed_with("nobody arrives at")) << emulator::failure();
}

}  // namespace
}  // namespace weir::llm::cuda
