// Proves at start that the library's table is the one that ort_api.h describes, by running a model of 200 bytes.
//
// A table of another order would call the wrong function. The release functions of the error calls come first, as they
// cannot do harm; then every function that a served model needs is called once and its answer compared.
#pragma once

#include "base/status.h"
#include "engines/onnx/library.h"

namespace weir::onnx {

// The three calls by which everything else reports its errors.
base::Status check_errors(const Api& api);

// Loads the model, reads its signature, runs it on numbers and strings. FAILED_PRECONDITION, naming what differed.
base::Status self_test(const Library& library);

}  // namespace weir::onnx
