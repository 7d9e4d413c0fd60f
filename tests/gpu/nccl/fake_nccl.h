// The fake libnccl.so.2: notes what it is called with, fails and hangs on request.
#pragma once

#include <atomic>
#include <cstddef>

namespace weir::gpu {

struct FakeNccl {
  std::atomic<int> fails{0};       // with this code, all but the abort
  std::atomic<int> broken{0};      // what ncclCommGetAsyncError tells
  std::atomic<bool> hangs{false};  // a collective does not return before the abort
  std::atomic<int> graphs{0};      // that have captured a communicator: none is freed before they are gone
  std::atomic<int> opened{0}, destroyed{0}, aborted{0}, freed{0}, queued{0};
  // The last collective.
  const void* from = nullptr;
  void *to = nullptr, *stream = nullptr;
  size_t count = 0;
  int type = -1, operation = -1, root = -1, rank = -1;
};

}  // namespace weir::gpu

extern "C" weir::gpu::FakeNccl* weir_fake_nccl();
