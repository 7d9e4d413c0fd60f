// The checks that every dialect makes before it submits a Call: each tensor against its own bytes, and all against the
// model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::marshal {

// Whether the lengths inside BYTES data are checked. They have to be walked one after the other, which takes a tenth of
// a second for 60 MB of short strings. kSkip: a worker has checked them (CheckInputs), or will.
enum class StringLengths : uint8_t { kCheck, kSkip };
// Up to kManyStrings strings are counted on the shard, in half a millisecond at worst; more by a worker. A dialect that
// also reads the text of each string compares their bytes with kLongStrings instead.
inline constexpr uint64_t kManyStrings = 64 << 10;
inline constexpr size_t kLongStrings = size_t(256) << 10;
uint64_t strings_to_count(const std::vector<msg::Tensor>& tensors);  // an upper bound, from shapes and sizes
size_t string_bytes(const std::vector<msg::Tensor>& tensors);        // of all BYTES tensors

// Checks that the dimensions are >= 0, that their product does not overflow, and that there are exactly as many bytes
// as type and shape require (for BYTES: that the lengths add up, and that there are as many elements). If a tensor has
// no elements, the product of its other dimensions must be 2^26 at most: its bytes do not bound them, and code that
// loops over a dimension, or reduces the empty one, would run as long as a client likes. Error: INVALID_ARGUMENT naming
// `what`
// ("input") and the tensor.
base::Status check_data(const msg::Tensor& tensor, std::string_view what = "input",
                        StringLengths lengths = StringLengths::kCheck);

// Does check_data() for each tensor of a model's answer. Error: INTERNAL, since the engine is at fault.
base::Status check_outputs(const std::vector<msg::Tensor>& tensors, StringLengths lengths = StringLengths::kCheck);

// Returns the index of the output called `name` in a model's answer. Errors: INTERNAL if the model has not made it;
// INVALID_ARGUMENT if the model takes any tensors, since then the client has chosen the name.
base::Result<size_t> find_output(const msg::ModelSpec& spec, const std::vector<msg::Tensor>& tensors,
                                 std::string_view name);

// Checks that a tensor without elements is not too many empty arrays when it is written as nested arrays: [65536,0] is
// that many pairs of brackets, the most that are allowed. Error: INVALID_ARGUMENT naming `what` and the tensor.
base::Status check_nesting(const msg::Tensor& tensor, std::string_view what);

// Checks the Call's inputs and requested outputs against the model: check_data() for each input; no name is unknown,
// twice, or longer than 1024 bytes; no input is missing unless it is optional; datatypes and shapes are as declared;
// all have the same batch size, which is not above max_batch. Sets call.rows. For a model that takes any tensors only
// check_data() and the names are checked. Errors: INVALID_ARGUMENT naming the tensor, what was expected and what came.
base::Status check_call(const msg::ModelSpec& spec, msg::Call& call, StringLengths lengths = StringLengths::kCheck);

}  // namespace weir::marshal
