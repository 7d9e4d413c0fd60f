// The identity engine: returns every input as an output of the same type, shape and bytes.
//
// The n-th declared input comes back under the name of the n-th declared output, as Triton's identity backend has it;
// an input for which no output is declared, under its own name. Without declared inputs those of the request count. The
// output of an optional input that the request does not have is zeros (empty strings), of at most 1 MiB, where its
// configuration leaves no dimension open.
//
// It takes any tensors and copies nothing, so it measures what the server costs beside the model. Without a delay, and
// without a max_queue_delay in its configuration, it is inline: shards run it themselves, several at once, since it has
// no state. With the parameter `delay_us` (or
// `execute_delay_ms`, as Triton's has it) it runs in a lane and sleeps so long in each step, in place of a model that
// computes for so long. With the parameter `device`
// (cuda, cuda:1, host) every byte goes to that device and back, which measures that path (device_identity.h).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "msg/spec.h"
#include "sched/engine.h"

namespace weir::device {
class Devices;
}

namespace weir::identity {

inline constexpr std::string_view kParameters[] = {"compute",          "delay_us",  "device",
                                                   "execute_delay_ms", "in_flight", "pinned"};

// The parts that the parameter `device` needs; null on a server without devices. All outlive the engine. `broken` is
// called once, from the lane, when the engine cannot go on.
struct Place {
  device::Devices* devices = nullptr;
  base::SlabSource* slabs = nullptr;
  std::function<void(base::Status)> broken;
  std::chrono::nanoseconds patience{0};  // for a device that does not answer; 0 = device::kPatience
};

// INVALID_ARGUMENT when an output's type is not its input's; when `delay_us` is not a whole number from 0 to 60 000
// 000, or together with `device`; FAILED_PRECONDITION, NOT_FOUND, UNAVAILABLE when the device is not to be had.
base::Result<std::unique_ptr<sched::Engine>> load(const msg::ModelSpec& wanted, const Place& place = {});

}  // namespace weir::identity
