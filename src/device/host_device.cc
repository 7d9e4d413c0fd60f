#include "device/host_device.h"

#include <unistd.h>

#include <cstring>
#include <memory>
#include <new>

#include "device/recording.h"

namespace weir::device {
namespace {

constexpr std::align_val_t kHostAlign{256};

Device::Info host_info() {
  Device::Info info;
  info.id = "host", info.name = "host memory";
  info.memory = uint64_t(::sysconf(_SC_PHYS_PAGES)) * uint64_t(::sysconf(_SC_PAGESIZE));
  return info;
}

char something;  // a place to point at: an event of the host has no state

struct HostStream {
  std::unique_ptr<Recording> recording;  // while it captures
};
HostStream& stream_of(void* raw) { return *static_cast<HostStream*>(raw); }

base::Status outcome(int32_t code) {
  if (code == 0) return {};
  return base::failure(base::Code::kInternal, "host: work failed with code " + std::to_string(code));
}

}  // namespace

HostDevice::HostDevice() : Device(host_info()) {}
HostDevice::~HostDevice() = default;

base::Result<void*> HostDevice::do_make(Kind kind, size_t bytes, Priority) {
  if (kind == Kind::kStream) return static_cast<void*>(new HostStream);
  if (kind != Kind::kBuffer) return static_cast<void*>(&something);
  void* raw = ::operator new(bytes, kHostAlign, std::nothrow);
  if (!raw) return base::failure(base::Code::kResourceExhausted, "the host has no memory left");
  return raw;
}

void HostDevice::do_free(Kind kind, void* raw) {
  if (kind == Kind::kBuffer) ::operator delete(raw, kHostAlign);
  if (kind == Kind::kStream) delete static_cast<HostStream*>(raw);
  if (kind == Kind::kGraph) delete static_cast<Recording*>(raw);
}

// Linux overcommits memory, so that no allocation is refused for want of it.
base::Result<Device::Memory> HostDevice::do_memory() { return Memory{UINT64_MAX, info().memory}; }

base::Status HostDevice::do_copy(void* stream, Way, std::span<const Copy> copies) {
  Recording::Op op{{copies.begin(), copies.end()}, {}};
  if (auto& recording = stream_of(stream).recording)
    recording->ops.push_back(std::move(op));
  else
    Recording::run(op);
  return {};
}

base::Status HostDevice::do_run(void* stream, Work work) {
  auto& recording = stream_of(stream).recording;
  if (!recording) return outcome(work(nullptr));
  recording->ops.push_back({{}, std::move(work)});
  return {};
}

base::Status HostDevice::do_capture(void* stream) {
  stream_of(stream).recording = std::make_unique<Recording>();
  return {};
}
base::Result<void*> HostDevice::do_captured(void* stream) {
  return static_cast<void*>(stream_of(stream).recording.release());
}
base::Status HostDevice::do_launch(void*, void* graph) { return outcome(static_cast<Recording*>(graph)->run()); }

base::Status HostDevice::do_record(void*, void*) { return {}; }
base::Status HostDevice::do_wait(void*, void*) { return {}; }
base::Result<Device::Progress> HostDevice::do_progress(void*) { return Progress::kDone; }

base::Status HostDevice::do_then(void*, Done& done) {
  done.done();
  return {};
}

base::Status HostDevice::do_restart() { return {}; }

}  // namespace weir::device
