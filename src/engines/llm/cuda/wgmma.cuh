// Instructions of Hopper's warpgroups, four warps that multiply together (sm_90a; PTX ISA, "Asynchronous warpgroup
// level matrix instructions", "mbarrier", "setmaxnreg"). Each has the same on the host beside it, for the emulator.
//
// A matrix in shared memory lies in panels of 64 columns: rows of 128 bytes, whose pieces of 16 bytes change places by
// row ("128B swizzle"). A panel begins at a multiple of 1024 bytes, after which the pattern repeats.
#pragma once

#include "engines/llm/cuda/mma.cuh"

namespace weir::llm::cuda {

constexpr uint32_t kWarpgroup = 4 * kWarp;
constexpr uint32_t kPanelColumns = 64, kPanelRow = 128, kPatternBytes = 8 * kPanelRow;

// Element 8 * chunk of a row, of a matrix of kRows rows.
template <uint32_t kRows>
__device__ inline uint32_t in_panels(uint32_t row, uint32_t chunk) {
  return chunk / 8 * kRows * kPanelColumns + row * kPanelColumns + (chunk % 8 ^ row % 8) * 8;
}

__device__ inline uint32_t shared_address(const void* at) {
#ifdef __CUDACC__
  return uint32_t(__cvta_generic_to_shared(at));
#else
  return emulator::shared_address(at, {__FILE__, __LINE__});
#endif
}

// The descriptor of a part of a matrix whose panels have kRows rows each. A product sums over kStep elements: of rows
// ("K-major") it takes some columns of a panel, of columns ("MN-major") some rows of all panels.
struct Matrix {
  static constexpr uint32_t kStep = 16;

  // Begins at element kStep * step of each row.
  template <uint32_t kRows>
  static __device__ uint64_t rows(uint32_t address, uint32_t step) {
    constexpr uint32_t kSteps = kPanelColumns / kStep;  // in a panel
    return made(address + step / kSteps * kRows * kPanelRow + step % kSteps * kStep * sizeof(Bf16), 16);
  }
  // Begins at row kStep * step of all panels.
  template <uint32_t kRows>
  static __device__ uint64_t columns(uint32_t address, uint32_t step) {
    return made(address + step * kStep * kPanelRow, kRows * kPanelRow);
  }

 private:
  // leading: bytes from a panel to the next; not looked at where rows lie side by side.
  static __device__ uint64_t made(uint32_t address, uint32_t leading) {
    constexpr uint64_t kSwizzle128 = uint64_t(1) << 62;
    return uint64_t(address >> 4) | uint64_t(leading >> 4) << 16 | uint64_t(kPatternBytes >> 4) << 32 | kSwizzle128;
  }
};

enum class Sum : uint32_t { kAnew = 0, kOn = 1 };

#ifdef __CUDACC__
#define WEIR_PLACES_32                                                                                             \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define WEIR_PLACES_64                                                                                               \
  WEIR_PLACES_32                                                                                                     \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, " \
  "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WEIR_TILE(d, i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define WEIR_TILES_4(d, i) WEIR_TILE(d, i), WEIR_TILE(d, i + 1), WEIR_TILE(d, i + 2), WEIR_TILE(d, i + 3)
#define WEIR_TILES_8(d) WEIR_TILES_4(d, 0), WEIR_TILES_4(d, 4)
#define WEIR_TILES_16(d) WEIR_TILES_8(d), WEIR_TILES_4(d, 8), WEIR_TILES_4(d, 12)
#endif

// d (+)= a b^T, of bfloat16: a is 64 x 16 and b 128 x 16, both in shared memory, rows side by side. Lane l of warp w of
// the group has of d the rows 16 w + l / 4 and 8 more, as mma() has them: d[n][i] is column 8 n + 2 (l % 4) + i % 2 of
// row i / 2. All lanes of the four warps take part. d, a and b are the product's until wait_for_products().
__device__ inline void multiply(float (&d)[16][4], uint64_t a, uint64_t b, Sum sum) {
#ifdef __CUDACC__
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %66, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WEIR_PLACES_64 "}, %64, %65, p, 1, 1, 0, 0;\n\t}"
      : WEIR_TILES_16(d)
      : "l"(a), "l"(b), "r"(uint32_t(sum)));
#else
  emulator::multiply({.d = d[0], .columns = 128, .on = sum == Sum::kOn, .a = a, .b = b}, {__FILE__, __LINE__});
#endif
}

// d += a b: a is 64 x 16, in registers as those of mma(); b 16 x 128, columns side by side.
__device__ inline void multiply(float (&d)[16][4], const uint32_t (&a)[4], uint64_t b) {
#ifdef __CUDACC__
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WEIR_PLACES_64
               "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
               : WEIR_TILES_16(d)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#else
  emulator::multiply({.d = d[0], .columns = 128, .on = true, .registers = a, .b = b, .b_columns = true},
                     {__FILE__, __LINE__});
#endif
}
// The same where b is 16 x 64.
__device__ inline void multiply(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b) {
#ifdef __CUDACC__
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" WEIR_PLACES_32
               "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
               : WEIR_TILES_8(d)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#else
  emulator::multiply({.d = d[0], .columns = 64, .on = true, .registers = a, .b = b, .b_columns = true},
                     {__FILE__, __LINE__});
#endif
}

// Before the first of some products: what their registers hold is there.
__device__ inline void fence_products() {
#ifdef __CUDACC__
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#else
  emulator::fence_products();
#endif
}
// The products since the last one of these are a group.
__device__ inline void commit_products() {
#ifdef __CUDACC__
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#else
  emulator::commit_products();
#endif
}
// For the compiler: `d` is in its registers here, and is read after this.
template <uint32_t kTiles>
__device__ inline void hold(float (&d)[kTiles][4]) {
#ifdef __CUDACC__
#pragma unroll
  for (uint32_t n = 0; n < kTiles; ++n) asm volatile("" : WEIR_TILE(d, n)::"memory");
#else
  (void)d;
#endif
}
// Until all groups but the last kOpen are done. d: results of theirs.
template <uint32_t kOpen, uint32_t kTiles>
__device__ inline void wait_for_products(float (&d)[kTiles][4]) {
#ifdef __CUDACC__
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kOpen) : "memory");
#else
  emulator::wait_products(kOpen);
