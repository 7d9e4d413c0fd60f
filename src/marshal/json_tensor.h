// Tensor data as JSON, both ways.
//
// Reading takes a flat array, or arrays nested exactly as the shape says, and puts the elements into one slab.
//   BOOL           true, false, 1, 0
//   INT*, UINT*    whole numbers in range (2.0 and 2e3 are whole)
//   FP16 … FP64    numbers in range, rounded to nearest; "NaN", "Infinity", "-Infinity" for what JSON cannot write
//   BYTES          strings: their UTF-8 bytes, or base64 when the tensor says so
// Writing is the reverse: floats in their shortest form that reads back the same, always with a point or an exponent,
// the non-finite ones as those three strings; a BYTES tensor with an element that is not UTF-8 becomes base64 as a
// whole, and the caller marks it `"content_type":"base64"` as MLServer does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "marshal/json_cursor.h"
#include "msg/tensor.h"

namespace weir::marshal {

enum class BytesText : uint8_t { kUtf8, kBase64 };
// 64-bit integers are written as numbers, or as strings as protobuf's JSON does; any number is then read as either.
enum class WideText : uint8_t { kNumber, kString };

// Consumes the array that comes next and fills tensor.data; name, dtype and shape are set already. Errors:
// INVALID_ARGUMENT naming the tensor and the element. Never allocates more than the text can fill.
base::Status read_data(JsonCursor& json, msg::Tensor& tensor, base::SlabSource& slabs,
                       BytesText text = BytesText::kUtf8, WideText wide = WideText::kNumber);

// kBase64 when some element of a BYTES tensor is not UTF-8; kUtf8 for all else.
BytesText bytes_text(const msg::Tensor& tensor);
// Appends `[1,2,3]`, flat. The data must have been checked (check_data).
void write_data(std::string& out, const msg::Tensor& tensor, BytesText text);
// The same without the brackets: the elements of `data` with `separator` between them.
struct ElementStyle {
  BytesText text = BytesText::kUtf8;
  WideText wide = WideText::kNumber;
  std::string_view separator = ",";
};
void write_elements(std::string& out, msg::DType dtype, std::string_view data, const ElementStyle& style);

// Appends a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD, one for each.
void write_string(std::string& out, std::string_view text);
void write_number(std::string& out, double value);
void write_number(std::string& out, float value);
void write_number(std::string& out, int64_t value);
void write_number(std::string& out, uint64_t value);

}  // namespace weir::marshal
