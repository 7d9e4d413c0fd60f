// The checks of every dialect before a Call goes down: the tensors against their own bytes, and against the model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::marshal {

// Dimensions are >= 0, their product does not overflow, and the bytes are exactly as many as type and shape say (for
// BYTES: the lengths add up and there are as many elements). Of a tensor without elements the other dimensions multiply
// to 2^26 at most: its bytes bound nothing, and whoever loops over a dimension, or reduces the empty one, would be at
// the mercy of a number that somebody wrote. Error: INVALID_ARGUMENT naming `what` ("input") and tensor.
base::Status check_data(const msg::Tensor& tensor, std::string_view what = "input");

// check_data() for each tensor of a model's answer. Error: INTERNAL, since the engine is at fault.
base::Status check_outputs(const std::vector<msg::Tensor>& tensors);

// The index of the output of that name in a model's answer. Errors: INTERNAL where the model has not made it;
// INVALID_ARGUMENT if the model takes any tensors, since then the client has chosen the name.
base::Result<size_t> find_output(const msg::ModelSpec& spec, const std::vector<msg::Tensor>& tensors,
                                 std::string_view name);

// For writers of nested arrays: [65536,0] is that many pairs of brackets around nothing, and more of them are refused.
// Error: INVALID_ARGUMENT naming `what` and tensor.
base::Status check_nesting(const msg::Tensor& tensor, std::string_view what);

// The Call's inputs and requested outputs against the model: check_data for each, none unknown, none twice, none
// missing that is not optional, datatypes and shapes as declared, one batch size for all and not above max_batch. Sets
// call.rows. Names have at most 1024 bytes. A model that takes any tensors gets check_data and unique names only.
// Errors: INVALID_ARGUMENT naming the tensor, what was expected and what came.
base::Status check_call(const msg::ModelSpec& spec, msg::Call& call);

}  // namespace weir::marshal
