// The module's part of device/cuda/abi.h, on the CUDA runtime.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "device/cuda/abi.h"
#include "device/cuda/sticky.h"

namespace weir::device::cuda {
namespace {

Code code(cudaError_t error) {
  // The runtime also keeps the last error of the thread; nobody asks for it.
  if (error != cudaSuccess) cudaGetLastError();
  return Code(error);
}

// Runs one call on the device.
template <class Call>
Code on(int32_t device, Call&& call) {
  if (auto error = cudaSetDevice(device); error != cudaSuccess) return code(error);
  return code(call());
}

auto stream(void* raw) { return static_cast<cudaStream_t>(raw); }
auto event(void* raw) { return static_cast<cudaEvent_t>(raw); }

cudaMemcpyKind kind(Way way) {
  switch (way) {
    case Way::kToDevice: return cudaMemcpyHostToDevice;
    case Way::kToHost: return cudaMemcpyDeviceToHost;
    case Way::kOnDevice: break;
  }
  return cudaMemcpyDeviceToDevice;
}

Code driver(int32_t* version) { return code(cudaDriverGetVersion(version)); }
Code count(int32_t* devices) { return code(cudaGetDeviceCount(devices)); }

Code describe(int32_t device, Properties* out) {
  cudaDeviceProp properties;
  if (auto error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess) return code(error);
  *out = {};
  std::string_view name = properties.name;
  name.copy(out->name, sizeof(out->name) - 1);
  out->memory = properties.totalGlobalMem;
  out->major = properties.major, out->minor = properties.minor;
  out->multiprocessors = properties.multiProcessorCount;
  return code(cudaDeviceGetPCIBusId(out->bus_id, sizeof(out->bus_id), device));
}

const char* words(Code c) { return cudaGetErrorString(cudaError_t(c)); }

static_assert(cudaErrorIllegalAddress == 700 && cudaErrorDevicesUnavailable == 46 && cudaErrorECCUncorrectable == 214 &&
              cudaErrorNvlinkUncorrectable == 220 && cudaErrorContextIsDestroyed == 709 &&
              cudaErrorSystemNotReady == 802 && cudaErrorUnknown == 999);
int32_t is_sticky(Code c) { return is_lost_by(c); }

int32_t is_out_of_memory(Code c) { return cudaError_t(c) == cudaErrorMemoryAllocation; }

Code allocate(int32_t device, size_t bytes, void** out) {
  return on(device, [&] { return cudaMalloc(out, std::max<size_t>(bytes, 1)); });
}
Code release(int32_t device, void* memory) {
  return on(device, [&] { return cudaFree(memory); });
}

Code memory(int32_t device, uint64_t* free, uint64_t* total) {
  return on(device, [&] {
    size_t left = 0, all = 0;
    auto error = cudaMemGetInfo(&left, &all);
    *free = left, *total = all;
    return error;
  });
}

Code host_register(int32_t device, void* memory, size_t bytes) {
  return on(device, [&] { return cudaHostRegister(memory, bytes, cudaHostRegisterPortable); });
}
Code host_unregister(int32_t device, void* memory) {
  return on(device, [&] { return cudaHostUnregister(memory); });
}

Code stream_create(int32_t device, int32_t urgent, void** out) {
  return on(device, [&] {
    int least = 0, most = 0;  // a smaller number is more urgent
    if (auto error = cudaDeviceGetStreamPriorityRange(&least, &most); error != cudaSuccess) return error;
    cudaStream_t made = nullptr;
    auto error = cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, urgent ? most : least);
    *out = made;
    return error;
  });
}
Code stream_destroy(int32_t device, void* raw) {
  return on(device, [&] { return cudaStreamDestroy(stream(raw)); });
}

// Without timing, and without blocking: such an event is the cheapest to record and to query.
Code event_create(int32_t device, void** out) {
  return on(device, [&] {
    cudaEvent_t made = nullptr;
    auto error = cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
    *out = made;
    return error;
  });
}
Code event_destroy(int32_t device, void* raw) {
  return on(device, [&] { return cudaEventDestroy(event(raw)); });
}
Code event_record(int32_t device, void* raw, void* on_stream) {
  return on(device, [&] { return cudaEventRecord(event(raw), stream(on_stream)); });
}

Code event_query(int32_t device, void* raw) {
  if (auto error = cudaSetDevice(device); error != cudaSuccess) return code(error);
  auto error = cudaEventQuery(event(raw));
  if (error != cudaErrorNotReady) return code(error);
  cudaGetLastError();
  return kNotYet;
}

Code stream_wait(int32_t device, void* raw, void* on_event) {
  return on(device, [&] { return cudaStreamWaitEvent(stream(raw), event(on_event), 0); });
}

#if CUDART_VERSION >= 13000
// One call for many copies. The driver may be older than the runtime and not know it.
cudaError_t copy_batch(void* raw, const Copy* copies, size_t count) {
  std::vector<void*> to(count);
  std::vector<const void*> from(count);
  std::vector<size_t> bytes(count);
  for (size_t i = 0; i < count; ++i) to[i] = copies[i].to, from[i] = copies[i].from, bytes[i] = copies[i].bytes;
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t first = 0;
  return cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), count, &attributes, &first, 1, stream(raw));
}
#endif

