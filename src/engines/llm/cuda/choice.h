// Which device a model runs on, and with which kernels.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/devices.h"
#include "engines/llm/cuda/kernels.h"
#include "engines/llm/load/shape.h"
#include "engines/llm/options.h"

namespace weir::llm::cuda {

// The module's table for a CUDA device, reference.h's for one of the host. Errors: FAILED_PRECONDITION.
base::Result<const Kernels*> open_kernels(const device::Device& device, const device::Devices& devices);

// How a device keeps keys and values, as parameter kv_cache_dtype says. Codes leave out Hopper's kernel for attention
// of prompts, which reads bfloat16 (wgmma_check.h).
KvCodes codes_of(KvFormat format);

// How long a model may capture graphs while it loads. None on a device of the host: a capture there saves no time.
std::chrono::nanoseconds capture_time(const device::Device& device);

// Whether the kernels know the heads and widths of a Llama-like model; those on the host know all. Errors:
// UNIMPLEMENTED.
base::Status check_widths(const Shape& shape, const device::Device& device);

// Whether a device can run a model.
using Check = std::function<base::Status(const device::Device&, const Kernels&)>;

// As Options::device says; null: the CPU. `auto` takes the first CUDA device if there is one that can run this model in
// bfloat16; `model` is its name, for the log. Errors: those of Devices::find(), INVALID_ARGUMENT.
base::Result<device::Device*> choose_device(const Options& options, device::Devices* devices, const std::string& model,
                                            const Check& check);

// The devices of a model's ranks: `first` and those whose numbers follow. Errors: INVALID_ARGUMENT, NOT_FOUND.
base::Result<std::vector<device::Device*>> choose_ranks(device::Device& first, device::Devices& devices,
                                                        uint32_t ranks);

}  // namespace weir::llm::cuda
