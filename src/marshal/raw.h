// A body that is nothing but a tensor's bytes: for protocols with a raw form.
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::marshal {

// The whole body becomes the one input of the model, without a copy: of BYTES one element, of numbers as many as the
// body holds. At most one dimension that is not declared is worked out from the size, beside the batch dimension (then
// there is one row). Errors: INVALID_ARGUMENT; whether the size fits the shape is check_call()'s to say.
base::Status place_raw(const base::Bytes& body, const msg::ModelSpec& spec, msg::Call& call);

}  // namespace weir::marshal
