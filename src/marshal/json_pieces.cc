#include "marshal/json_pieces.h"

#include <algorithm>
#include <cstring>

#include "base/encoding.h"

namespace weir::marshal {
namespace {

constexpr size_t kCells = 2048;           // written at a time
constexpr size_t kStringPart = 48 << 10;  // of a string; a multiple of 3, for base64 without padding

// The most characters of one element: of a float its sign, 17 digits, the point and an exponent of three digits.
size_t most_characters(msg::DType dtype) {
  using msg::DType;
  switch (dtype) {
    case DType::kBool: return 5;
    case DType::kUint8:
    case DType::kInt8: return 4;
    case DType::kUint16:
    case DType::kInt16: return 6;
    case DType::kUint32:
    case DType::kInt32: return 11;
    case DType::kUint64:
    case DType::kInt64: return 20;
    case DType::kFp16:
    case DType::kBf16:
    case DType::kFp32: return 16;
    case DType::kFp64: return 24;
    case DType::kBytes:
    case DType::kInvalid: break;
  }
  return 0;
}

// Not more than `most` bytes of `text`, cut before a character of UTF-8.
size_t cut_before_character(std::string_view text, size_t most) {
  if (text.size() <= most) return text.size();
  while (most > 0 && (uint8_t(text[most]) & 0xc0) == 0x80) --most;
  return most;
}

}  // namespace

uint64_t most_text(const msg::Tensor& tensor) {
  const uint64_t bytes = tensor.data.size();
  if (const size_t width = msg::size_of(tensor.dtype)) return bytes / width * (most_characters(tensor.dtype) + 1) + 2;
  return 6 * bytes + 2;  // a control character takes six; its length of four bytes pays for quotes and comma
}

bool DataPieces::write(std::string& out, size_t target) {
  if (!std::exchange(begun_, true)) out += '[';
  if (tensor_.dtype == msg::DType::kBytes)
    write_strings(out, target);
  else
    write_cells(out, target);
  if (at_ < tensor_.data.size() || inside_) return true;
  if (!std::exchange(done_, true)) out += ']';
  return false;
}

void DataPieces::separate(std::string& out) {
  if (!std::exchange(first_, false)) out += ',';
}

void DataPieces::write_cells(std::string& out, size_t target) {
  const std::string_view data = tensor_.data.view();
  const size_t step = kCells * msg::size_of(tensor_.dtype);
  while (at_ < data.size() && out.size() < target) {
    separate(out);
    std::string_view some = data.substr(at_, step);
    write_elements(out, tensor_.dtype, some, {text_});
    at_ += some.size();
  }
}

void DataPieces::write_strings(std::string& out, size_t target) {
  const std::string_view data = tensor_.data.view();
  while ((at_ < data.size() || inside_) && out.size() < target) {
    if (!inside_) {
      uint32_t length;
      std::memcpy(&length, data.data() + at_, sizeof length);
      at_ += sizeof length;
      left_ = length;
      inside_ = true;
      separate(out);
      out += '"';
    }
    write_part(out);
  }
}

// Some of the string that has been begun, and its end.
void DataPieces::write_part(std::string& out) {
  const std::string_view rest = tensor_.data.view().substr(at_, left_);
  const bool plain = text_ == BytesText::kUtf8;
  std::string_view some = rest.substr(0, plain ? cut_before_character(rest, kStringPart) : kStringPart);
  if (plain)
    write_text_of_string(out, some);
  else
    out += base::base64_encode(some);
  at_ += some.size(), left_ -= some.size();
  if (left_ > 0) return;
  out += '"';
  inside_ = false;
}

}  // namespace weir::marshal
