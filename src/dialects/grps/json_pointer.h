// Finds the value at a JSON pointer (RFC 6901) and reads it, without building the document.
#pragma once

#include <string_view>

#include "base/status.h"
#include "marshal/json_cursor.h"
#include "msg/tensor.h"

namespace weir::grps {

// The text of the value at `pointer` ("/a/0", "" = the whole document); null data() where there is none. Errors:
// INVALID_ARGUMENT for text that is not JSON.
base::Result<std::string_view> find_value(std::string_view json, std::string_view pointer);

// A JSON value as tensor.data, in tensor.dtype: nested arrays in the shape that they have, anything else as one element
// of shape []. Strings in BYTES are their text; elsewhere those that are numbers ("2.0") are these. Errors:
// INVALID_ARGUMENT naming the tensor.
base::Status read_value(std::string_view json, base::SlabSource& slabs, msg::Tensor& tensor);

}  // namespace weir::grps
