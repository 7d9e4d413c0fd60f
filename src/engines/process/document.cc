#include "engines/process/document.h"

namespace weir::process {
namespace {

constexpr size_t kLeastSpec = 4 + 1 + 1 + 4, kLeastParameter = 4 + 1 + 4;

}  // namespace

void Writer::put_shape(const msg::Shape& shape) {
  put(uint32_t(shape.rank()));
  for (int64_t d : shape.dims()) put(d);
}

void Writer::put_specs(const std::vector<msg::TensorSpec>& specs) {
  put(uint32_t(specs.size()));
  for (const auto& spec : specs) {
    put_string(spec.name);
    put(uint8_t(spec.dtype));
    put(uint8_t(spec.optional));
    put_shape(spec.shape);
  }
}

void Writer::put_value(const msg::ParamValue& value) {
  put(uint8_t(value.index()));
  if (auto* text = std::get_if<std::string>(&value)) return put_string(*text);
  if (auto* flag = std::get_if<bool>(&value)) return put(uint64_t(*flag));
  if (auto* number = std::get_if<int64_t>(&value)) return put(*number);
  if (auto* number = std::get_if<uint64_t>(&value)) return put(*number);
  put(std::get<double>(value));
}

void Writer::put_parameters(const msg::Parameters& parameters) {
  put(uint32_t(parameters.size()));
  for (const auto& [name, value] : parameters) put_string(name), put_value(value);
}

std::string_view DocumentReader::take(size_t bytes) {
  if (bytes > text_.size()) {
    fail();
    return {};
  }
  auto out = text_.substr(0, bytes);
  text_.remove_prefix(bytes);
  return out;
}

uint32_t DocumentReader::count(size_t least) {
  auto n = get<uint32_t>();
  if (n <= text_.size() / least) return n;
  fail();
  return 0;
}

msg::DType DocumentReader::get_dtype() {
  auto number = get<uint8_t>();
  if (number <= uint8_t(msg::DType::kBf16)) return msg::DType(number);
  fail();
  return msg::DType::kInvalid;
}

msg::Shape DocumentReader::get_shape() {
  msg::Shape shape;
  for (uint32_t left = count(sizeof(int64_t)); left > 0 && ok_; --left)
    if (!shape.push(get<int64_t>())) fail();
  return shape;
}

std::vector<msg::TensorSpec> DocumentReader::get_specs() {
  std::vector<msg::TensorSpec> specs(count(kLeastSpec));
  for (auto& spec : specs) {
    spec.name = get_string();
    spec.dtype = get_dtype();
    spec.optional = get<uint8_t>() != 0;
    spec.shape = get_shape();
    for (int64_t d : spec.shape.dims())
      if (d < -1) fail();
  }
  return specs;
}

msg::ParamValue DocumentReader::get_value() {
  switch (get<uint8_t>()) {
    case 0: return get<uint64_t>() != 0;
    case 1: return get<int64_t>();
    case 2: return get<uint64_t>();
    case 3: return get<double>();
    case 4: return get_string();
    default: fail(); return false;
  }
}

msg::Parameters DocumentReader::get_parameters() {
  msg::Parameters parameters(count(kLeastParameter));
  for (auto& [name, value] : parameters) name = get_string(), value = get_value();
  return parameters;
}

void put_tensor(Writer& out, const TensorPlace& tensor) {
  out.put_string(tensor.name);
  out.put(uint8_t(tensor.dtype));
  out.put_shape(tensor.shape);
  out.put(tensor.offset);
  out.put(tensor.size);
}

TensorPlace get_tensor(DocumentReader& in) {
  TensorPlace tensor;
  tensor.name = in.get_string();
  tensor.dtype = in.get_dtype();
  tensor.shape = in.get_shape();
  tensor.offset = in.get<uint64_t>();
  tensor.size = in.get<uint64_t>();
  return tensor;
}

}  // namespace weir::process
