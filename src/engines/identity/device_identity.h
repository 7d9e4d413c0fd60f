// Identity by way of a device: in, to the device, back, out. Measures the path that a model's tensors take.
//
// The way is sched::DeviceEngine's. Tensors go up on one stream and down on another, a few MiB at a time, so that both
// directions are busy at once. Parameters: `pinned`, the size of the engine's own pool where the server's is not pinned
// for this device ("64MiB"); `in_flight`, batches under way at once ("2"; "1": the next begins when one is over);
// `compute: copy` copies on the device in between, on the stream of computations ("none").
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engines/identity/identity.h"

namespace weir::identity {

// `device` as in the parameter. A device at fault is restarted. Errors: as load().
base::Result<std::unique_ptr<sched::Engine>> load_on_device(msg::ModelSpec spec, const std::string& device,
                                                            const Place& place);

// Gives inputs the names of the declared outputs in their places; one that was not declared keeps its name. identity.cc
void name_outputs(std::vector<msg::Tensor>& tensors, const msg::ModelSpec& spec);

}  // namespace weir::identity
