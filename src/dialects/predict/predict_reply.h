// The tensors of a model as a predict answer, in the form of its request.
//
//   kRows     {"predictions": [row, …]}   a row is the one output's value, or {"<output>": value, …}
//   kColumns  {"outputs": value}          the one output, or {"<output>": value, …}
//
// Strings that are not UTF-8 are {"b64": "…"}, as is every string of their tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "dialects/predict/predict_request.h"
#include "msg/tensor.h"

namespace weir::predict {

// The outputs must have been checked (marshal::check_outputs). Any thread. Errors: INTERNAL
// where there are none; INVALID_ARGUMENT for outputs of different numbers of rows, and
// for one that nests too deep.
base::Result<std::string> write_predict(PredictLayout form, const std::vector<msg::Tensor>& outputs);
// At most its size, in bytes.
uint64_t most_text(PredictLayout form, const std::vector<msg::Tensor>& outputs);

}  // namespace weir::predict
