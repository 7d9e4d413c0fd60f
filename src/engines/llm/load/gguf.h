// GGUF: what a model is, in named fields, and its tensors, in one file.
//
//   file   = "GGUF"; u32 version, 2 or 3; u64 tensors; u64 fields; the fields; the tensors' entries; padding; data
//   field  = string name; u32 type; value
//   value  = a number of the type; bool, a byte that is 0 or 1; string; array = u32 type; u64 count; values
//   string = u64 length; bytes
//   entry  = string name; u32 rank; u64 sizes, that of neighbours first; u32 type of numbers; u64 offset in the data
//
// All numbers are little-endian. The data, and each tensor in it, begin at a multiple of the field general.alignment
// (32 unless it is there).
//
// Files are not trusted: each count is held against the bytes that are left before anything is made for it. Tensors lie
// inside the data and do not overlap; no name is there twice; arrays hold no arrays.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "engines/llm/load/array.h"

namespace weir::llm {

using GgufValue = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>>;

struct Gguf {
  std::map<std::string, GgufValue, std::less<>> fields;
  // By the names of the file; shapes as everywhere here, neighbours last. They borrow from the file.
  Arrays tensors;

  bool has(std::string_view field) const { return fields.contains(field); }
  // Null: there is none of that name, or it is of another kind.
  template <class T>
  const T* get(std::string_view field) const {
    auto found = fields.find(field);
    return found == fields.end() ? nullptr : std::get_if<T>(&found->second);
  }
};

// A whole number, or that of a list in which all are the same: one for each layer.
std::optional<int64_t> number_of(const Gguf& gguf, std::string_view field);

// Whether a file begins as the format says.
bool begins_as_gguf(std::span<const std::byte> file);

// Errors: INVALID_ARGUMENT, naming the field or the tensor; UNIMPLEMENTED, a version or a type of numbers that is not
// known here.
base::Result<Gguf> parse_gguf(std::span<const std::byte> file);

}  // namespace weir::llm
