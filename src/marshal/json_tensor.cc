#include "marshal/json_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "base/encoding.h"
#include "base/memory_ledger.h"
#include "marshal/number_run.h"
#include "marshal/string_block.h"
#include "msg/half.h"

namespace weir::marshal {
namespace {

using base::Status;
using msg::DType;

// FP16 and BF16 as distinct element types.
struct Fp16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};

std::optional<double> non_finite(std::string_view text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

// Reads arrays of elements of one type. `Put` stores the next element, and up to so many; it returns how many, and 0
// where it refuses the next one.
class TensorReader {
 public:
  TensorReader(JsonCursor& json, const msg::Tensor& tensor, uint64_t count, WideText wide_text = WideText::kNumber)
      : wide(wide_text), json_(json), tensor_(tensor), count_(count) {}

  const WideText wide;

  template <class Put>
  bool read(Put&& put) {
    if (json_.peek() != JsonCursor::Kind::kArray) return json_.fail("expected the array of data");
    bool nested = json_.peek_inside() == JsonCursor::Kind::kArray;  // the first element decides for all
    return (nested ? level(0, put) : flat(put)) && complete();
  }
  uint64_t index() const { return index_; }
  Status refusal;  // why an element was refused

  bool wrong(std::string_view why) {
    refusal = base::invalid(where() + std::string(why));
    return false;
  }
  std::string where() const { return "input '" + tensor_.name + "', element " + std::to_string(index_) + ": "; }

 private:
  template <class Put>
  bool flat(Put& put) {
    return json_.array([&] {
      if (index_ == count_) return too_many();
      const size_t stored = put(size_t(count_ - index_));
      index_ += stored;
      return stored > 0;
    });
  }

  template <class Put>
  bool level(size_t depth, Put& put) {
    if (depth == tensor_.shape.rank()) return misnested();
    auto wanted = uint64_t(tensor_.shape[depth]);
    bool innermost = depth + 1 == tensor_.shape.rank();
    uint64_t n = 0;
    bool ok = json_.array([&] {
      if (n++ == wanted) return misnested();
      if ((json_.peek() == JsonCursor::Kind::kArray) == innermost) return misnested();
      if (!innermost) return level(depth + 1, put);
      const size_t stored = put(size_t(wanted - n + 1));
      index_ += stored;
      n += stored - 1;
      return stored > 0;
    });
    return ok && (n == wanted || misnested());
  }

  bool misnested() {
    refusal = base::invalid("input '" + tensor_.name + "': the data is not nested as its shape " +
                            tensor_.shape.text() + " says; write it so, or flat");
    return false;
  }
  bool too_many() {
    refusal = base::invalid("input '" + tensor_.name + "': more data than the " + std::to_string(count_) +
                            " elements of its shape " + tensor_.shape.text());
    return false;
  }
  bool complete() {
    if (index_ == count_) return true;
    refusal = base::invalid("input '" + tensor_.name + "': " + std::to_string(index_) + " elements of data, but " +
                            std::to_string(count_) + " by its shape " + tensor_.shape.text());
    return false;
  }

  JsonCursor& json_;
  const msg::Tensor& tensor_;
  uint64_t count_;
  uint64_t index_ = 0;
};

template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T> || std::is_same_v<T, Fp16> || std::is_same_v<T, Bf16>;

bool misfit(TensorReader& reader, DType dtype, std::string_view text) {
  return reader.wrong(std::string(text.substr(0, 64)) + " is not a value of " + std::string(name(dtype)));
}

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, Fp16>)
    return {msg::fp16_from(float(value))};
  else if constexpr (std::is_same_v<T, Bf16>)
    return {msg::bf16_from(float(value))};
  else
    return T(value);
}

template <class T>
bool any_element(JsonCursor& json, TensorReader& reader, DType dtype, T& to);

// A string as an element: what floats have no numbers for, and any number where protobuf's JSON is read: without white
// space, and without the mark that a document may begin with.
template <class T>
bool string_element(std::string_view text, TensorReader& reader, DType dtype, T& to) {
  if constexpr (kIsFloat<T>)
    if (auto value = non_finite(text)) return to = from_double<T>(*value), true;
  if (reader.wide == WideText::kString && text.find_first_of(" \t\r\n") == text.npos)
    if (JsonCursor inside(text);
        inside.at() == 0 && inside.at_number() && any_element(inside, reader, dtype, to) && inside.finish())
      return true;
  if (!reader.refusal.ok()) return false;
  return misfit(reader, dtype, "the string '" + std::string(text.substr(0, 32)) + "'");
}

// An element that is no number: true and false of BOOL, and strings.
template <class T>
bool odd_element(JsonCursor& json, TensorReader& reader, DType dtype, T& to) {
  const auto kind = json.peek();
  std::string_view text;
  if constexpr (std::is_same_v<T, bool>) {
    if (kind == JsonCursor::Kind::kBool) return json.boolean(to);
  } else if (kind == JsonCursor::Kind::kString && (kIsFloat<T> || reader.wide == WideText::kString)) {
    return json.string(text) && string_element(text, reader, dtype, to);
  }
  return reader.wrong("expected a value of " + std::string(name(dtype)));
}

// False where it is beyond them.
bool round_to(float value, Fp16& out) {
  out.bits = msg::fp16_from(value);
  return (out.bits & 0x7fff) != 0x7c00;
}
bool round_to(float value, Bf16& out) {
  out.bits = msg::bf16_from(value);
  return (out.bits & 0x7fff) != 0x7f80;
}