Code copy(int32_t device, void* raw, Way way, const Copy* copies, size_t count) {
  return on(device, [&]() -> cudaError_t {
#if CUDART_VERSION >= 13000
    if (count > 1) {
      auto error = copy_batch(raw, copies, count);
      if (error != cudaErrorCallRequiresNewerDriver && error != cudaErrorNotSupported) return error;
      cudaGetLastError();
    }
#endif
    for (size_t i = 0; i < count; ++i) {
      auto error = cudaMemcpyAsync(copies[i].to, copies[i].from, copies[i].bytes, kind(way), stream(raw));
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  });
}

Code then(int32_t device, void* raw, void (*done)(void*), void* with) {
  return on(device, [&] { return cudaLaunchHostFunc(stream(raw), done, with); });
}

// Other threads may allocate meanwhile: only what this one does is forbidden what a capture forbids.
Code capture_begin(int32_t device, void* raw) {
  return on(device, [&] { return cudaStreamBeginCapture(stream(raw), cudaStreamCaptureModeThreadLocal); });
}

Code capture_end(int32_t device, void* raw, void** out) {
  return on(device, [&] {
    cudaGraph_t graph = nullptr;
    if (auto error = cudaStreamEndCapture(stream(raw), &graph); error != cudaSuccess) return error;
    cudaGraphExec_t made = nullptr;
    auto error = cudaGraphInstantiateWithFlags(&made, graph, 0);
    cudaGraphDestroy(graph);
    *out = made;
    return error;
  });
}

Code graph_launch(int32_t device, void* raw, void* graph) {
  return on(device, [&] { return cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream(raw)); });
}
Code graph_destroy(int32_t device, void* graph) {
  return on(device, [&] { return cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); });
}

Code reset(int32_t device) {
  return on(device, [] { return cudaDeviceReset(); });
}

constexpr Api kApi = {kAbi,
                      CUDART_VERSION,
                      driver,
                      count,
                      describe,
                      words,
                      is_sticky,
                      is_out_of_memory,
                      allocate,
                      release,
                      memory,
                      host_register,
                      host_unregister,
                      stream_create,
                      stream_destroy,
                      event_create,
                      event_destroy,
                      event_record,
                      event_query,
                      stream_wait,
                      copy,
                      then,
                      reset,
                      capture_begin,
                      capture_end,
                      graph_launch,
                      graph_destroy};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Api* weir_cuda_open(uint32_t abi) {
  return abi == kAbi ? &kApi : nullptr;
}

}  // namespace weir::device::cuda
