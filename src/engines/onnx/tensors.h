// Converts between our tensors (in slabs) and ONNX Runtime's (OrtValues), without a copy where that is possible.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "engines/onnx/library.h"
#include "msg/tensor.h"

namespace weir::onnx {

// ONNX's TensorProto.DataType numbers; kInvalid and 0 for what has no counterpart.
msg::DType dtype_of(int element);
int element_of(msg::DType dtype);

// An input as the library's value. Numbers are borrowed from tensor.data, which must outlive the value, unless they are
// not aligned for their type: then they are copied into `copy` first. (Compilers vectorise on the promise that a float*
// is a multiple of 4; a tensor cut out of a message may lie anywhere.) BYTES are copied: the library has its own
// strings. INVALID_ARGUMENT, naming the tensor, when type, shape and bytes do not fit together.
base::Result<Owned<OrtValue>> to_ort(const Library& library, const msg::Tensor& tensor, base::Bytes& copy);

// The same checks alone, of a tensor that is not BYTES.
base::Status check_input(const msg::Tensor& tensor);

// A value over `data`, for the library to write to: `size` bytes, aligned for the type. `memory`: where they lie; null:
// on the host.
base::Result<Owned<OrtValue>> wrap(const Library& library, msg::DType dtype, const msg::Shape& shape, std::byte* data,
                                   size_t size, const OrtMemoryInfo* memory = nullptr);

// An output's type, shape and bytes, without its name. Numbers stay where they are: the Bytes keep the OrtValue alive,
// from any thread, for as long as they like. Strings are laid out anew in a slab of `slabs`.
base::Result<msg::Tensor> from_ort(const Library& library, Owned<OrtValue> value, base::SlabSource& slabs);

}  // namespace weir::onnx
