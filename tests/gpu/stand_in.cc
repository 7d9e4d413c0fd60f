// With tests/device/fake_module.cc: a libweir_cuda.so whose devices are host memory and whose kernels are the host
// versions. What ./dev gpu does on a GPU is rehearsed with it: `cuda:0`, pinned memory and all.
#include "engines/llm/cuda/reference.h"

namespace weir::llm::cuda {

extern "C" __attribute__((visibility("default"))) const Kernels* weir_cuda_llm(uint32_t abi);
extern "C" const Kernels* weir_cuda_llm(uint32_t abi) { return abi == kKernelsAbi ? &reference::table() : nullptr; }

}  // namespace weir::llm::cuda
