// Checks of the kernels' own sources, on the emulator.
#pragma once

#include "device.h"
#include "emulator.h"
#include "lab.h"

namespace weir::llm::cuda {
extern "C" const Kernels* weir_cuda_llm(uint32_t abi);
}

namespace weir::gpu {

// The exit code for main().
template <class... Checks>
int run_emulated(Checks... checks) {
  EmulatedDevice device;
  Lab lab(
      device, llm::cuda::weir_cuda_llm(llm::cuda::kKernelsAbi),
      [](llm::cuda::Code code) { return "code " + std::to_string(code) + ": " + emulator::failure(); },
      Lab::Scale::kSmall);
  (checks(lab), ...);
  lab.check("kernels that their first launch had to load", emulator::late_loads(), 0);
  return lab.finish("/dev/null");
}

}  // namespace weir::gpu
