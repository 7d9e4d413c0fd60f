// Tensors as leaves. The mimetype says what they are, the bytes are the elements, little-endian and row by row (of
// BYTES: each element with its length in four bytes before it, as in the Open Inference Protocol's binary form):
//
//   application/x-weir-tensor; dtype=FP32; shape=1,64; name=input
//
// A scalar has `shape=`. Where the name is left out, it is the parameter's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "msg/tensor.h"

namespace weir::evergreen {

inline constexpr std::string_view kTensorType = "application/x-weir-tensor";

std::string tensor_mimetype(const msg::Tensor& tensor);
// Name, type and shape; no data. Errors: INVALID_ARGUMENT naming the part that is wrong.
base::Result<msg::Tensor> read_tensor_mimetype(std::string_view mimetype);

// Any mimetype: what stands before its parameters, and one of those. Names compare without case.
std::string_view base_type(std::string_view mimetype);
std::string_view type_parameter(std::string_view mimetype, std::string_view name);

}  // namespace weir::evergreen
