// libweir_cuda.so without CUDA: the table of device/cuda/abi.h on host memory, everything done at once, and as strict
// as a driver: it counts memory, knows whose a stream or an event is, refuses in a capture what a capture does not
// allow, and after a sticky error refuses everything until the reset, which frees all that was made.
//
// The environment variable WEIR_FAKE_CUDA is asked at every call, or, where it is "@FILE", the file: "sticky" (every
// operation fails with a sticky code), "lost" (one does, and a reset mends it), "old" (the driver is of an older major
// version), "none" (no devices), "slow" (events never happen), "ungraphed" (captures fail), "unpinned" (no memory can
// be pinned), "turing" (the compute capability is 7.5). WEIR_FAKE_CUDA_MEMORY: bytes of each device; else 80 GiB.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "device/cuda/abi.h"
#include "device/cuda/sticky.h"

#ifndef WEIR_FAKE_RUNTIME
#define WEIR_FAKE_RUNTIME 13000
#endif

namespace weir::device::cuda {
namespace {

// cudaError_t's numbers, as driver_types.h has them.
constexpr Code kInvalidValue = 1, kNoMemory = 2, kNoDevice = 100, kBadDevice = 101, kBadHandle = 400,
               kIllegalAddress = 700, kNotRegistered = 713, kPinFailed = 304, kNoCapture = 801, kInCapture = 900,
               kBrokenCapture = 901;
constexpr int32_t kDevices = 2;

std::string mode() {
  const char* set = std::getenv("WEIR_FAKE_CUDA");
  if (!set || *set != '@') return set ? set : "";
  std::string said;
  std::ifstream(set + 1) >> said;
  return said;
}
bool is(const char* word) { return mode() == word; }

uint64_t capacity() {
  const char* set = std::getenv("WEIR_FAKE_CUDA_MEMORY");
  return set ? std::strtoull(set, nullptr, 10) : uint64_t(80) << 30;
}

enum class Kind : uint8_t { kMemory, kStream, kEvent, kGraph };
struct Thing {
  Kind kind;
  int32_t device;
  size_t bytes = 0;
  bool captures = false, spoilt = false;  // of a stream
};

class Driver {
 public:
  // Every call of an operation begins with this. 0, or why it cannot be.
  Code enter(int32_t device, bool allowed_in_capture) {
    if (device < 0 || device >= kDevices) return kBadDevice;
    const bool lost_now = is("lost") && !std::exchange(was_lost_, true);
    if ((lost_now || is("sticky")) && lost_[device] == 0) lost_[device] = kIllegalAddress;
    if (lost_[device] != 0) return lost_[device];
    if (allowed_in_capture || !capturing_) return 0;
    if (auto found = things_.find(capturing_); found != things_.end()) found->second.spoilt = true;
    return kInCapture;
  }
  Code make(Kind kind, int32_t device, size_t bytes, void** out) {
    if (bytes > free(device)) return kNoMemory;
    void* raw = std::malloc(std::max<size_t>(bytes, 1));
    if (!raw) return kNoMemory;
    things_[raw] = {kind, device, bytes};
    used_[device] += bytes;
    *out = raw;
    return 0;
  }
  Code destroy(Kind kind, void* raw) {
    auto found = things_.find(raw);
    if (found == things_.end() || found->second.kind != kind) return kind == Kind::kMemory ? kInvalidValue : kBadHandle;
    used_[found->second.device] -= found->second.bytes;
    things_.erase(found);
    std::free(raw);
    return 0;
  }
  // Null: there is no such thing on the device.
  Thing* find(Kind kind, int32_t device, void* raw) {
    auto found = things_.find(raw);
    return found != things_.end() && found->second.kind == kind && found->second.device == device ? &found->second
                                                                                                  : nullptr;
  }
  uint64_t free(int32_t device) const { return capacity() - std::min(capacity(), used_[device]); }

  Code pin(void* memory, size_t bytes) {
    if (is("unpinned")) return kPinFailed;
    return pins_.emplace(memory, bytes).second ? 0 : kInvalidValue;
  }
  Code unpin(void* memory) { return pins_.erase(memory) == 1 ? 0 : kNotRegistered; }

  Code begin_capture(Thing& stream, void* raw) {
    if (is("ungraphed") || capturing_) return kNoCapture;
    stream.captures = true, stream.spoilt = false;
    capturing_ = raw;
    return 0;
  }
  Code end_capture(Thing& stream, int32_t device, void** graph) {
    if (!stream.captures) return kInvalidValue;
    capturing_ = nullptr, stream.captures = false;
    return stream.spoilt ? kBrokenCapture : make(Kind::kGraph, device, 0, graph);
  }

  void reset(int32_t device) {
    capturing_ = nullptr;
    for (auto at = things_.begin(); at != things_.end();) {
      if (at->second.device == device) std::free(at->first);
      at = at->second.device == device ? things_.erase(at) : std::next(at);
    }
    pins_.clear();
    used_[device] = 0, lost_[device] = 0;
  }
  std::mutex mutex;

