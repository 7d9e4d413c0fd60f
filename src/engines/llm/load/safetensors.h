// Safetensors: named arrays in one file.
//
//   file   = u64 little-endian: length of the header; header; data
//   header = JSON object, padded with spaces: name -> {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]},
//            and "__metadata__" -> object of strings; offsets count from the first byte after the header
//
// Strict, as the format's own readers are: offsets lie inside the data, cover it without holes or overlaps, and fit
// dtype and shape; no name twice; the header is at most 100 MB and begins with '{'.
// https://github.com/huggingface/safetensors
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"
#include "engines/llm/load/array.h"

namespace weir::llm {

// Adds the arrays of one file to `arrays`; they borrow from `file`. Errors: INVALID_ARGUMENT, saying what is wrong;
// then `arrays` is as it was.
base::Status parse_safetensors(std::span<const std::byte> file, Arrays& arrays);

}  // namespace weir::llm
