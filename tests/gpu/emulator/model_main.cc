// The whole transformer with the kernels' own sources, on the emulator.
#include "emulated.h"
#include "model.h"

int main() { return weir::gpu::run_emulated(weir::gpu::check_model); }
