// Where elements of matrices lie in the registers of a warp: the emulator against the formulas of the PTX ISA ("Matrix
// Fragments for mma.m16n8k16", "ldmatrix"), element by element.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "emulator.h"
#include "engines/llm/cuda/mma.cuh"

namespace weir::llm::cuda {
namespace {

struct Place {
  uint32_t row, column;
};

// The ISA's words: groupID = %laneid >> 2, threadID_in_group = %laneid % 4; element i of a lane's fragment is half i %
// 2 of its register i / 2.
struct Lane {
  explicit Lane(uint32_t id) : group(id >> 2), in_group(id % 4) {}
  uint32_t group, in_group;
};
Place of_a(uint32_t lane, uint32_t i) {
  const Lane l(lane);
  return {(i < 2 || (4 <= i && i < 6)) ? l.group : l.group + 8, l.in_group * 2 + (i & 1) + (i < 4 ? 0 : 8)};
}
Place of_b(uint32_t lane, uint32_t i) {
  const Lane l(lane);
  return {l.in_group * 2 + (i & 1) + (i < 2 ? 0 : 8), l.group};
}
Place of_d(uint32_t lane, uint32_t i) {
  const Lane l(lane);
  return {i < 2 ? l.group : l.group + 8, l.in_group * 2 + (i & 1)};
}

// The registers of a warp for a matrix of bfloat16; `place` says which element is where.
template <uint32_t kElements, class ValueAt>
std::vector<uint32_t> registers(Place (*place)(uint32_t, uint32_t), ValueAt value) {
  std::vector<uint32_t> out(32 * kElements / 2);
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t i = 0; i < kElements; ++i) {
      const auto [row, column] = place(lane, i);
      out[lane * kElements / 2 + i / 2] |= uint32_t(narrow(value(row, column))) << (i % 2 * 16);
    }
  return out;
}

__global__ void mma_kernel(const uint32_t* a, const uint32_t* b, float* d) {
  const uint32_t* mine = a + threadIdx.x * 4;
  const uint32_t left[4] = {mine[0], mine[1], mine[2], mine[3]};
  float sums[4] = {};
  mma(sums, left, b[threadIdx.x * 2], b[threadIdx.x * 2 + 1]);
  for (uint32_t i = 0; i < 4; ++i) d[threadIdx.x * 4 + i] = sums[i];
}

// One element of a is 1: then one row of d is a row of b, all of whose elements differ.
TEST(Fragments, OfAProductLieAsThePtxIsaSays) {
  auto element = [](uint32_t row, uint32_t column) { return float(row * 8 + column + 1); };
  const auto b = registers<4>(of_b, element);
  std::vector<float> d(128);
  for (uint32_t row = 0; row < 16; ++row)
    for (uint32_t k = 0; k < 16; ++k) {
      const auto a = registers<8>(of_a, [&](uint32_t r, uint32_t c) { return r == row && c == k ? 1.f : 0.f; });
      ASSERT_EQ(run(Launch{}, mma_kernel, dim3(1), 32, 0, a.data(), b.data(), d.data()), 0);
      for (uint32_t lane = 0; lane < 32; ++lane)
        for (uint32_t i = 0; i < 4; ++i) {
          const auto [r, column] = of_d(lane, i);
          ASSERT_EQ(d[lane * 4 + i], r == row ? element(k, column) : 0.f) << row << ' ' << k << ' ' << lane << ' ' << i;
        }
    }
}

__global__ void ldmatrix_kernel(const Bf16* in, uint32_t* out, int turned) {
  auto* tile = dynamic_shared<Bf16>();
  for (uint32_t i = 0; i < 8; ++i) tile[threadIdx.x * 8 + i] = in[threadIdx.x * 8 + i];
  __syncthreads();
  uint32_t words[4];
  turned ? load_transposed(words, tile + threadIdx.x * 8) : load_matrices(words, tile + threadIdx.x * 8);
  for (uint32_t m = 0; m < 4; ++m) out[m * 32 + threadIdx.x] = words[m];
}

// Lanes 8 m to 8 m + 7 give the rows of matrix m, which goes into register m: of row lane / 4 the elements 2 (lane % 4)
// and the next, or with .trans of column lane / 4 the rows of these numbers.
TEST(Fragments, OfLoadedMatricesLieAsThePtxIsaSays) {
  std::vector<Bf16> in(4 * 64);
  std::iota(in.begin(), in.end(), Bf16(0));
  std::vector<uint32_t> out(4 * 32);
  for (int turned : {0, 1}) {
    ASSERT_EQ(run(Launch{}, ldmatrix_kernel, dim3(1), 32, 512, static_cast<const Bf16*>(in.data()), out.data(), turned),
              0);
    for (uint32_t m = 0; m < 4; ++m)
      for (uint32_t lane = 0; lane < 32; ++lane)
        for (uint32_t half = 0; half < 2; ++half) {
          const uint32_t across = lane / 4, along = 2 * (lane % 4) + half;
          const uint32_t row = turned ? along : across, column = turned ? across : along;
          ASSERT_EQ(out[m * 32 + lane] >> (16 * half) & 0xffff, m * 64 + row * 8 + column) << turned << ' ' << lane;
        }
  }
}

// The weights of an attention's scores are d of one product and a of the next: the same lane has both, so that no
// shuffle is needed (prefill.cu).
TEST(Fragments, TwoResultsSideBySideAreTheLeftOfTheNextProduct) {
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t tile = i / 4, element = i % 4;
      const auto [row, column] = of_d(lane, element);
      EXPECT_EQ(of_a(lane, i).row, row);
      EXPECT_EQ(of_a(lane, i).column, tile * 8 + column);
    }
}

}  // namespace
}  // namespace weir::llm::cuda
