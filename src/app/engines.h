// The engines of this build, and the model repository's options that depend on them. A new engine is one line in
// engines(), and one in engine_parameters() beside it for what its model.yaml may say.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "app/config.h"
#include "base/host_memory.h"
#include "device/devices.h"
#include "engines/forward/runtime.h"
#include "engines/onnx/runtime.h"
#include "models/repository.h"

namespace weir::app {

onnx::Options onnx_options(const Config& config);

// The maker of each engine, by the name that a model.yaml gives. What it takes is borrowed and outlives the engines.
// `pinned`: how many cores, from the first, have a shard that keeps to it (pinned_shards()).
std::map<std::string, models::EngineMaker> engines(onnx::Runtime& onnx, forward::Runtime& forward,
                                                   device::Devices& devices, base::HostMemory& host_memory,
                                                   uint32_t pinned);

// config.models, with the devices of this machine and the parameters that each engine takes.
models::RepositoryOptions repository_options(const Config& config, device::Devices& devices);

}  // namespace weir::app
