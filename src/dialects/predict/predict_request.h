// A predict request becomes a Call. TensorFlow Serving's rules (tensorflow.org/tfx/serving/api_rest):
//
//   {"instances": [row, …]}          rows: the values of the one input, or objects {"<input>": value, …}
//   {"inputs": value}                columns: the one input with all its rows, or {"<input>": value, …}
//   {"signature_name": "serving_default"}  may be there; other members mean nothing
//
// A value is a number, a truth value, a string, {"b64": "…"} (bytes), or nested arrays of these; its shape is how it
// nests, and trailing dimensions of 1 may be left out. Its type is the model's; where a model takes any tensors,
// numbers are FP32, strings BYTES, truth values BOOL, and the lone input is called INPUT0.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::predict {

enum class PredictLayout : uint8_t { kRows, kColumns };  // "instances" -> "predictions", "inputs" -> "outputs"

inline constexpr size_t kMaxInputs = 256;

// Fills call.inputs. Any thread. Errors: INVALID_ARGUMENT naming the input; RESOURCE_EXHAUSTED.
base::Result<PredictLayout> read_predict(std::string_view body, const msg::ModelSpec& spec, base::SlabSource& slabs,
                                         msg::Call& call);

}  // namespace weir::predict