#endif
  hold(d);
}

// Copies into shared memory that this thread has waited for can be read by products from here on: by those of threads
// that learn of it through a barrier.
__device__ inline void fence_copies() {
#ifdef __CUDACC__
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
  emulator::fence_copies();
#endif
}

// Registers of each thread of a warpgroup, from here on: fewer than the kernel was compiled for, which the block's
// other warpgroups may take.
template <uint32_t kRegisters>
__device__ inline void take_fewer_registers() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
#ifdef __CUDACC__
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <uint32_t kRegisters>
__device__ inline void take_more_registers() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
#ifdef __CUDACC__
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

// A barrier in shared memory: a phase is over when it was arrived at `count` times, and the next one begins.
using Barrier = uint64_t;

__device__ inline void make_barrier(Barrier& barrier, uint32_t count) {
#ifdef __CUDACC__
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(count) : "memory");
#else
  emulator::make_barrier(&barrier, count, {__FILE__, __LINE__});
#endif
}
__device__ inline void arrive(Barrier& barrier) {
#ifdef __CUDACC__
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
#else
  emulator::arrive(&barrier, {__FILE__, __LINE__});
#endif
}
// One arrival for a warp, of what all its lanes have done. They go on together, as products need them.
__device__ inline void arrive_as_warp(Barrier& barrier) {
  __syncwarp();
  if (threadIdx.x % kWarp == 0) arrive(barrier);
  __syncwarp();
}
// Whether the phase of that parity is over; the first one has 0, and a new barrier counts as behind one of 1. Waits a
// microsecond at most.
__device__ inline bool is_over(Barrier& barrier, uint32_t parity) {
#ifdef __CUDACC__
  uint32_t over;
  asm volatile(
      "{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, 1000;\n\t"
      "selp.u32 %0, 1, 0, p;\n\t}"
      : "=r"(over)
      : "r"(shared_address(&barrier)), "r"(parity)
      : "memory");
  return over;
#else
  return emulator::is_over(&barrier, parity, {__FILE__, __LINE__});
#endif
}

// Waits of a warp, which end also where nobody arrives. Then the number of the barrier goes to `stuck`, and later waits
// take no time: the warp goes on with wrong numbers and right addresses. Without `stuck` the kernel traps, which is a
// fault of the device.
class Waiter {
 public:
  explicit __device__ Waiter(uint32_t* stuck) : told_(stuck) {}

  __device__ void await(Barrier& barrier, uint32_t parity, uint32_t number) {
    bool over = stuck_;
    for (uint32_t i = 0; i < kMostTries && !over; ++i) over = is_over(barrier, parity);
    if (__all_sync(kAllLanes, over)) return;
    stuck_ = true;
    if (told_)
      atomicMax(told_, number);
    else
      trap();
  }

 private:
#ifdef __CUDACC__
  static constexpr uint32_t kMostTries = 1u << 20;  // tens of milliseconds at least, a second at most
  static __device__ void trap() { __trap(); }
#else
  static constexpr uint32_t kMostTries = 1;  // the emulator knows when nobody can arrive any more
  static void trap() { emulator::fail({__FILE__, __LINE__}, "a barrier that nobody arrives at"); }
#endif

  uint32_t* told_;
  bool stuck_ = false;
};

}  // namespace weir::llm::cuda
