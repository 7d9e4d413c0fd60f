// What every dialect checks before a Call goes down: the tensors against their own bytes, and against the model.
#pragma once

#include <string>

#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::marshal {

// Dimensions are >= 0, their product does not overflow, and the bytes are exactly as many as type and shape say (for
// BYTES: the lengths add up and there are as many elements). Error: INVALID_ARGUMENT naming `what` ("input") and
// tensor.
base::Status check_data(const msg::Tensor& tensor, std::string_view what = "input");

// The Call's inputs and requested outputs against the model: check_data for each, none unknown, none twice, none
// missing that is not optional, datatypes and shapes as declared, one batch size for all and not above max_batch. Sets
// call.rows. A model that takes any tensors gets check_data and unique names only. Errors: INVALID_ARGUMENT naming the
// tensor, what was expected and what came.
base::Status check_call(const msg::ModelSpec& spec, msg::Call& call);

}  // namespace weir::marshal
