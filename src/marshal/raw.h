// A body that is nothing but a tensor's bytes: for protocols with a raw form.
#pragma once

#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::marshal {

// The input that a payload without names fills: the only one, or the only one that is not optional. Null where there is
// no such.
const msg::TensorSpec* lone_input(const msg::ModelSpec& spec);

// `text` as the one element of a tensor of BYTES: a copy in a slab of `slabs`, behind its length. Throws bad_alloc
// where there is no memory for it (base::take_now()).
base::Bytes one_element(std::string_view text, base::SlabSource& slabs);

// The whole body becomes the one input of the model (lone_input()): of BYTES one element, a copy (one_element()); of
// numbers as many as the body holds, without a copy. At most one dimension that is not declared is worked out from the
// size, beside the batch dimension (then there is one row). Errors: INVALID_ARGUMENT, also where the size leaves a
// remainder; whether it fits a shape that is declared whole is check_call()'s to say.
base::Status place_raw(const base::Bytes& body, const msg::ModelSpec& spec, base::SlabSource& slabs, msg::Call& call);
// The same for an input of the model's that the protocol has named.
base::Status place_raw(const base::Bytes& body, const msg::ModelSpec& spec, const msg::TensorSpec& declared,
                       base::SlabSource& slabs, msg::Call& call);

}  // namespace weir::marshal