 private:
  std::map<void*, Thing> things_;
  std::map<void*, size_t> pins_;
  std::array<uint64_t, kDevices> used_{};
  std::array<Code, kDevices> lost_{};
  bool was_lost_ = false;                // by "lost"
  static thread_local void* capturing_;  // the stream that this thread captures
};
thread_local void* Driver::capturing_ = nullptr;

Driver& driver() {
  static Driver* all = new Driver;  // handles outlive everything
  return *all;
}

constexpr bool kInCaptureToo = true, kNotInCapture = false;

template <class Call>
Code on(int32_t device, bool allowed_in_capture, Call&& call) {
  std::lock_guard lock(driver().mutex);
  if (auto code = driver().enter(device, allowed_in_capture)) return code;
  return call(driver());
}

// An operation on a stream, and perhaps an event, of the device.
template <class Call>
Code with(int32_t device, void* stream, void* event, Call&& call) {
  return on(device, kInCaptureToo, [&](Driver& d) -> Code {
    if (!d.find(Kind::kStream, device, stream)) return kBadHandle;
    if (event && !d.find(Kind::kEvent, device, event)) return kBadHandle;
    return call(d);
  });
}

Code no_more() { return 0; }

constexpr Api kApi = {
    kAbi,
    WEIR_FAKE_RUNTIME,
    [](int32_t* version) -> Code {
      *version = is("old") ? 12080 : 13010;
      return 0;
    },
    [](int32_t* devices) -> Code {
      *devices = kDevices;
      return is("none") ? kNoDevice : 0;
    },
    [](int32_t device, Properties* out) -> Code {
      *out = {};
      std::strcpy(out->name, "Fake H100");
      std::strcpy(out->bus_id, device ? "0000:02:00.0" : "0000:01:00.0");
      out->memory = capacity(), out->multiprocessors = 132;
      out->major = is("turing") ? 7 : 9, out->minor = is("turing") ? 5 : 0;
      return 0;
    },
    [](Code code) -> const char* {
      if (code == kIllegalAddress) return "an illegal memory access was encountered";
      return code == kNoMemory ? "out of memory" : "an error";
    },
    [](Code code) -> int32_t { return is_lost_by(code); },
    [](Code code) -> int32_t { return code == kNoMemory; },
    [](int32_t device, size_t bytes, void** out) -> Code {
      return on(device, kNotInCapture, [&](Driver& d) { return d.make(Kind::kMemory, device, bytes, out); });
    },
    [](int32_t device, void* memory) -> Code {
      return on(device, kNotInCapture, [&](Driver& d) { return d.destroy(Kind::kMemory, memory); });
    },
    [](int32_t device, uint64_t* free, uint64_t* total) -> Code {
      return on(device, kNotInCapture, [&](Driver& d) {
        *free = d.free(device), *total = capacity();
        return no_more();
      });
    },
    [](int32_t device, void* memory, size_t bytes) -> Code {
      return on(device, kNotInCapture, [&](Driver& d) { return d.pin(memory, bytes); });
    },
    [](int32_t device, void* memory) -> Code {
      return on(device, kNotInCapture, [&](Driver& d) { return d.unpin(memory); });
    },
    [](int32_t device, int32_t, void** out) -> Code {
      return on(device, kNotInCapture, [&](Driver& d) { return d.make(Kind::kStream, device, 0, out); });
    },
    [](int32_t device, void* stream) -> Code {
      return on(device, kNotInCapture, [&](Driver& d) { return d.destroy(Kind::kStream, stream); });
    },
    [](int32_t device, void** out) -> Code {
      return on(device, kInCaptureToo, [&](Driver& d) { return d.make(Kind::kEvent, device, 0, out); });
    },
    [](int32_t device, void* event) -> Code {
      return on(device, kInCaptureToo, [&](Driver& d) { return d.destroy(Kind::kEvent, event); });
    },
    [](int32_t device, void* event, void* stream) -> Code {
      return with(device, stream, event, [](Driver&) { return no_more(); });
    },
    [](int32_t device, void* event) -> Code {
      return on(device, kNotInCapture, [&](Driver& d) -> Code {
        if (!d.find(Kind::kEvent, device, event)) return kBadHandle;
        return is("slow") ? kNotYet : 0;
      });
    },
    [](int32_t device, void* stream, void* event) -> Code {
      return with(device, stream, event, [](Driver&) { return no_more(); });
    },
    [](int32_t device, void* stream, Way, const Copy* copies, size_t count) -> Code {
      return with(device, stream, nullptr, [&](Driver&) {
        for (size_t i = 0; i < count; ++i) std::memcpy(copies[i].to, copies[i].from, copies[i].bytes);
        return no_more();
      });
    },
    [](int32_t device, void* stream, void (*done)(void*), void* data) -> Code {
      auto code = with(device, stream, nullptr, [](Driver&) { return no_more(); });
      if (code == 0) done(data);
      return code;
    },
    [](int32_t device) -> Code {
      std::lock_guard lock(driver().mutex);
      if (is("sticky")) return kIllegalAddress;
      driver().reset(device);
      return 0;
    },
    [](int32_t device, void* stream) -> Code {
      return with(device, stream, nullptr,
                  [&](Driver& d) { return d.begin_capture(*d.find(Kind::kStream, device, stream), stream); });
    },
    [](int32_t device, void* stream, void** graph) -> Code {
      return with(device, stream, nullptr,
                  [&](Driver& d) { return d.end_capture(*d.find(Kind::kStream, device, stream), device, graph); });
    },
    [](int32_t device, void* stream, void* graph) -> Code {
      return with(device, stream, nullptr,
                  [&](Driver& d) { return d.find(Kind::kGraph, device, graph) ? no_more() : kBadHandle; });
    },
    [](int32_t device, void* graph) -> Code {
      return on(device, kInCaptureToo, [&](Driver& d) { return d.destroy(Kind::kGraph, graph); });
    },
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Api* weir_cuda_open(uint32_t abi) {
  return abi == kAbi ? &kApi : nullptr;
}

}  // namespace weir::device::cuda
