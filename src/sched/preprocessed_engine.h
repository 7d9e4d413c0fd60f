// Preprocessing in front of a model of images: clients send the bytes of a picture, and the model gets numbers.
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "images/preprocess.h"
#include "sched/engine.h"

namespace weir::sched {

// The engine, with its input `input` (empty: its only one) as BYTES[1] in spec(): one picture for each row. Pictures
// are decoded in step(), on the lane. One that cannot be read fails its own call. The tensors are made in `slabs`.
// Errors: INVALID_ARGUMENT where the input is not FP32 or UINT8, or its shape is not one that the preprocessing makes;
// UNIMPLEMENTED where the engine does not run in a lane, or reads the Calls' own tensors.
base::Result<std::unique_ptr<Engine>> make_preprocessed(std::unique_ptr<Engine> engine, const std::string& input,
                                                        const images::Preprocessing& how, base::SlabSource& slabs);

}  // namespace weir::sched
