// What the kernels share: widening, reductions over a block, launching on a device.
//
// Kernel sources are read by nvcc and, for the tests, by a C++ compiler with stand-ins for CUDA's two headers
// (tests/gpu/emulator): what only nvcc understands is in this file and in mma.cuh.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "engines/llm/cuda/kernels.h"

namespace weir::llm::cuda {

constexpr uint32_t kWarp = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;

__device__ inline float widen(Bf16 bits) { return __uint_as_float(uint32_t(bits) << 16); }
__device__ inline Bf16 narrow(float value) { return __bfloat16_as_ushort(__float2bfloat16_rn(value)); }

__device__ inline float warp_sum(float value) {
  for (uint32_t step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

// The sum over all threads, in every thread; the order is fixed. All threads of the block take part; a multiple of 32.
__device__ inline float block_sum(float value) {
  __shared__ float sums[32];
  value = warp_sum(value);
  uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  __syncthreads();  // of an earlier use
  if (lane == 0) sums[warp] = value;
  __syncthreads();
  float all = lane < warps ? sums[lane] : 0.f;
  return warp_sum(all);
}

// The shared memory that a launch asks for, beside what a kernel declares.
template <class T>
__device__ inline T* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  return reinterpret_cast<T*>(shared_bytes);
#else
  return reinterpret_cast<T*>(emulator::dynamic_shared());
#endif
}

// Every launch goes through here. The thread's last error is taken back, so that the next launch does not report it.
template <class... Params, class... Args>
Code run(const Launch& launch, void (*kernel)(Params...), dim3 grid, uint32_t threads, size_t shared,
         const Args&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  config.stream = static_cast<cudaStream_t>(launch.stream);
  auto code = cudaSetDevice(launch.device);
  if (code == cudaSuccess) code = cudaLaunchKernelEx(&config, kernel, args...);
  if (code != cudaSuccess) (void)cudaGetLastError();
  return Code(code);
}

}  // namespace weir::llm::cuda
