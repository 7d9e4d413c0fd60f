// same_signature(): whether a model at an origin is the one that runs here, as far as can be told from outside.
#pragma once

#include "base/status.h"
#include "msg/spec.h"

namespace weir::forward {

// A Call that the instances `here` take must be good `there`. Errors: FAILED_PRECONDITION, saying what differs. Any
// thread.
base::Status same_signature(const msg::ModelSpec& here, const msg::ModelSpec& there);

}  // namespace weir::forward
