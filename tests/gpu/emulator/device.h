// The host as a device, but a buffer starts as NaN and ends at a page that is not mapped.
#pragma once

#include "device/host_device.h"
#include "emulator.h"

namespace weir::gpu {

class EmulatedDevice final : public device::HostDevice {
 private:
  base::Result<void*> do_make(device::Kind kind, size_t bytes, Priority priority) override {
    if (kind != device::Kind::kBuffer) return HostDevice::do_make(kind, bytes, priority);
    return static_cast<void*>(emulator::guarded(bytes));
  }
  void do_free(device::Kind kind, void* raw) override {
    if (kind != device::Kind::kBuffer) return HostDevice::do_free(kind, raw);
    emulator::drop_guarded(static_cast<std::byte*>(raw));
  }
};

}  // namespace weir::gpu
