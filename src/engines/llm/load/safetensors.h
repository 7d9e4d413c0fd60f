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
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weir::llm {

enum class Stored : uint8_t {
  kF32,
  kF16,
  kBf16,
  kFp8,    // E4M3: no infinities
  kInt8,   //
  kInt32,  // mostly numbers of fewer bits, several in each
  kOther,
};

struct Array {
  Stored dtype = Stored::kOther;
  std::vector<uint64_t> shape;
  std::span<const std::byte> data;  // in the file
  uint64_t elements() const;
};

using Arrays = std::map<std::string, Array, std::less<>>;

// Adds the arrays of one file to `arrays`; they borrow from `file`. Errors: INVALID_ARGUMENT, saying what is wrong;
// then `arrays` is as it was.
base::Status parse_safetensors(std::span<const std::byte> file, Arrays& arrays);

// Elements [from, from + n) as floats, of an array of F32, F16 or BF16.
void read_floats(const Array& array, uint64_t from, uint64_t n, float* out);

}  // namespace weir::llm
