// msg::SequenceSpec -> Triton's ModelSequenceBatching, for ModelConfig.
#pragma once

#include "model_config.pb.h"
#include "msg/sequence.h"

namespace weir::oip {

inference::DataType data_type(msg::DType dtype);
void fill(inference::ModelSequenceBatching& to, const msg::SequenceSpec& sequences);

}  // namespace weir::oip
