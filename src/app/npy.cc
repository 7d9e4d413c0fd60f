#include "app/npy.h"

#include <charconv>

namespace weir::app {
namespace {

using base::invalid;

msg::DType dtype_of(std::string_view descr) {
  struct Row {
    std::string_view code;
    msg::DType dtype;
  };
  using D = msg::DType;
  constexpr Row kRows[] = {{"|b1", D::kBool},   {"|u1", D::kUint8}, {"<u2", D::kUint16}, {"<u4", D::kUint32},
                           {"<u8", D::kUint64}, {"|i1", D::kInt8},  {"<i2", D::kInt16},  {"<i4", D::kInt32},
                           {"<i8", D::kInt64},  {"<f2", D::kFp16},  {"<f4", D::kFp32},   {"<f8", D::kFp64}};
  for (const auto& r : kRows)
    if (r.code == descr) return r.dtype;
  return D::kInvalid;
}

// Returns the text that follows 'key': in the header, up to its end as the caller cuts it.
std::string_view value_of(std::string_view header, std::string_view key) {
  size_t at = header.find("'" + std::string(key) + "'");
  if (at == std::string_view::npos) return {};
  at = header.find(':', at);
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at + 1);
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

bool parse_shape(std::string_view text, msg::Shape& shape) {
  if (!text.starts_with('(')) return false;
  text.remove_prefix(1);
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
    if (text.starts_with(')')) return true;
    int64_t dim = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (error != std::errc() || dim < 0 || !shape.push(dim)) return false;
    text.remove_prefix(size_t(end - text.data()));
  }
}

}  // namespace

base::Result<Npy> parse_npy(std::string_view file) {
  if (!file.starts_with("\x93NUMPY") || file.size() < 12) return invalid("not a .npy file");
  auto byte = [&](size_t i) { return size_t(static_cast<unsigned char>(file[i])); };
  size_t wide = byte(6) == 1 ? 2 : 4, length = 0;
  for (size_t i = 0; i < wide; ++i) length |= byte(8 + i) << (8 * i);
  if (file.size() - 8 - wide < length) return invalid("the .npy file is cut short");
  std::string_view header = file.substr(8 + wide, length);

  Npy out;
  std::string_view descr = value_of(header, "descr");
  if (descr.size() > 1) out.dtype = dtype_of(descr.substr(1, descr.substr(1).find('\'')));
  if (out.dtype == msg::DType::kInvalid) return invalid("the .npy file holds no little-endian numbers or booleans");
  if (!value_of(header, "fortran_order").starts_with("False"))
    return invalid("the .npy file is in column order; save numpy.ascontiguousarray(x)");
  auto elements = parse_shape(value_of(header, "shape"), out.shape) ? out.shape.elements() : std::nullopt;
  std::string_view data = file.substr(8 + wide + length);
  if (!elements || *elements > data.size() || *elements * msg::size_of(out.dtype) != data.size())
    return invalid("the .npy file's size does not fit its shape");
  out.data = data;
  return out;
}

}  // namespace weir::app
