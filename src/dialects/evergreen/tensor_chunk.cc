#include "dialects/evergreen/tensor_chunk.h"

#include <charconv>

#include "wire/text.h"

namespace weir::evergreen {

std::string_view base_type(std::string_view mimetype) { return wire::trim(mimetype.substr(0, mimetype.find(';'))); }

// RFC 9110 §5.6.6; values are tokens, or quoted without escapes.
std::string_view type_parameter(std::string_view mimetype, std::string_view name) {
  for (size_t at = mimetype.find(';'); at != mimetype.npos; at = mimetype.find(';')) {
    mimetype.remove_prefix(at + 1);
    std::string_view part = wire::trim(mimetype.substr(0, mimetype.find(';')));
    size_t equals = part.find('=');
    if (equals == part.npos || !wire::same_text(wire::trim(part.substr(0, equals)), name)) continue;
    std::string_view value = wire::trim(part.substr(equals + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    return value;
  }
  return {};
}

std::string tensor_mimetype(const msg::Tensor& tensor) {
  std::string out = std::string(kTensorType) + "; dtype=" + std::string(msg::name(tensor.dtype)) + "; shape=";
  for (size_t i = 0; i < tensor.shape.rank(); ++i) out += (i ? "," : "") + std::to_string(tensor.shape[i]);
  out += "; name=" + tensor.name;
  return out;
}

base::Result<msg::Tensor> read_tensor_mimetype(std::string_view mimetype) {
  if (!wire::same_text(base_type(mimetype), kTensorType))
    return base::invalid("expected a chunk of type " + std::string(kTensorType) + ", got '" +
                         std::string(mimetype.substr(0, 80)) + "'");
  msg::Tensor tensor;
  tensor.name = type_parameter(mimetype, "name");
  std::string_view dtype = type_parameter(mimetype, "dtype");
  tensor.dtype = msg::dtype_from_name(dtype);
  if (tensor.dtype == msg::DType::kInvalid)
    return base::invalid("unknown dtype '" + std::string(dtype.substr(0, 40)) + "' in a tensor's mimetype");
  std::string_view shape = type_parameter(mimetype, "shape");
  while (!shape.empty()) {
    std::string_view digits = shape.substr(0, shape.find(','));
    shape.remove_prefix(std::min(digits.size() + 1, shape.size()));
    int64_t dim = -1;
    digits = wire::trim(digits);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), dim);
    if (error != std::errc() || end != digits.data() + digits.size() || dim < 0 || !tensor.shape.push(dim))
      return base::invalid("malformed shape in a tensor's mimetype");
  }
  return tensor;
}

}  // namespace weir::evergreen
