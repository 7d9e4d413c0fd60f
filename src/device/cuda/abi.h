// The table between weir and libweir_cuda.so, which is all of weir that links CUDA's runtime. weir opens the module
// with dlopen, where there is one, and works through this. Standard library only.
//
// Codes are cudaError_t as numbers: 0 is success. Every function is called from any thread and selects its device
// itself. A change of this file is a new kAbi; the two sides are built together, so there is no compatibility to keep.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/copy.h"

namespace weir::device::cuda {

inline constexpr uint32_t kAbi = 3;
inline constexpr const char* kEntry = "weir_cuda_open";

using Code = int32_t;
inline constexpr Code kNotYet = -1;  // of event_query

struct Properties {
  char name[128];
  char bus_id[32];
  uint64_t memory;
  int32_t major, minor, multiprocessors;
};

struct Api {
  uint32_t abi;
  int32_t runtime;                   // version of the runtime in the module: 13000
  Code (*driver)(int32_t* version);  // 0 = there is no driver
  Code (*count)(int32_t* devices);
  Code (*describe)(int32_t device, Properties* out);
  const char* (*words)(Code code);  // for people
  // 1: the device's context is lost; every later call would fail, too.
  int32_t (*is_sticky)(Code code);
  int32_t (*is_out_of_memory)(Code code);

  Code (*allocate)(int32_t device, size_t bytes, void** out);
  Code (*free)(int32_t device, void* memory);
  Code (*memory)(int32_t device, uint64_t* free, uint64_t* total);    // bytes; what other processes take is not free
  Code (*host_register)(int32_t device, void* memory, size_t bytes);  // for all devices
  Code (*host_unregister)(int32_t device, void* memory);

  Code (*stream_create)(int32_t device, int32_t urgent, void** out);
  Code (*stream_destroy)(int32_t device, void* stream);
  Code (*event_create)(int32_t device, void** out);
  Code (*event_destroy)(int32_t device, void* event);
  Code (*event_record)(int32_t device, void* event, void* stream);
  Code (*event_query)(int32_t device, void* event);  // 0, kNotYet, or an error
  Code (*stream_wait)(int32_t device, void* stream, void* event);
  Code (*copy)(int32_t device, void* stream, Way way, const Copy* copies, size_t count);
  Code (*then)(int32_t device, void* stream, void (*done)(void*), void* with);
  Code (*reset)(int32_t device);

  // All that the calling thread queues on the stream from now on becomes a graph. capture_end ends that also where
  // something failed meanwhile, and then says what.
  Code (*capture_begin)(int32_t device, void* stream);
  Code (*capture_end)(int32_t device, void* stream, void** graph);
  Code (*graph_launch)(int32_t device, void* stream, void* graph);
  Code (*graph_destroy)(int32_t device, void* graph);
};

// Null when the module is of another kAbi.
using Open = const Api* (*)(uint32_t abi);

}  // namespace weir::device::cuda
