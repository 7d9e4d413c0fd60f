// Instructions that C++ has no words for: tensor cores, matrices of shared memory, asynchronous copies (sm_80 and
// newer; PTX ISA, "Matrix multiply-accumulate operation using mma instruction", "ldmatrix", "cp.async"). All lanes of a
// warp take part in the first two. Each has the same on the host beside it, for the emulator.
#pragma once

#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {

// d += a b: a is 16 x 16, b 16 x 8, of bfloat16; d 16 x 8, of float32.
// Lane l, with g = l / 4 and t = l % 4, holds the pairs of columns
//   a[0] (g, 2t)  a[1] (g + 8, 2t)  a[2] (g, 2t + 8)  a[3] (g + 8, 2t + 8)
// the pairs of rows b[0] (2t, g)  b[1] (2t + 8, g), and d[0], d[1] (g, 2t)  d[2], d[3] (g + 8, 2t).
__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#ifdef __CUDACC__
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
  auto* slots = emulator::meet(kAllLanes, mine, sizeof mine, {__FILE__, __LINE__});
  auto value = [&](uint32_t lane, uint32_t word, uint32_t half) {
    uint32_t both = reinterpret_cast<const uint32_t*>(slots[lane].bytes)[word];
    return double(__uint_as_float(half ? both & 0xffff0000u : both << 16));
  };
  uint32_t lane = threadIdx.x % kWarp;
  for (uint32_t i = 0; i < 4; ++i) {
    uint32_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    double sum = d[i];
    for (uint32_t k = 0; k < 16; ++k)
      sum +=
          value(row % 8 * 4 + k % 8 / 2, row / 8 + k / 8 * 2, k % 2) * value(column * 4 + k % 8 / 2, 4 + k / 8, k % 2);
    d[i] = float(sum);
  }
#endif
}

// The same where rows 8 to 15 of a are zeros and those of d are not wanted: a[0] (g, 2t)  a[1] (g, 2t + 8), and d[0],
// d[1] (g, 2t).
__device__ inline void mma_upper(float (&d)[2], const uint32_t (&a)[2], uint32_t b0, uint32_t b1) {
#ifdef __CUDACC__
  [[maybe_unused]] float lower[2];
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %8, %5, %8}, {%6, %7}, "
      "{%0, %1, %9, %9};"
      : "+f"(d[0]), "+f"(d[1]), "=f"(lower[0]), "=f"(lower[1])
      : "r"(a[0]), "r"(a[1]), "r"(b0), "r"(b1), "r"(0u), "f"(0.f));
#else
  float whole[4] = {d[0], d[1], 0, 0};
  const uint32_t rows[4] = {a[0], 0, a[1], 0};
  mma(whole, rows, b0, b1);
  d[0] = whole[0], d[1] = whole[1];
#endif
}

// Four 8 x 8 matrices of 16-bit numbers; lane l gives the address of row l % 8 of matrix l / 8, and gets of each matrix
// the pair of columns 2 (l % 4) of row l / 4.
__device__ inline void load_matrices(uint32_t (&out)[4], const Bf16* row) {
#ifdef __CUDACC__
  auto address = uint32_t(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
#else
  auto rows = emulator::matrix_rows(row, {__FILE__, __LINE__});
  uint32_t lane = threadIdx.x % kWarp;
  for (uint32_t m = 0; m < 4; ++m) std::memcpy(&out[m], rows[m * 8 + lane / 4] + lane % 4 * 2, 4);
#endif
}

// The same of the transposed matrices: the pair of rows 2 (l % 4) of column l / 4.
__device__ inline void load_transposed(uint32_t (&out)[4], const Bf16* row) {
#ifdef __CUDACC__
  auto address = uint32_t(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
#else
  auto rows = emulator::matrix_rows(row, {__FILE__, __LINE__});
  uint32_t lane = threadIdx.x % kWarp;
  for (uint32_t m = 0; m < 4; ++m)
    out[m] = uint32_t(rows[m * 8 + lane % 4 * 2][lane / 4]) | uint32_t(rows[m * 8 + lane % 4 * 2 + 1][lane / 4]) << 16;
#endif
}

// Copies 16 bytes into shared memory some time before a wait_for_copies; kNot: fills with zeros and reads nothing.
enum class Take : uint32_t { kNot = 0, kAll = 16 };
__device__ inline void copy_async(Bf16* to, const Bf16* from, Take take) {
#ifdef __CUDACC__
  auto address = uint32_t(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(uint32_t(take))
               : "memory");
#else
  emulator::copy_async(to, from, size_t(take), {__FILE__, __LINE__});
#endif
}
// The same of 8 bytes: the scales of a position's key and value.
__device__ inline void copy_async(float (&to)[2], const float* from, Take take) {
#ifdef __CUDACC__
  auto address = uint32_t(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(address), "l"(from), "r"(uint32_t(take) / 2)
               : "memory");
#else
  emulator::copy_async(to, from, size_t(take) / 2, {__FILE__, __LINE__}, 8);
#endif
}
// The copies since the last one of these are a group.
__device__ inline void commit_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  emulator::commit_copies();
#endif
}
// Until all of this thread's groups but the last kOpen are there; a barrier then tells the other threads.
template <uint32_t kOpen>
__device__ inline void wait_for_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kOpen) : "memory");
#else
  emulator::wait_copies(kOpen);
#endif
}

}  // namespace weir::llm::cuda