// Any element of type T, stored at `to`.
template <class T>
[[gnu::noinline]] bool any_element(JsonCursor& json, TensorReader& reader, DType dtype, T& to) {
  if (!json.at_number()) [[unlikely]]
    return odd_element(json, reader, dtype, to);
  JsonNumber number;
  if (!json.number(number)) return false;
  if constexpr (std::is_same_v<T, bool>) {
    uint64_t value;
    if (!number.to(value) || value > 1) return misfit(reader, dtype, number.text);
    to = value != 0;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!number.to(to)) return misfit(reader, dtype, number.text);
  } else if constexpr (kIsFloat<T>) {
    float value;
    if (!number.to(value) || !round_to(value, to)) return misfit(reader, dtype, number.text);
  } else {
    std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t> value;
    if (!number.to(value) || value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max())
      return misfit(reader, dtype, number.text);
    to = T(value);
  }
  return true;
}

// Many as read_numbers() takes them. FP16 and BF16 are read as floats; what is beyond them is not taken, nor what
// follows.
template <class T>
size_t run_of_elements(std::string_view text, T* to, size_t most, size_t* used) {
  if constexpr (std::is_same_v<T, Fp16> || std::is_same_v<T, Bf16>) {
    std::array<float, 64> values;
    const size_t n = read_numbers(text, values.data(), std::min(most, values.size()), used);
    for (size_t i = 0; i < n; ++i)
      if (!round_to(values[i], to[i])) return i == 0 ? 0 : read_numbers(text, values.data(), i, used);
    return n;
  } else {
    return read_numbers(text, to, most, used);
  }
}

template <class T>
size_t elements(JsonCursor& json, TensorReader& reader, DType dtype, T* to, size_t most) {
  if constexpr (!std::is_same_v<T, bool>) {
    size_t used;
    const size_t at = json.at();
    const std::string_view text{json.since(at).data(), json.left()};
    if (size_t n = run_of_elements(text, to, most, &used)) return json.rewind(at + used), n;
  }
  return any_element(json, reader, dtype, *to) ? 1 : 0;
}

Status outcome(JsonCursor& json, TensorReader& reader) {
  if (!json.ok() && reader.refusal.ok()) return json.error();
  return reader.refusal;
}

template <class T>
Status read_cells(JsonCursor& json, msg::Tensor& tensor, uint64_t count, base::SlabSource& slabs, WideText wide) {
  base::Block block(base::take_now(slabs, count * sizeof(T)));
  block.resize(count * sizeof(T));
  TensorReader reader(json, tensor, count, wide);
  T* to = reinterpret_cast<T*>(block.data());
  bool ok = reader.read([&](size_t most) { return elements(json, reader, tensor.dtype, to + reader.index(), most); });
  if (!ok) {
    Status status = outcome(json, reader);
    json.refuse();
    return status;
  }
  tensor.data = block.freeze();
  return {};
}

Status read_strings(JsonCursor& json, msg::Tensor& tensor, uint64_t count, base::SlabSource& slabs, BytesText text) {
  StringBlock data(slabs, size_t(std::min<uint64_t>(count * 8, json.left())));
  TensorReader reader(json, tensor, count);
  bool ok = reader.read([&](size_t) -> size_t {
    std::string_view value;
    if (json.peek() != JsonCursor::Kind::kString) return reader.wrong("expected a string for BYTES");
    if (!json.string(value)) return false;
    if (text == BytesText::kUtf8) {
      data.append(value);
      return true;
    }
    auto decoded = base::base64_decode(value);
    if (!decoded) return reader.wrong("not base64");
    data.append(*decoded);
    return true;
  });
  if (!ok) {
    Status status = outcome(json, reader);
    json.refuse();
    return status;
  }
  tensor.data = data.freeze();
  return {};
}

}  // namespace

Status read_data(JsonCursor& json, msg::Tensor& tensor, base::SlabSource& slabs, BytesText text, WideText wide) {
  auto count = tensor.shape.elements();
  if (!count) return base::invalid("input '" + tensor.name + "': bad shape " + tensor.shape.text());
  // Every element takes a character and a comma at least.
  if (*count > json.left())
    return base::invalid("input '" + tensor.name + "': shape " + tensor.shape.text() + " asks for " +
                         std::to_string(*count) + " elements, more than the request holds");
  switch (tensor.dtype) {
    case DType::kBool: return read_cells<bool>(json, tensor, *count, slabs, wide);
    case DType::kUint8: return read_cells<uint8_t>(json, tensor, *count, slabs, wide);
    case DType::kUint16: return read_cells<uint16_t>(json, tensor, *count, slabs, wide);
    case DType::kUint32: return read_cells<uint32_t>(json, tensor, *count, slabs, wide);
    case DType::kUint64: return read_cells<uint64_t>(json, tensor, *count, slabs, wide);
    case DType::kInt8: return read_cells<int8_t>(json, tensor, *count, slabs, wide);
    case DType::kInt16: return read_cells<int16_t>(json, tensor, *count, slabs, wide);
    case DType::kInt32: return read_cells<int32_t>(json, tensor, *count, slabs, wide);
    case DType::kInt64: return read_cells<int64_t>(json, tensor, *count, slabs, wide);
    case DType::kFp16: return read_cells<Fp16>(json, tensor, *count, slabs, wide);
    case DType::kBf16: return read_cells<Bf16>(json, tensor, *count, slabs, wide);
    case DType::kFp32: return read_cells<float>(json, tensor, *count, slabs, wide);
    case DType::kFp64: return read_cells<double>(json, tensor, *count, slabs, wide);
    case DType::kBytes: return read_strings(json, tensor, *count, slabs, text);
    case DType::kInvalid: break;
  }
  return base::invalid("input '" + tensor.name + "' has no datatype");
}

}  // namespace weir::marshal
