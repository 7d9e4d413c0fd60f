// The writing half of json_tensor.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/encoding.h"
#include "marshal/float_text.h"
#include "marshal/json_pieces.h"
#include "marshal/json_tensor.h"
#include "msg/half.h"

namespace weir::marshal {
namespace {

using msg::DType;

std::string_view non_finite(double value) {
  return std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
}

char* put(char* to, std::string_view text) {
  std::memcpy(to, text.data(), text.size());
  return to + text.size();
}

template <class T>
char* put_number(char* to, T value) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isfinite(value) ? write_text(to, value) : put(to, non_finite(value));
  else if constexpr (std::is_signed_v<T>)
    return write_text(to, int64_t(value));
  else
    return write_text(to, uint64_t(value));
}

// Bytes as text, in four characters each, for UINT8: many are pictures.
struct ByteText {
  std::array<char, 4> text;
  uint32_t size;
};
constexpr auto kBytes = [] {
  std::array<ByteText, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    ByteText& b = table[i];
    if (i >= 100) b.text[b.size++] = char('0' + i / 100);
    if (i >= 10) b.text[b.size++] = char('0' + i / 10 % 10);
    b.text[b.size++] = char('0' + i % 10);
  }
  return table;
}();

char* put_byte(char* to, uint8_t value) {
  std::memcpy(to, kBytes[value].text.data(), 4);
  return to + kBytes[value].size;
}

// `write(to, value)` puts one element at `to` and returns its end. The text of many goes into a buffer of its own, that
// moves into the string when it is full.
template <class T, class Write>
void write_parted(std::string& out, std::string_view data, char separator, Write write) {
  constexpr size_t kMany = 100, kElement = kFloatText + 2 + 1;
  out.reserve(out.size() + data.size() / sizeof(T) * 11);
  std::array<char, kMany * kElement> buffer;
  for (size_t at = 0; at < data.size();) {
    char* p = buffer.data();
    for (const size_t end = std::min(data.size(), at + kMany * sizeof(T)); at < end; at += sizeof(T)) {
      T value;  // data need not be aligned
      std::memcpy(&value, data.data() + at, sizeof(T));
      p = write(p, value);
      *p++ = separator;
    }
    out.append(buffer.data(), at < data.size() ? p : p - 1);  // behind the last one stands nothing
  }
}

// The same with more than a character between them.
template <class T, class Write>
void write_cells(std::string& out, std::string_view data, std::string_view separator, Write write) {
  if (separator.size() == 1) return write_parted<T>(out, data, separator[0], write);
  std::array<char, kFloatText + 2> text;
  for (size_t at = 0; at < data.size(); at += sizeof(T)) {
    if (at > 0) out += separator;
    T value;
    std::memcpy(&value, data.data() + at, sizeof(T));
    out.append(text.data(), write(text.data(), value));
  }
}

template <class T>
void write_cells(std::string& out, std::string_view data, std::string_view separator) {
  write_cells<T>(out, data, separator, [](char* to, T value) { return put_number(to, value); });
}

// The same for floats and a separator of one character, in runs.
void append_floats(std::string& out, std::string_view data, char separator) {
  constexpr size_t kEach = kFloatText + 1;
  const size_t count = data.size() / sizeof(float);
  if (count == 0) return;
  out.reserve(out.size() + count * 11);
  std::array<char, 4096> buffer;
  char* p = buffer.data();
  for (size_t done = 0; done < count;) {
    const size_t room = size_t(buffer.data() + buffer.size() - p) / kEach;
    if (room == 0) {
      out.append(buffer.data(), p);
      p = buffer.data();
      continue;
    }
    const char* const next = data.data() + done * sizeof(float);
    const size_t most = std::min(room, count - done), n = write_floats(p, next, most, separator);
    done += n;
    if (n == most) continue;
    float value;
    std::memcpy(&value, next + n * sizeof value, sizeof value);
    p = put(p, non_finite(value));
    *p++ = separator;
    ++done;
  }
  out.append(buffer.data(), p - 1);  // behind the last one stands nothing
}

// Those of 16 bits as floats. `widen` makes one of the other.
template <class Widen>
void write_halves(std::string& out, std::string_view data, char separator, Widen widen) {
  out.reserve(out.size() + data.size() / 2 * 11);
  std::array<float, 512> values;
  for (size_t at = 0; at < data.size();) {
    size_t n = 0;
    for (; n < values.size() && at < data.size(); ++n, at += 2) {
      uint16_t bits;
      std::memcpy(&bits, data.data() + at, 2);
      values[n] = widen(bits);
    }
    append_floats(out, {reinterpret_cast<const char*>(values.data()), n * sizeof(float)}, separator);
    if (at < data.size()) out += separator;
  }
}

template <class T>
void write_quoted(std::string& out, std::string_view data, std::string_view separator) {
  write_cells<T>(out, data, separator, [](char* to, T value) {
    *to++ = '"';
    to = put_number(to, value);
    *to++ = '"';
    return to;
  });
}

template <class T>
void write_one(std::string& out, T value) {
  std::array<char, kFloatText> text;
  out.append(text.data(), put_number(text.data(), value));
}

