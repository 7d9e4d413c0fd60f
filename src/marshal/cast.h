// Numbers of one type as numbers of another, for protocols that have fewer types than models do.
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "msg/tensor.h"

namespace weir::marshal {

// Element by element, values kept: integers (and BOOL as 0 and 1) must be in range, a float becomes an integer only if
// it is whole, and narrower floats are rounded to nearest (what was finite stays finite). The data must have been
// checked. Nothing happens where the type is `to` already. Errors: INVALID_ARGUMENT naming the tensor and the element;
// also where one of the types is BYTES.
base::Status cast(msg::Tensor& tensor, msg::DType to, base::SlabSource& slabs);

}  // namespace weir::marshal
