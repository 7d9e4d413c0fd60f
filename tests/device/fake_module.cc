// libweir_cuda.so without CUDA: the table of device/cuda/abi.h on host memory, everything done at once. The environment
// variable WEIR_FAKE_CUDA is asked at every call: "sticky" (every operation fails with a sticky code), "old" (the
// driver is of an older major version), "none" (no devices), "slow" (events never happen), "ungraphed" (captures fail).
#include <cstdlib>
#include <cstring>

#include "device/cuda/abi.h"

namespace weir::device::cuda {
namespace {

constexpr Code kSticky = 700, kNoMemory = 2, kNoDevice = 100, kNoCapture = 801;

bool is(const char* word) {
  const char* set = std::getenv("WEIR_FAKE_CUDA");
  return set && std::strcmp(set, word) == 0;
}
Code now() { return is("sticky") ? kSticky : 0; }
char something;

constexpr Api kApi = {
    kAbi,
    13000,
    [](int32_t* version) -> Code {
      *version = is("old") ? 12080 : 13010;
      return 0;
    },
    [](int32_t* devices) -> Code {
      *devices = 2;
      return is("none") ? kNoDevice : 0;
    },
    [](int32_t device, Properties* out) -> Code {
      *out = {};
      std::strcpy(out->name, "Fake H100");
      std::strcpy(out->bus_id, device ? "0000:02:00.0" : "0000:01:00.0");
      out->memory = uint64_t(80) << 30, out->major = 9, out->minor = 0, out->multiprocessors = 132;
      return 0;
    },
    [](Code code) -> const char* { return code == kSticky ? "an illegal memory access was encountered" : "an error"; },
    [](Code code) -> int32_t { return code == kSticky; },
    [](Code code) -> int32_t { return code == kNoMemory; },
    [](int32_t, size_t bytes, void** out) -> Code {
      if (bytes > size_t(1) << 32) return kNoMemory;
      *out = std::malloc(bytes);
      return now();
    },
    [](int32_t, void* memory) -> Code {
      std::free(memory);
      return 0;
    },
    [](int32_t, void*, size_t) -> Code { return 0; },
    [](int32_t, void*) -> Code { return 0; },
    [](int32_t, int32_t, void** out) -> Code {
      *out = &something;
      return now();
    },
    [](int32_t, void*) -> Code { return 0; },
    [](int32_t, void** out) -> Code {
      *out = &something;
      return now();
    },
    [](int32_t, void*) -> Code { return 0; },
    [](int32_t, void*, void*) -> Code { return now(); },
    [](int32_t, void*) -> Code { return is("slow") ? kNotYet : now(); },
    [](int32_t, void*, void*) -> Code { return now(); },
    [](int32_t, void*, Way, const Copy* copies, size_t count) -> Code {
      for (size_t i = 0; i < count; ++i) std::memcpy(copies[i].to, copies[i].from, copies[i].bytes);
      return now();
    },
    [](int32_t, void*, void (*done)(void*), void* with) -> Code {
      done(with);
      return now();
    },
    [](int32_t) -> Code { return now(); },
    [](int32_t, void*) -> Code { return is("ungraphed") ? kNoCapture : now(); },
    [](int32_t, void*, void** graph) -> Code {
      *graph = &something;
      return now();
    },
    [](int32_t, void*, void*) -> Code { return now(); },
    [](int32_t, void*) -> Code { return 0; },
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Api* weir_cuda_open(uint32_t abi) {
  return abi == kAbi ? &kApi : nullptr;
}

}  // namespace weir::device::cuda
