// The host as a device: everything is done when the call returns, and all memory counts as pinned. Where nothing else
// is there, code written for devices runs on this. Tests derive from it, to give buffers of another kind.
#pragma once

#include "device/device.h"

namespace weir::device {

class HostDevice : public Device {
 public:
  HostDevice();
  ~HostDevice() override;

 protected:
  base::Result<void*> do_make(Kind kind, size_t bytes, Priority priority) override;
  void do_free(Kind kind, void* raw) override;
  base::Result<Memory> do_memory() override;
  base::Status do_copy(void* stream, Way way, std::span<const Copy> copies) override;
  base::Status do_record(void* event, void* stream) override;
  base::Status do_wait(void* stream, void* event) override;
  base::Result<Progress> do_progress(void* event) override;
  base::Status do_then(void* stream, Done& done) override;
  base::Status do_run(void* stream, Work work) override;
  base::Status do_capture(void* stream) override;
  base::Result<void*> do_captured(void* stream) override;
  base::Status do_launch(void* stream, void* graph) override;
  base::Status do_pin(std::byte*, size_t) override { return {}; }
  void do_unpin(std::byte*, size_t) override {}
  base::Status do_restart() override;
};

}  // namespace weir::device
