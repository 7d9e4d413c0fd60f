// An error of ONNX Runtime as a Status that may be shown to a client.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "engines/onnx/ort_api.h"

namespace weir::onnx {

// Takes over `status`. Null is success; bad arguments and shapes are INVALID_ARGUMENT, all else INTERNAL.
base::Status to_status(const Api& api, OrtStatus* status);

// The text without what tells of the machine that the library was built on: source files with their line and
// function, addresses. Names of nodes ("/layers.0/MatMul") stay.
std::string scrub(std::string_view text);

}  // namespace weir::onnx
