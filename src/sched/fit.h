// Fit: whether a call may run in a batch of its model, and which calls may run together. Pure; any thread.
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

// The batch's rule for a call alone: it brings tensors of 1 to max_batch rows. Its tensors are right already: dialects
// have held them against the spec (marshal::check_call), pipelines by tensors_fit(). Error: INVALID_ARGUMENT.
base::Status rows_fit(const msg::Call& call, const msg::ModelSpec& spec);

// For a call whose inputs other models have made: each has the datatype, shape, rows and bytes that this one declares,
// which is what makes it safe to lay rows of different clients side by side; and rows_fit(). Models that take any
// tensors are not checked. Error: INVALID_ARGUMENT naming the tensor and what was expected.
base::Status tensors_fit(const msg::Call& call, const msg::ModelSpec& spec);

// Calls with different keys cannot share a batch; with equal keys ask same_rows(). kAlone: the call shares with nobody,
// because its model does not, or because it gave a model that takes any tensors one without the batch's rows.
inline constexpr uint64_t kAlone = 0;
uint64_t row_key(const msg::Call& call, const msg::ModelSpec& spec);
// The same inputs are there, and one row of each has the same type and shape; of ragged models, always. Of models that
// take any tensors they also have the same names in the same order. Both calls fit the spec; their keys are not kAlone.
bool same_rows(const msg::Call& a, const msg::Call& b, const msg::ModelSpec& spec);

}  // namespace weir::sched
