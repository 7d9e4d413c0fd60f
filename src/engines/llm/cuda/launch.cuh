// Helpers of all kernels: widening, reductions over a block, launching on a device.
//
// Kernel sources are read by nvcc and, for the tests, by a C++ compiler with stand-ins for CUDA's two headers
// (tests/gpu/emulator): what only nvcc understands is in this file and in mma.cuh.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <atomic>

#include "engines/llm/cuda/kernels.h"

namespace weir::llm::cuda {

constexpr uint32_t kWarp = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr size_t kSharedByDefault = 48 << 10;  // dynamic shared memory of a kernel that has not asked for more

__device__ inline float widen(Bf16 bits) { return __uint_as_float(uint32_t(bits) << 16); }
__device__ inline Bf16 narrow(float value) { return __bfloat16_as_ushort(__float2bfloat16_rn(value)); }

// Two, the first in the low half.
__device__ inline uint32_t narrow2(float low, float high) {
#ifdef __CUDACC__
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#else
  return uint32_t(narrow(low)) | uint32_t(narrow(high)) << 16;
#endif
}

// kPer neighbours in one access of at most 16 bytes (two for eight floats); their address is a multiple of that.
template <uint32_t kPer>
__device__ inline void widen(float (&out)[kPer], const uint32_t* words) {
#pragma unroll
  for (uint32_t i = 0; i < kPer / 2; ++i)
    out[2 * i] = __uint_as_float(words[i] << 16), out[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
}
__device__ inline void widen(float (&out)[8], uint4 in) {
  const uint32_t words[4] = {in.x, in.y, in.z, in.w};
  widen(out, words);
}
template <uint32_t kPer>
__device__ inline void load(float (&out)[kPer], const Bf16* from) {
  if constexpr (kPer == 8) {
    widen(out, *reinterpret_cast<const uint4*>(from));
  } else if constexpr (kPer == 4) {
    uint2 all = *reinterpret_cast<const uint2*>(from);
    const uint32_t words[2] = {all.x, all.y};
    widen(out, words);
  } else {
    widen(out, reinterpret_cast<const uint32_t*>(from));
  }
}
template <uint32_t kPer>
__device__ inline void load(float (&out)[kPer], const float* from) {
  if constexpr (kPer % 4 == 0) {
#pragma unroll
    for (uint32_t i = 0; i < kPer; i += 4) {
      float4 four = *reinterpret_cast<const float4*>(from + i);
      out[i] = four.x, out[i + 1] = four.y, out[i + 2] = four.z, out[i + 3] = four.w;
    }
  } else {
    float2 two = *reinterpret_cast<const float2*>(from);
    out[0] = two.x, out[1] = two.y;
  }
}
template <uint32_t kPer>
__device__ inline void store(Bf16* to, const float (&in)[kPer]) {
  if constexpr (kPer == 8) {
    *reinterpret_cast<uint4*>(to) =
        make_uint4(narrow2(in[0], in[1]), narrow2(in[2], in[3]), narrow2(in[4], in[5]), narrow2(in[6], in[7]));
  } else if constexpr (kPer == 4) {
    *reinterpret_cast<uint2*>(to) = make_uint2(narrow2(in[0], in[1]), narrow2(in[2], in[3]));
  } else {
    *reinterpret_cast<uint32_t*>(to) = narrow2(in[0], in[1]);
  }
}
template <uint32_t kPer>
__device__ inline void store(float* to, const float (&in)[kPer]) {
  if constexpr (kPer % 4 == 0) {
#pragma unroll
    for (uint32_t i = 0; i < kPer; i += 4)
      *reinterpret_cast<float4*>(to + i) = make_float4(in[i], in[i + 1], in[i + 2], in[i + 3]);
  } else {
    *reinterpret_cast<float2*>(to) = make_float2(in[0], in[1]);
  }
}

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

// Threads for `work` pieces, one or more each: whole warps.
inline uint32_t threads_for(uint32_t work, uint32_t most) {
  uint32_t threads = (work + kWarp - 1) / kWarp * kWarp;
  return threads < kWarp ? kWarp : threads < most ? threads : most;
}

// A kernel begins while the one before it in its stream still runs, where devices and drivers know how (CUDA programming
// guide, "Programmatic Dependent Launch"): the time from one launch to the next passes beside the work. Every thread of
// every kernel calls this, before it ends and before it touches what another kernel may write or read: until then it
// reads weights at most.
__device__ inline void await_inputs() {
#if !defined(__CUDACC__)
  emulator::await_inputs();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
#endif
}

// The devices, by number from -1 (the host, where the emulator is) on, whose code and driver have that. Written when
// kernels are loaded.
constexpr int32_t kMostDevices = 64;
inline std::atomic<bool> begins_early[1 + kMostDevices];

// `attributes`: of any kernel that is loaded there. Graphs have it since CUDA 12.3.
inline void see_device(int32_t device, const cudaFuncAttributes& attributes) {
  constexpr int kInGraphs = 12030;
  int driver = 0;
  if (device < -1 || device >= kMostDevices || cudaDriverGetVersion(&driver) != cudaSuccess) return;
  begins_early[1 + device] = CUDART_VERSION >= kInGraphs && driver >= kInGraphs && attributes.ptxVersion >= 90;
}

// Loads kernels that the driver would else load at their first launch (lazy loading, the default since CUDA 12.2): asking
// for a kernel's attributes takes it. CUDA_MODULE_LOADING=EAGER would load all of cuBLASLt, too.
template <class... Loaded>
Code load_kernels(int32_t device, Loaded*... kernels) {
  auto code = cudaSetDevice(device);
  cudaFuncAttributes attributes;
  ((code = code == cudaSuccess ? cudaFuncGetAttributes(&attributes, kernels) : code), ...);
  if (code == cudaSuccess)
    see_device(device, attributes);
  else
    (void)cudaGetLastError();
  return Code(code);
}

// Every launch goes through here. The thread's last error is taken back, so that the next launch does not report it.
template <class... Params, class... Args>
Code run(const Launch& launch, void (*kernel)(Params...), dim3 grid, uint32_t threads, size_t shared,
         const Args&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  config.stream = static_cast<cudaStream_t>(launch.stream);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &early;
  config.numAttrs = launch.device >= -1 && launch.device < kMostDevices && begins_early[1 + launch.device] ? 1 : 0;
  auto code = cudaSetDevice(launch.device);
  if (code == cudaSuccess && shared > kSharedByDefault)
    code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared));
  if (code == cudaSuccess) code = cudaLaunchKernelEx(&config, kernel, args...);
  if (code != cudaSuccess) (void)cudaGetLastError();
  return Code(code);
}

}  // namespace weir::llm::cuda
