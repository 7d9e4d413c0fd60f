#include "app/infer_input.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "app/npy.h"
#include "images/image.h"
#include "images/preprocess.h"
#include "msg/half.h"
#include "msg/tensor.h"

namespace weir::app {
namespace {

using msg::DType;
using nlohmann::json;

constexpr int64_t kMostElements = int64_t(1) << 28;

// Nothing where it is no shape, or one of too many elements.
std::vector<int64_t> shape_of(std::string_view text) {
  std::vector<int64_t> out;
  int64_t elements = 1;
  while (!text.empty()) {
    int64_t dim = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (error != std::errc() || dim < 0 || __builtin_mul_overflow(elements, std::max<int64_t>(dim, 1), &elements) ||
        elements > kMostElements)
      return {};
    out.push_back(dim);
    text.remove_prefix(size_t(end - text.data()));
    if (text.empty()) return out;
    if ((text.front() != ',' && text.front() != 'x') || text.size() == 1) return {};
    text.remove_prefix(1);
  }
  return out;
}

int64_t elements_of(const std::vector<int64_t>& dims) {
  int64_t elements = 1;
  for (int64_t d : dims)
    if (__builtin_mul_overflow(elements, d, &elements) || elements > kMostElements) return kMostElements + 1;
  return elements;
}

// The shape of nested lists, [2,3] for [[1,2,3],[4,5,6]]; raggedness is for the server to find.
std::vector<int64_t> nested_dims(const json& value) {
  std::vector<int64_t> dims;
  for (const json* at = &value; at->is_array(); at = &at->front()) {
    dims.push_back(int64_t(at->size()));
    if (at->empty()) break;
  }
  return dims;
}

// Fits the shape that was given to the one that the model wants: a flat list takes the wanted shape if that leaves one
// free dimension at most, and a missing batch dimension is added.
std::vector<int64_t> fit(std::vector<int64_t> given, const std::vector<int64_t>& wanted) {
  if (given.size() == wanted.size()) return given;
  int64_t elements = 1, known = 1;
  size_t open = 0;
  for (int64_t d : given) elements *= d;
  for (int64_t d : wanted) d < 0 ? void(++open) : void(known *= d);
  if (known <= 0 || elements % known != 0 || (open == 0 && elements != known)) return given;
  std::vector<int64_t> out;
  int64_t rest = elements / known;
  for (int64_t d : wanted) out.push_back(d >= 0 ? d : std::exchange(rest, 1));
  return out;
}

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// One element with this value, as raw tensor data has it.
void append_number(std::string& out, DType dtype, double value) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8: return put(out, uint8_t(value));
    case DType::kInt8: return put(out, int8_t(value));
    case DType::kUint16: return put(out, uint16_t(value));
    case DType::kInt16: return put(out, int16_t(value));
    case DType::kUint32: return put(out, uint32_t(value));
    case DType::kInt32: return put(out, int32_t(value));
    case DType::kUint64: return put(out, uint64_t(value));
    case DType::kInt64: return put(out, int64_t(value));
    case DType::kFp16: return put(out, msg::fp16_from(float(value)));
    case DType::kBf16: return put(out, msg::bf16_from(float(value)));
    case DType::kFp32: return put(out, float(value));
    case DType::kFp64: return put(out, value);
    case DType::kBytes: return msg::append_string(out, std::to_string(int64_t(value)));
    case DType::kInvalid: break;
  }
}

bool is_float(DType dtype) {
  return dtype == DType::kFp16 || dtype == DType::kBf16 || dtype == DType::kFp32 || dtype == DType::kFp64;
}

InferInput binary(const std::string& datatype, const std::vector<int64_t>& dims, std::string blob) {
  InferInput input;
  input.head = {{"datatype", datatype}, {"shape", dims}, {"parameters", {{"binary_data_size", blob.size()}}}};
  input.blob = std::move(blob);
  return input;
}

class Making {
 public:
  Making(const GivenInput& given, const WantedInput& wanted)
      : given_(given), wanted_(wanted), dtype_(msg::dtype_from_name(wanted.datatype)) {}

  base::Result<InferInput> make() {
    if (given_.value == "zeros" || given_.value == "ones" || given_.value == "random") return filled();
    if (given_.value.starts_with('@')) return from_file(given_.value.substr(1));
    return from_json();
  }

 private:
  base::Status wrong(const std::string& text) const { return base::invalid("input '" + given_.name + "': " + text); }

  std::vector<int64_t> dims() const {
    std::vector<int64_t> dims = given_.shape.empty() ? wanted_.shape : given_.shape;
    for (auto& d : dims) d = d < 0 ? 1 : d;
    return dims;
  }

  base::Result<InferInput> filled() {
    const auto dims = this->dims();
    const int64_t elements = elements_of(dims);
    if (elements > kMostElements) return wrong("more than " + std::to_string(kMostElements) + " elements");
    std::mt19937 numbers(1);  // the same request each time
    std::string blob;
    for (int64_t i = 0; i < elements; ++i) {
      double value = given_.value == "ones" ? 1 : 0;
      if (given_.value == "random") value = is_float(dtype_) ? double(numbers() >> 8) / (1 << 24) : numbers() % 100;
      if (dtype_ == DType::kBool) value = double(int64_t(value) & 1);
      if (dtype_ == DType::kBytes && given_.value == "zeros")
        msg::append_string(blob, "");
      else
        append_number(blob, dtype_, value);
    }
    return binary(wanted_.datatype, dims, std::move(blob));
  }

