// Inputs that come as raw bytes, without a name, a type or a shape: a request body that is one tensor.
#pragma once

#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::marshal {

// Returns the input that a payload without a name is for: the only one, or the only one that is not optional. Null if
// there is no such input.
const msg::TensorSpec* lone_input(const msg::ModelSpec& spec);

// Returns the data of a BYTES tensor with the one element `text`: its length and a copy of it, in a slab of `slabs`.
// Throws bad_alloc if there is no memory for it (base::take_now()).
base::Bytes one_element(std::string_view text, base::SlabSource& slabs);

// Makes the whole body the one input of the model (lone_input()). A BYTES input gets it as one element, a copy
// (one_element()); an input of numbers aliases it. One dimension that is not declared is computed from the size,
// besides the batch dimension, which is then 1. Errors: INVALID_ARGUMENT, also if the size leaves a remainder;
// check_call() says whether it fits a shape that is declared completely.
base::Status set_raw_input(const base::Bytes& body, const msg::ModelSpec& spec, base::SlabSource& slabs,
                           msg::Call& call);
// The same for the input `declared`, which the protocol has named.
base::Status set_raw_input(const base::Bytes& body, const msg::ModelSpec& spec, const msg::TensorSpec& declared,
                           base::SlabSource& slabs, msg::Call& call);

}  // namespace weir::marshal
