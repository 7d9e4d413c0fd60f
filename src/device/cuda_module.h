// The module libweir_cuda.so, opened at run time; weir itself links nothing of CUDA.
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

  // A symbol of the module, for what the device room does not know (kernels of an engine), or null.
  void* symbol(const char* name) const;
};

// Where the module is looked for: the one configured, or WEIR_CUDA_MODULE, or beside the executable and where it is
// built.
std::vector<std::string> module_places(const std::string& configured);

// Errors, all FAILED_PRECONDITION with text "no CUDA: …": the driver's library is missing, the module is missing or of
// another build, the driver is too old, there is no device. `driver_library` is libcuda.so.1, but for tests.
base::Result<CudaModule> open_cuda(const std::vector<std::string>& places, const char* driver_library = "libcuda.so.1");

}  // namespace weir::device
