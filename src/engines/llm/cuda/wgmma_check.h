// Whether prefill attention takes Hopper's kernel (prefill_wgmma.cu), which has not run on a GPU yet: it is tried
// first, while a model loads, on a small problem in the model's own heads beside the kernel of all devices.
#pragma once

#include "engines/llm/cuda/kernel_queue.h"
#include "engines/llm/load/shape.h"
#include "engines/llm/options.h"

namespace weir::llm::cuda {

// Without a try kMma: where it is not wanted, where the device is not Hopper or the model's attention is another, and
// on a device that was started anew, since nobody knows what had broken it. A try that fails is told in the log.
// Errors: the try has broken the device.
base::Result<PrefillAttention::With> choose_prefill(KernelQueue& queue, const Shape& shape, Wgmma wanted,
                                                    const device::Device::Info& device);

// The try: both kernels give the same, again and again, and every wait ends. OK, or what is wrong.
base::Status try_wgmma(KernelQueue& queue, const Shape& shape);

}  // namespace weir::llm::cuda
