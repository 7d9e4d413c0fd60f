// The emulator's: what the kernels use of CUDA's cuda_runtime.h and of the language, for a C++ compiler.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <utility>

#include "emulator.h"

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

extern const dim3 &threadIdx, &blockIdx, &blockDim, &gridDim;

// --- vectors ---------------------------------------------------------------------------------------------------------
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }

// --- numbers ---------------------------------------------------------------------------------------------------------
template <class T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
inline uint32_t __float_as_uint(float value) { return std::bit_cast<uint32_t>(value); }
inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline float rsqrtf(float value) { return float(1 / std::sqrt(double(value))); }
inline float __expf(float value) { return expf(value); }
inline float __logf(float value) { return logf(value); }
template <class T>
T __ldcs(const T* from) {
  return *from;
}
inline float __fdividef(float a, float b) { return a / b; }
inline int __popc(uint32_t bits) { return std::popcount(bits); }
inline int __clz(int bits) { return std::countl_zero(uint32_t(bits)); }
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}

// --- threads together ------------------------------------------------------------------------------------------------
#define EMULATOR_WHERE const char *file = __builtin_FILE(), uint32_t line = __builtin_LINE()

inline void __syncthreads(EMULATOR_WHERE) { emulator::barrier({file, line}); }
inline void __syncwarp(uint32_t mask = 0xffffffffu, EMULATOR_WHERE) { emulator::meet(mask, nullptr, 0, {file, line}); }

namespace emulator {
template <class T>
T from_lane(const Slot* slots, uint32_t lane) {
  T out;
  std::memcpy(&out, slots[lane].bytes, sizeof out);
  return out;
}
inline uint32_t lane() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % kLanes; }
// The rows that the lanes give to a load of matrices.
inline std::array<const uint16_t*, kLanes> matrix_rows(const uint16_t* mine, Where where) {
  if (reinterpret_cast<uintptr_t>(mine) % 16) fail(where, "a row of a matrix that is not aligned");
  auto* slots = meet(0xffffffffu, &mine, sizeof mine, where);
  std::array<const uint16_t*, kLanes> out;
  for (uint32_t lane = 0; lane < kLanes; ++lane) out[lane] = from_lane<const uint16_t*>(slots, lane);
  return out;
}
}  // namespace emulator

template <class T>
T __shfl_sync(uint32_t mask, T value, int from, int width = 32, EMULATOR_WHERE) {
  auto* slots = emulator::meet(mask, &value, sizeof value, {file, line});
  uint32_t segment = emulator::lane() & ~uint32_t(width - 1);
  return emulator::from_lane<T>(slots, segment + (uint32_t(from) & uint32_t(width - 1)));
}
template <class T>
T __shfl_xor_sync(uint32_t mask, T value, int bits, EMULATOR_WHERE) {
  auto* slots = emulator::meet(mask, &value, sizeof value, {file, line});
  return emulator::from_lane<T>(slots, emulator::lane() ^ uint32_t(bits));
}
template <class T>
T __shfl_up_sync(uint32_t mask, T value, uint32_t by, EMULATOR_WHERE) {
  auto* slots = emulator::meet(mask, &value, sizeof value, {file, line});
  return emulator::lane() >= by ? emulator::from_lane<T>(slots, emulator::lane() - by) : value;
}
template <class T>
T __shfl_down_sync(uint32_t mask, T value, uint32_t by, EMULATOR_WHERE) {
  auto* slots = emulator::meet(mask, &value, sizeof value, {file, line});
  return emulator::lane() + by < 32 ? emulator::from_lane<T>(slots, emulator::lane() + by) : value;
}
inline uint32_t __ballot_sync(uint32_t mask, int vote, EMULATOR_WHERE) {
  auto* slots = emulator::meet(mask, &vote, sizeof vote, {file, line});
  uint32_t out = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) out |= uint32_t(emulator::from_lane<int>(slots, lane) != 0) << lane;
  return out;
}
inline int __any_sync(uint32_t mask, int vote, EMULATOR_WHERE) { return __ballot_sync(mask, vote, file, line) != 0; }
inline int __all_sync(uint32_t mask, int vote, EMULATOR_WHERE) { return __ballot_sync(mask, vote, file, line) == ~0u; }
inline uint32_t __reduce_max_sync(uint32_t mask, uint32_t value, EMULATOR_WHERE) {
  auto* slots = emulator::meet(mask, &value, sizeof value, {file, line});
  for (uint32_t lane = 0; lane < 32; ++lane) value = max(value, emulator::from_lane<uint32_t>(slots, lane));
  return value;
}
inline uint32_t __reduce_min_sync(uint32_t mask, uint32_t value, EMULATOR_WHERE) {
  auto* slots = emulator::meet(mask, &value, sizeof value, {file, line});
  for (uint32_t lane = 0; lane < 32; ++lane) value = min(value, emulator::from_lane<uint32_t>(slots, lane));
  return value;
}
inline uint32_t __reduce_add_sync(uint32_t mask, uint32_t value, EMULATOR_WHERE) {
  auto* slots = emulator::meet(mask, &value, sizeof value, {file, line});
  uint32_t sum = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) sum += emulator::from_lane<uint32_t>(slots, lane);
  return sum;
}

// Fibers of one thread: nothing comes between.
template <class T>
T atomicAdd(T* at, T value) {
  T old = *at;
  *at = T(old + value);
  return old;
}
template <class T>
T atomicMax(T* at, T value) {
  T old = *at;
  *at = max(old, value);
  return old;
}
template <class T>
T atomicExch(T* at, T value) {
  return std::exchange(*at, value);
}
inline void __threadfence() {}

// --- the runtime -----------------------------------------------------------------------------------------------------
using cudaError_t = int32_t;
using cudaStream_t = void*;
constexpr cudaError_t cudaSuccess = 0;
#define CUDART_VERSION 12040

enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  uint32_t numAttrs;
};

namespace emulator {
size_t& shared_limit(const void* kernel);
void loaded(const void* kernel);
void launched(const void* kernel);
int32_t& last_error();
}  // namespace emulator

template <class... Params, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...), Args&&... args) {
  std::tuple<Params...> given(std::forward<Args>(args)...);
  emulator::launched(reinterpret_cast<const void*>(kernel));
  bool early = config->numAttrs > 0 && config->attrs->val.programmaticStreamSerializationAllowed;
  return emulator::last_error() = emulator::launch({config->gridDim, config->blockDim, config->dynamicSmemBytes, early},
                                                   emulator::shared_limit(reinterpret_cast<const void*>(kernel)),
                                                   [&] { std::apply(kernel, given); });
}

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
template <class... Params>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Params...), cudaFuncAttribute, int bytes) {
  if (bytes < 0 || size_t(bytes) > emulator::kSharedOfHopper) return emulator::last_error() = 1;
  emulator::shared_limit(reinterpret_cast<const void*>(kernel)) = size_t(bytes);
  return cudaSuccess;
}
struct cudaFuncAttributes {
  int ptxVersion, numRegs;
};
template <class... Params>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, void (*kernel)(Params...)) {
  emulator::loaded(reinterpret_cast<const void*>(kernel));
  out->ptxVersion = 90, out->numRegs = 168;
  return cudaSuccess;
}
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor };
inline cudaError_t cudaDeviceGetAttribute(int* out, cudaDeviceAttr which, int) {
  *out = which == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* out) {
  *out = CUDART_VERSION;
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return std::exchange(emulator::last_error(), cudaSuccess); }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
