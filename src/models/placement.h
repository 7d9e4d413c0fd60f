// Placement: chooses the device on which each instance of a model runs. Pure.
//
// As in Triton, `count` is per device. KIND_GPU (in model.yaml: `devices`) means the devices that are named, or every
// GPU where none is named. Where such a GPU is missing, or the engine computes on the CPU only, that is an error; with
// models.missing_devices: cpu the instance runs on the CPU instead. KIND_AUTO means the GPUs if all of them are there
// and the engine can use them, and the CPU otherwise. KIND_MODEL, and a model without groups, leave the choice to the
// engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "sched/rate_limiter.h"

namespace weir::models {

struct InstanceGroup {
  enum class Kind : uint8_t { kEngine, kAuto, kDevices, kCpu };
  Kind kind = Kind::kEngine;
  uint32_t count = 1;                // instances; of kAuto on devices and kDevices on each of them
  std::vector<std::string> devices;  // "cuda:1", "host"; empty = every GPU
  sched::RateLimit rate;             // resources that an instance needs while it runs a batch
};

// The devices of this machine, and the engines that can use them.
struct DeviceSupply {
  uint32_t gpus = 0;
  // Engines that compute on a device; the parameter `device` names it to them.
  std::vector<std::string> engines;
  enum class Missing : uint8_t { kError, kCpu } missing = Missing::kError;
};

// Returns for each instance: a device, "cpu", or "" for the engine to choose. `of` gets the place in `groups` of each,
// unless it is null. Errors: FAILED_PRECONDITION.
base::Result<std::vector<std::string>> place(const std::vector<InstanceGroup>& groups, const std::string& engine,
                                             const DeviceSupply& supply, std::vector<size_t>* of = nullptr);

}  // namespace weir::models
