// Triton's ModelSequenceBatching -> msg::SequenceSpec.
#pragma once

#include <string>

#include "base/status.h"
#include "model_config.pb.h"
#include "msg/sequence.h"

namespace weir::models {

// kInvalid for what is no type of a tensor here.
msg::DType dtype_of(inference::DataType type);
// Errors: INVALID_ARGUMENT.
base::Result<msg::SequenceSpec> read_sequence(const inference::ModelSequenceBatching& in);
// The value of process::kIterative for an iterative one. Errors: INVALID_ARGUMENT.
base::Result<std::string> read_iterative(const inference::ModelSequenceBatching& in);

}  // namespace weir::models
