// Checks and benches of the whole transformer on the GPU.
#pragma once

#include "lab.h"

namespace weir::gpu {

void check_model(Lab& lab);
// After bench_kernels(), which has measured what the device can copy.
void bench_model(Lab& lab);

}  // namespace weir::gpu