void write_strings(std::string& out, std::string_view data, std::string_view separator, BytesText text) {
  bool first = true;
  msg::for_each_string(data, [&](std::string_view element) {
    if (!std::exchange(first, false)) out += separator;
    if (text == BytesText::kUtf8)
      write_string(out, element);
    else
      write_string(out, base::base64_encode(element));
  });
}

void write_escape(std::string& out, uint8_t c) {
  static constexpr std::string_view kFrom = "\"\\\b\f\n\r\t", kTo = "\"\\bfnrt", kHex = "0123456789abcdef";
  out += '\\';
  if (size_t i = kFrom.find(char(c)); i != kFrom.npos) {
    out += kTo[i];
    return;
  }
  out += "u00";
  out += kHex[c >> 4];
  out += kHex[c & 15];
}

// The length of the UTF-8 character that begins here, or 0.
size_t utf8_length(std::string_view text) {
  auto c = uint8_t(text[0]);
  size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
  return n <= text.size() && valid_utf8(text.substr(0, n)) ? n : 0;
}

// Text that is not UTF-8 as a whole: character by character.
void write_mended(std::string& out, std::string_view text) {
  while (!text.empty()) {
    size_t n = utf8_length(text);
    if (n == 0)
      out += "\xef\xbf\xbd";
    else if (n == 1 && (uint8_t(text[0]) < 0x20 || text[0] == '"' || text[0] == '\\'))
      write_escape(out, uint8_t(text[0]));
    else
      out += text.substr(0, n);
    text.remove_prefix(n ? n : 1);
  }
}

// No longer than a name, ASCII, and nothing that JSON escapes.
bool simple(std::string_view text) {
  constexpr size_t kMost = 64;
  if (text.size() > kMost) return false;
  bool odd = false;
  for (char c : text) odd |= uint8_t(c - 0x20) > 0x7f - 0x20 || c == '"' || c == '\\';
  return !odd;
}

}  // namespace

void write_number(std::string& out, double value) { write_one(out, value); }
void write_number(std::string& out, float value) { write_one(out, value); }
void write_number(std::string& out, int64_t value) { write_one(out, value); }
void write_number(std::string& out, uint64_t value) { write_one(out, value); }

void write_string(std::string& out, std::string_view text) {
  out += '"';
  write_text_of_string(out, text);
  out += '"';
}

void write_text_of_string(std::string& out, std::string_view text) {
  if (simple(text)) {
    out.append(text);
    return;
  }
  if (!valid_utf8(text)) return write_mended(out, text);
  size_t from = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    auto c = uint8_t(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out += text.substr(from, i - from);
    write_escape(out, c);
    from = i + 1;
  }
  out += text.substr(from);
}

BytesText bytes_text(const msg::Tensor& tensor) {
  if (tensor.dtype != DType::kBytes) return BytesText::kUtf8;
  bool utf8 = true;
  msg::for_each_string(tensor.data.view(), [&](std::string_view element) { utf8 = utf8 && valid_utf8(element); });
  return utf8 ? BytesText::kUtf8 : BytesText::kBase64;
}

void write_data(std::string& out, const msg::Tensor& tensor, BytesText text) {
  out += '[';
  write_elements(out, tensor.dtype, tensor.data.view(), {text});
  out += ']';
}

void write_elements(std::string& out, DType dtype, std::string_view data, const ElementStyle& style) {
  std::string_view by = style.separator;
  bool quoted = style.wide == WideText::kString;
  switch (dtype) {
    case DType::kBool:
      return write_cells<uint8_t>(out, data, by, [](char* to, uint8_t v) { return put(to, v ? "true" : "false"); });
    case DType::kUint8: return write_cells<uint8_t>(out, data, by, [](char* to, uint8_t v) { return put_byte(to, v); });
    case DType::kUint16: return write_cells<uint16_t>(out, data, by);
    case DType::kUint32: return write_cells<uint32_t>(out, data, by);
    case DType::kUint64: return quoted ? write_quoted<uint64_t>(out, data, by) : write_cells<uint64_t>(out, data, by);
    case DType::kInt8: return write_cells<int8_t>(out, data, by);
    case DType::kInt16: return write_cells<int16_t>(out, data, by);
    case DType::kInt32: return write_cells<int32_t>(out, data, by);
    case DType::kInt64: return quoted ? write_quoted<int64_t>(out, data, by) : write_cells<int64_t>(out, data, by);
    case DType::kFp16:
      if (by.size() == 1) return write_halves(out, data, by[0], msg::fp16_to_float);
      return write_cells<uint16_t>(out, data, by,
                                   [](char* to, uint16_t v) { return put_number(to, msg::fp16_to_float(v)); });
    case DType::kBf16:
      if (by.size() == 1) return write_halves(out, data, by[0], msg::bf16_to_float);
      return write_cells<uint16_t>(out, data, by,
                                   [](char* to, uint16_t v) { return put_number(to, msg::bf16_to_float(v)); });
    case DType::kFp32: return by.size() == 1 ? append_floats(out, data, by[0]) : write_cells<float>(out, data, by);
    case DType::kFp64: return write_cells<double>(out, data, by);
    case DType::kBytes: return write_strings(out, data, by, style.text);
    case DType::kInvalid: return;
  }
}

}  // namespace weir::marshal
