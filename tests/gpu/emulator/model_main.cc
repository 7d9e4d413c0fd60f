// The whole transformer with the kernels' own sources, on the emulator.
#include "device.h"
#include "model.h"

namespace weir::llm::cuda {
extern "C" const Kernels* weir_cuda_llm(uint32_t abi);
}

int main() {
  using namespace weir;
  gpu::EmulatedDevice device;
  gpu::Lab lab(
      device, llm::cuda::weir_cuda_llm(llm::cuda::kKernelsAbi),
      [](llm::cuda::Code code) { return "code " + std::to_string(code) + ": " + emulator::failure(); },
      gpu::Lab::Scale::kSmall);
  gpu::check_model(lab);
  return lab.finish("/dev/null");
}
