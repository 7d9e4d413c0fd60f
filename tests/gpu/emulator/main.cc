// Every kernel against its host version, on the emulator.
#include "device.h"
#include "lab.h"

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
  gpu::check_rows(lab);
  gpu::check_attention(lab);
  gpu::check_draws(lab);
  gpu::check_encoder(lab);
  gpu::check_products(lab);
  return lab.finish("/dev/null");
}
