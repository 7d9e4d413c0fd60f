#include "device/host_device.h"

#include <unistd.h>

#include <cstring>
#include <new>

namespace weir::device {
namespace {

constexpr std::align_val_t kAlign{256};

Device::Info host_info() {
  Device::Info info;
  info.id = "host", info.name = "host memory";
  info.memory = uint64_t(::sysconf(_SC_PHYS_PAGES)) * uint64_t(::sysconf(_SC_PAGESIZE));
  return info;
}

char something;  // streams and events have nothing to hold

}  // namespace

HostDevice::HostDevice() : Device(host_info()) {}
HostDevice::~HostDevice() = default;

base::Result<void*> HostDevice::do_make(Kind kind, size_t bytes, Priority) {
  if (kind != Kind::kBuffer) return static_cast<void*>(&something);
  void* raw = ::operator new(bytes, kAlign, std::nothrow);
  if (!raw) return base::failure(base::Code::kResourceExhausted, "the host has no memory left");
  return raw;
}

void HostDevice::do_free(Kind kind, void* raw) {
  if (kind == Kind::kBuffer) ::operator delete(raw, kAlign);
}

base::Status HostDevice::do_copy(void*, Way, std::span<const Copy> copies) {
  for (const auto& c : copies)
    if (c.bytes > 0) std::memcpy(c.to, c.from, c.bytes);
  return {};
}

base::Status HostDevice::do_record(void*, void*) { return {}; }
base::Status HostDevice::do_wait(void*, void*) { return {}; }
base::Result<Device::Progress> HostDevice::do_progress(void*) { return Progress::kDone; }

base::Status HostDevice::do_then(void*, Done& done) {
  done.done();
  return {};
}

base::Status HostDevice::do_restart() { return {}; }

}  // namespace weir::device
