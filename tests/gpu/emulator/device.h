// The emulator's device: everything is done when a call returns, and a buffer ends at a page that is not mapped.
#pragma once

#include <cstring>

#include "device/device.h"
#include "emulator.h"

namespace weir::gpu {

class EmulatedDevice final : public device::Device {
 public:
  EmulatedDevice() : Device(info_of()) {}

 private:
  static Info info_of() {
    Info info;
    info.id = "emulated", info.name = "emulated GPU", info.major = 8;
    return info;
  }
  base::Result<void*> do_make(device::Kind kind, size_t bytes, Priority) override {
    return kind == device::Kind::kBuffer ? static_cast<void*>(emulator::guarded(bytes)) : this;
  }
  void do_free(device::Kind kind, void* raw) override {
    if (kind == device::Kind::kBuffer) emulator::drop_guarded(static_cast<std::byte*>(raw));
  }
  base::Status do_copy(void*, device::Way, std::span<const device::Copy> copies) override {
    for (const auto& c : copies)
      if (c.bytes > 0) std::memcpy(c.to, c.from, c.bytes);
    return {};
  }
  base::Status do_record(void*, void*) override { return {}; }
  base::Status do_wait(void*, void*) override { return {}; }
  base::Result<Progress> do_progress(void*) override { return Progress::kDone; }
  base::Status do_then(void*, device::Done& done) override {
    done.done();
    return {};
  }
  base::Status do_pin(std::byte*, size_t) override { return {}; }
  void do_unpin(std::byte*, size_t) override {}
  base::Status do_restart() override { return {}; }
};

}  // namespace weir::gpu
