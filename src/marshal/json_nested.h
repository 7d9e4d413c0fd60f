// Tensors as nested JSON arrays, in the shape that the arrays themselves have: for protocols whose messages carry no
// shape.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "marshal/json_cursor.h"
#include "marshal/json_tensor.h"
#include "msg/tensor.h"

namespace weir::marshal {

// Consumes the array that comes next and appends its dimensions to `shape`, as its first elements nest; read_data()
// checks the others against them. False: the cursor has failed, or the arrays nest deeper than Shape::kMaxRank.
bool measure_nested(JsonCursor& json, msg::Shape& shape);

// How an element stands that is base64: "aGk=", or {"b64":"aGk="} as TensorFlow Serving writes it.
enum class Base64Form : uint8_t { kString, kObject };
struct NestedStyle {
  BytesText text = BytesText::kUtf8;
  Base64Form base64 = Base64Form::kString;
};

// Appends the elements as arrays that nest as the shape says; a scalar without brackets. The data must have been
// checked (check_data, check_nesting).
void write_nested(std::string& out, const msg::Tensor& tensor, NestedStyle style);

// The same, one index of the first dimension at a time: the rows of a batch.
class NestedRows {
 public:
  // The tensor has a dimension at least; borrowed.
  NestedRows(const msg::Tensor& tensor, NestedStyle style)
      : tensor_(tensor), style_(style), rest_(tensor.data.view()) {}
  // Appends the next row. There is one.
  void write(std::string& out);

 private:
  const msg::Tensor& tensor_;
  const NestedStyle style_;
  std::string_view rest_;
};

// An upper bound of the bytes that write_nested() appends, in any style.
uint64_t most_nested(const msg::Tensor& tensor);

}  // namespace weir::marshal
