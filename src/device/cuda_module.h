// The module libweir_cuda.so, opened at run time; weir itself links nothing of CUDA. There may be several, each of
// another CUDA: the first that this machine's driver can run is taken.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/cuda/abi.h"

namespace weir::device {

struct CudaModule {
  const cuda::Api* api = nullptr;
  void* library = nullptr;  // never closed: the driver keeps threads of its own
  std::string path;
  int32_t devices = 0;
  int32_t driver = 0, runtime = 0;  // versions: 13000
  std::string passed_over;          // why an earlier module was not taken; empty: it is the first

  // A symbol of the module, for what the device room does not know (kernels of an engine), or null.
  void* symbol(const char* name) const;
};

// Where the modules are looked for, the newest CUDA's first in each place: the one configured, or WEIR_CUDA_MODULE, or
// beside the executable and where they are built.
std::vector<std::string> module_places(const std::string& configured);

// Errors, all FAILED_PRECONDITION with text "no CUDA: …": the driver's library is missing, the module is missing or of
// another build, the driver is too old for all modules, there is no device. `driver_library` is libcuda.so.1, but for
// tests.
base::Result<CudaModule> open_cuda(const std::vector<std::string>& places, const char* driver_library = "libcuda.so.1");

}  // namespace weir::device
