// Identity by way of a device: in, to the device, back, out. Measures the path that a model's tensors take.
//
// Tensors go up on one stream and down on another, a few MiB at a time, so that both directions are busy at once.
// Host memory is always pinned: inputs that are not (those that came as JSON) are copied into the pool first, and when
// the server's pool is not pinned for this device the engine has one of its own (parameter `pinned`, "64MiB").
#pragma once

#include <memory>
#include <string>

#include "engines/identity/identity.h"

namespace weir::identity {

// `device` as in the parameter. A device at fault is restarted. Errors: as load().
base::Result<std::unique_ptr<sched::Engine>> load_on_device(msg::ModelSpec spec, const std::string& device,
                                                            const Place& place);

}  // namespace weir::identity
