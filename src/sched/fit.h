// Fit: whether a call fits its model, and which calls fit together. Pure; any thread.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::sched {

// Whether calls of this model may ever run together.
bool shares_batches(const msg::ModelSpec& spec);

// The call's tensor for input `i` of the spec, or null when it brings none (an optional input).
const msg::Tensor* input_of(const msg::Call& call, const msg::ModelSpec& spec, size_t i);

// INVALID_ARGUMENT, naming the tensor and what was expected: unknown, doubled or missing inputs, wrong datatype, shape
// or number of bytes, unknown outputs, more rows than max_batch. Dialects check the same and more, earlier; this is
// what makes it safe to lay rows of different clients side by side. Models that take any tensors are not checked.
base::Status fits(const msg::Call& call, const msg::ModelSpec& spec);

// Calls with different keys cannot share a batch; with equal keys ask same_rows(). kAlone: the call shares with nobody,
// because its model does not, or because it gave a model that takes any tensors one without the batch's rows.
inline constexpr uint64_t kAlone = 0;
uint64_t row_key(const msg::Call& call, const msg::ModelSpec& spec);
// The same inputs are there, and one row of each has the same type and shape; of ragged models, always. Of models that
// take any tensors they also have the same names in the same order. Both calls fit the spec; their keys are not kAlone.
bool same_rows(const msg::Call& a, const msg::Call& b, const msg::ModelSpec& spec);

}  // namespace weir::sched
