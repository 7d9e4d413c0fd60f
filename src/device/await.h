// Waiting for a device, on a lane's own thread. Never on a shard: a shard is told by a Done, or by its mailbox.
#pragma once

#include <chrono>

#include "device/device.h"

namespace weir::device {

// A device that has not come to an event within this has hung.
inline constexpr std::chrono::nanoseconds kPatience = std::chrono::seconds(30);

// Polls until the event is done: at once, then ever more slowly, up to every 50 µs. A device that does not get there in
// time is at fault from then on, without a cure: it may still write what it was told to. Errors: UNAVAILABLE.
base::Status await(Device& device, const Event& event, std::chrono::nanoseconds patience = kPatience);

}  // namespace weir::device
