// The checks of every dialect before a Call goes down: the tensors against their own bytes, and against the model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::marshal {

// Whether the lengths inside BYTES data are read: each of them says where the next one is, so that 60 MB of short
// strings take a tenth of a second. kPass: a worker has read them (CheckInputs), or will.
enum class Strings : uint8_t { kCount, kPass };
// More strings than kManyStrings are for a worker to count: half a millisecond at worst. Who looks at the text of each
// as well goes by their bytes.
inline constexpr uint64_t kManyStrings = 64 << 10;
inline constexpr size_t kLongStrings = size_t(256) << 10;
uint64_t strings_to_count(const std::vector<msg::Tensor>& tensors);
size_t string_bytes(const std::vector<msg::Tensor>& tensors);

// Dimensions are >= 0, their product does not overflow, and the bytes are exactly as many as type and shape say (for
// BYTES: the lengths add up and there are as many elements). Of a tensor without elements the other dimensions multiply
// to 2^26 at most: its bytes bound nothing, and whoever loops over a dimension, or reduces the empty one, would be at
// the mercy of a number that somebody wrote. Error: INVALID_ARGUMENT naming `what` ("input") and tensor.
base::Status check_data(const msg::Tensor& tensor, std::string_view what = "input", Strings strings = Strings::kCount);

// check_data() for each tensor of a model's answer. Error: INTERNAL, since the engine is at fault.
base::Status check_outputs(const std::vector<msg::Tensor>& tensors, Strings strings = Strings::kCount);

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
base::Status check_call(const msg::ModelSpec& spec, msg::Call& call, Strings strings = Strings::kCount);

}  // namespace weir::marshal
