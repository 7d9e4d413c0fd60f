#include "marshal/json_nested.h"

#include <cstring>
#include <utility>

#include "marshal/json_pieces.h"

namespace weir::marshal {
namespace {

constexpr std::string_view kBase64Open = "{\"b64\":";

// The bytes of the next `n` elements.
std::string_view take_cells(msg::DType dtype, std::string_view& rest, size_t n) {
  size_t bytes = n * msg::size_of(dtype);
  if (dtype == msg::DType::kBytes) {
    for (; n > 0; --n) {
      uint32_t length;
      std::memcpy(&length, rest.data() + bytes, 4);
      bytes += 4 + size_t(length);
    }
  }
  std::string_view taken = rest.substr(0, bytes);
  rest.remove_prefix(bytes);
  return taken;
}

// `n` elements with commas between them.
void write_cells(std::string& out, const msg::Tensor& t, NestedStyle style, std::string_view& rest, size_t n) {
  const std::string_view cells = take_cells(t.dtype, rest, n);
  if (style.text == BytesText::kUtf8 || style.base64 == Base64Form::kString || n == 0)
    return write_elements(out, t.dtype, cells, {style.text});
  out += kBase64Open;
  write_elements(out, t.dtype, cells, {style.text, WideText::kNumber, "},{\"b64\":"});
  out += '}';
}

void write_from(std::string& out, const msg::Tensor& t, NestedStyle style, std::string_view& rest, size_t depth) {
  if (depth == t.shape.rank()) return write_cells(out, t, style, rest, 1);
  out += '[';
  auto n = size_t(t.shape[depth]);
  if (depth + 1 == t.shape.rank()) {
    write_cells(out, t, style, rest, n);
  } else {
    for (size_t i = 0; i < n; ++i) {
      if (i) out += ',';
      write_from(out, t, style, rest, depth + 1);
    }
  }
  out += ']';
}

}  // namespace

bool measure_nested(JsonCursor& json, msg::Shape& shape) {
  bool first = true, fits = true;
  const size_t at = shape.rank();
  if (!shape.push(0)) return false;
  int64_t n = 0;
  const bool ok = json.array([&] {
    ++n;
    if (std::exchange(first, false) && json.peek() == JsonCursor::Kind::kArray)
      return fits = measure_nested(json, shape);
    return json.skip();
  });
  shape[at] = n;
  return ok && fits;
}

void write_nested(std::string& out, const msg::Tensor& tensor, NestedStyle style) {
  std::string_view rest = tensor.data.view();
  write_from(out, tensor, style, rest, 0);
}

void NestedRows::write(std::string& out) { write_from(out, tensor_, style_, rest_, 1); }

// Arrays around nothing take their brackets, too. Checked data (check_data) has a bound of them, so nothing overflows.
uint64_t most_nested(const msg::Tensor& tensor) {
  const uint64_t elements = tensor.shape.elements().value_or(0);
  const uint64_t objects = tensor.dtype == msg::DType::kBytes ? elements * (kBase64Open.size() + 1) : 0;
  uint64_t brackets = 0, arrays = 1;  // with a comma behind each array
  for (int64_t dim : tensor.shape.dims()) brackets += 3 * arrays, arrays *= uint64_t(dim);
  return most_text(tensor) + brackets + objects;
}

}  // namespace weir::marshal