  base::Result<InferInput> from_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream read;
    if (!in || !(read << in.rdbuf())) return wrong("cannot read '" + path + "'");
    std::string bytes = std::move(read).str();
    if (bytes.starts_with("\x93NUMPY")) return from_npy(path, bytes);
    if (dtype_ == DType::kBytes) {
      std::string blob;
      msg::append_string(blob, bytes);
      return binary(wanted_.datatype, given_.shape.empty() ? fit({1}, wanted_.shape) : given_.shape, std::move(blob));
    }
    auto header = images::read_picture_header(bytes);
    if (!header)
      return wrong("'" + path + "' is neither a .npy file nor a picture (PNG, JPEG, WebP): " + header.error().text);
    return from_picture(path, bytes, *header);
  }

  base::Result<InferInput> from_npy(const std::string& path, const std::string& bytes) {
    auto array = parse_npy(bytes);
    if (!array) return wrong(path + ": " + array.error().text);
    std::vector<int64_t> dims(array->shape.dims().begin(), array->shape.dims().end());
    dims = given_.shape.empty() ? fit(dims, wanted_.shape) : given_.shape;
    return binary(std::string(msg::name(array->dtype)), dims, std::move(array->data));
  }

  // The three dimensions of a picture are the last ones; the channels are first or last of them.
  base::Result<InferInput> from_picture(const std::string& path, const std::string& bytes,
                                        const images::PictureHeader& header) {
    using How = images::Preprocessing;
    std::vector<int64_t> dims = given_.shape.empty() ? wanted_.shape : given_.shape;
    const auto needs = [&](const std::string& what) {
      return wrong("'" + path + "' is a picture, and " + what + "; the input is " + app::text_of(wanted_) +
                   ": give a shape as " + given_.name + ":1,3,224,224=@" + path);
    };
    if (!is_float(dtype_) && dtype_ != DType::kUint8)
      return wrong("'" + path + "' is a picture, and the input takes " + wanted_.datatype);
    if (dims.size() < 3) return needs("its input needs three dimensions");
    int64_t* last = dims.data() + dims.size() - 3;
    auto channels = [](int64_t d) { return d == 3 || d == 1; };
    const bool first = channels(last[0]);
    if (!first && !channels(last[2])) return needs("which dimension has its colors cannot be told");
    for (size_t i = 0; i + 3 < dims.size(); ++i)
      if (dims[i] = dims[i] < 0 ? 1 : dims[i]; dims[i] != 1) return needs("its input needs more than one");
    int64_t &height = last[first ? 1 : 0], &width = last[first ? 2 : 1];
    if (height < 0) height = header.height;
    if (width < 0) width = header.width;
    How how;
    how.layout = first ? How::Layout::kNchw : How::Layout::kNhwc;
    how.colors = last[first ? 0 : 2] == 1 ? How::Colors::kGray : How::Colors::kRgb;
    how.resize = How::Resize::kExact;
    how.resize_height = uint32_t(height), how.resize_width = uint32_t(width);
    constexpr int64_t kLongest = 1 << 14;
    if (height == 0 || width == 0 || height > kLongest || width > kLongest) return needs("its size is no picture's");
    auto pixels = images::read_pixels(bytes, how);
    if (!pixels) return wrong(path + ": " + pixels.error().text);
    std::string blob;
    for (uint8_t value : pixels->values) append_number(blob, dtype_, is_float(dtype_) ? value / 255.0 : value);
    return binary(wanted_.datatype, dims, std::move(blob));
  }

  base::Result<InferInput> from_json() {
    auto data = json::parse(given_.value, nullptr, false);
    if (data.is_discarded()) {
      if (dtype_ != DType::kBytes)
        return wrong("'" + given_.value +
                     "' is none of: numbers as JSON ([1,2,3]), zeros, ones, random, @file.npy, @picture.jpg");
      data = given_.value;
    }
    if (!data.is_array()) data = json::array({data});
    InferInput input;
    input.head = {{"datatype", wanted_.datatype},
                  {"shape", given_.shape.empty() ? fit(nested_dims(data), wanted_.shape) : given_.shape},
                  {"data", std::move(data)}};
    return input;
  }

  const GivenInput& given_;
  const WantedInput& wanted_;
  const DType dtype_;
};

}  // namespace

std::string text_of(const WantedInput& wanted) {
  return wanted.name + ' ' + wanted.datatype + json(wanted.shape).dump();
}

base::Result<GivenInput> read_input(const std::string& text, const std::vector<WantedInput>& wanted) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos)
    return base::invalid("input '" + text + "': expected NAME=VALUE or NAME:SHAPE=VALUE");
  GivenInput given{text.substr(0, equals), {}, text.substr(equals + 1)};
  const auto has = [&](std::string_view name) {
    return std::any_of(wanted.begin(), wanted.end(), [&](const auto& w) { return w.name == name; });
  };
  const size_t colon = given.name.rfind(':');
  if (colon == std::string::npos || has(given.name)) return given;
  auto shape = shape_of(std::string_view(given.name).substr(colon + 1));
  if (shape.empty())
    return base::invalid("input '" + text + "': expected a shape behind the colon, 1,3,224,224 or 1x3x224x224, of " +
                         std::to_string(kMostElements) + " elements at most");
  given.shape = std::move(shape);
  given.name.resize(colon);
  return given;
}

base::Result<InferInput> make_input(const GivenInput& given, const WantedInput& wanted) {
  auto input = Making(given, wanted).make();
  if (input) input->head["name"] = given.name;
  return input;
}

}  // namespace weir::app
