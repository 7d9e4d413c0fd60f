// The Engine that runs a Session for one lane.
//
// Inputs are bound where they lie. An output whose size is known beforehand is written straight into a slab, all such
// outputs of a step into one; others are allocated by the library and travel on as they are. Outputs that nobody wants
// are not asked for: they keep their place in Batch::outputs with dtype kInvalid.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "engines/onnx/session.h"
#include "msg/spec.h"
#include "sched/engine.h"

namespace weir::onnx {

// `spec` is derive()'s answer for this session; `slabs` outlives the engine.
std::unique_ptr<sched::Engine> make_engine(std::shared_ptr<const Session> session, msg::ModelSpec spec,
                                           base::SlabSource& slabs);

}  // namespace weir::onnx
