// Triton's ModelSequenceBatching -> msg::SequenceSpec.
#pragma once

#include "base/status.h"
#include "model_config.pb.h"
#include "msg/sequence.h"

namespace weir::models {

// kInvalid for what is no type of a tensor here.
msg::DType dtype_of(inference::DataType type);
// Errors: INVALID_ARGUMENT.
base::Result<msg::SequenceSpec> read_sequence(const inference::ModelSequenceBatching& in);

}  // namespace weir::models
