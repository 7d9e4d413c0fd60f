// read_json() of message.h.
#include <charconv>
#include <cmath>
#include <limits>
#include <new>
#include <optional>

#include "base/base64url.h"
#include "base/memory_ledger.h"
#include "dialects/grps/message.h"
#include "dialects/grps/types.h"
#include "marshal/json_tensor.h"

namespace weir::grps {
namespace {

using base::invalid;
using base::Status;
using marshal::BytesText;
using marshal::JsonCursor;
using marshal::JsonNumber;
using marshal::WideText;
using msg::DType;

// Whether `key` is `name` ("flat_int8") or its lowerCamelCase ("flatInt8").
bool is(std::string_view key, std::string_view name) {
  if (key == name) return true;
  size_t k = 0;
  for (size_t n = 0; n < name.size(); ++n, ++k) {
    if (k == key.size()) return false;
    bool upper = name[n] == '_' && n + 1 < name.size();
    if (upper) ++n;
    char c = upper && name[n] >= 'a' && name[n] <= 'z' ? char(name[n] - 32) : name[n];
    if (key[k] != c) return false;
  }
  return k == key.size();
}

// Memory outside of slabs is charged all the same. Throws bad_alloc where there is no room.
base::Bytes charged(base::SlabSource& slabs, base::Bytes bytes) {
  if (bytes.size() >= base::kLeastCharged && !base::charge(slabs.ledger(), base::MemoryKind::kDecoding, bytes))
    throw std::bad_alloc();
  return bytes;
}

// The nested numbers of `ndarray`, read in one pass: shape and elements.
class ArrayReader {
 public:
  explicit ArrayReader(JsonCursor& json) : json_(json) {}

  bool read() { return json_.peek() == JsonCursor::Kind::kArray ? level(0) : json_.fail("expected nested numbers"); }
  msg::Tensor take() {
    msg::Shape shape;
    for (size_t i = 0; i < leaf_; ++i) shape.push(dims_[i]);
    return {"", DType::kFp32, shape, base::Bytes::adopt(std::move(cells_))};
  }

 private:
  bool level(size_t depth) {
    if (depth == msg::Shape::kMaxRank) return json_.fail("an ndarray has at most 16 dimensions");
    int64_t n = 0;
    bool ok = json_.array([&] {
      ++n;
      bool nested = json_.peek() == JsonCursor::Kind::kArray;
      if (!settle(depth, nested)) return false;
      return nested ? level(depth + 1) : cell();
    });
    if (!ok || (n == 0 && !settle(depth, false))) return false;
    if (dims_[depth] == -1) dims_[depth] = n;
    return dims_[depth] == n || ragged();
  }
  // The first element at the bottom decides how deep the bottom is.
  bool settle(size_t depth, bool nested) {
    if (leaf_ == 0 && !nested) leaf_ = depth + 1;
    return leaf_ == 0 || nested == (depth + 1 < leaf_) || ragged();
  }
  bool cell() {
    float value = 0;
    if (json_.peek() == JsonCursor::Kind::kString) {
      std::string_view text;
      if (!json_.string(text)) return false;
      bool negative = text == "-Infinity";
      if (text == "NaN")
        value = std::numeric_limits<float>::quiet_NaN();
      else if (negative || text == "Infinity")
        value = negative ? -HUGE_VALF : HUGE_VALF;
      else
        return json_.fail("expected a number in ndarray");
    } else {
      JsonNumber number;
      if (!json_.number(number)) return false;
      if (!number.to(value)) return json_.fail("a number of ndarray is beyond FP32");
    }
    cells_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return true;
  }
  bool ragged() { return json_.fail("the rows of ndarray differ in length or depth"); }

  JsonCursor& json_;
  std::string cells_;
  std::array<int64_t, msg::Shape::kMaxRank> dims_ = [] {
    std::array<int64_t, msg::Shape::kMaxRank> none{};
    none.fill(-1);
    return none;
  }();
  size_t leaf_ = 0;  // the rank, once known
};

class JsonMessageReader {
 public:
  JsonMessageReader(std::string_view body, base::SlabSource& slabs, Message& message)
      : json_(body), slabs_(slabs), message_(message) {}

  Status read() {
    bool ok = json_.object([&](std::string_view key) {
      if (json_.peek() == JsonCursor::Kind::kNull) return json_.null();
      if (is(key, "model")) return json_.string(message_.model);
      if (is(key, "str_data")) return begin(Kind::kStr) && text(BytesText::kUtf8);
      if (is(key, "bin_data")) return begin(Kind::kBin) && text(BytesText::kBase64);
      if (is(key, "gtensors")) return begin(Kind::kTensors) && tensors();
      if (is(key, "ndarray")) return begin(Kind::kArray) && array();
      if (is(key, "gmap")) return begin(Kind::kMap) && maps();
      return json_.skip();
    });
    if (!status_.ok()) return status_;
    return ok && json_.finish() ? Status{} : json_.placed_error();
  }

 private:
  struct Place {
    msg::Tensor* tensor;
    std::optional<size_t> data_at;
    size_t data_type = 0;  // by the field's name
    size_t type = 0;
    bool read = false;
  };

  bool refuse(std::string text) {
    if (status_.ok()) status_ = invalid(std::move(text));
    return json_.refuse();
  }

  bool begin(Kind kind) {
    if (message_.kind != Kind::kNone) return refuse("the request has more than one kind of data");
    message_.kind = kind;
    return true;
  }

  bool text(BytesText form) {
    std::string_view text;
    if (!json_.string(text)) return false;
    if (form == BytesText::kUtf8) return message_.data = charged(slabs_, base::Bytes::copy_of(text)), true;
    auto bytes = base::base64url_decode(text, base::Base64Url::kLenient);
    if (!bytes) return refuse("'bin_data' is not base64");
    message_.data = charged(slabs_, base::Bytes::adopt(*std::move(bytes)));
    return true;
  }

  bool array() {
    ArrayReader reader(json_);
    if (!reader.read()) return false;
    msg::Tensor& tensor = message_.tensors.emplace_back(reader.take());
    tensor.data = charged(slabs_, std::move(tensor.data));
    return true;
  }

  bool tensors() {
    return json_.object([&](std::string_view key) {
      if (is(key, "tensors") && json_.peek() != JsonCursor::Kind::kNull) return json_.array([&] { return tensor(); });
      return json_.skip();
    });
  }

  bool tensor() {
    if (message_.tensors.size() == kMaxTensors) return refuse("more than 256 tensors");
    Place at{&message_.tensors.emplace_back()};
    bool ok = json_.object([&](std::string_view key) {
      if (json_.peek() == JsonCursor::Kind::kNull) return json_.null();
      if (key == "name") return json_.string(at.tensor->name);
      if (key == "dtype") return dtype(at);
      if (key == "shape") return shape(at);
      if (size_t type = flat(key)) return data(at, type);
      return json_.skip();
    });
    return ok && settle(at);
  }

  std::string where(const Place& at) const { return "input '" + at.tensor->name + "': "; }

  static size_t flat(std::string_view key) {
    if (key == "flat_double") return type_of(DType::kFp64);  // as the protocol's own documents have it
    for (size_t i = 1; i < kTypes.size(); ++i)
      if (is(key, kTypes[i].field)) return i;
    return 0;
  }

  bool dtype(Place& at) {
    if (json_.peek() == JsonCursor::Kind::kString) {
      std::string_view name;
      if (!json_.string(name)) return false;
      for (size_t i = 1; i < kTypes.size(); ++i)
        if (kTypes[i].name == name) at.type = i;
      if (at.type == 0) return refuse(where(at) + "unknown dtype '" + std::string(name.substr(0, 32)) + "'");
    } else {
      JsonNumber number;
      uint64_t n;
      if (!json_.number(number)) return false;
      if (!number.to(n) || n == 0 || n >= kTypes.size()) return refuse(where(at) + "dtype is 1 to 9, or its name");
      at.type = size_t(n);
    }
    at.tensor->dtype = kTypes[at.type].dtype;
    return true;
  }

  // A number of 32 bits, also as a string: ProtoJSON's readers take both. `to` is beyond 32 bits for what is none.
  bool whole(uint64_t& to) {
    to = UINT64_MAX;
    if (json_.peek() == JsonCursor::Kind::kString) {
      std::string_view text;
      if (!json_.string(text)) return false;
      uint64_t read;
      auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
      if (error == std::errc() && end == text.data() + text.size()) to = read;
      return true;
    }
    JsonNumber number;
    if (!json_.number(number)) return false;
    if (uint64_t read; number.to(read)) to = read;
    return true;
  }

  bool shape(Place& at) {
    if (at.tensor->shape.rank() > 0) return refuse(where(at) + "'shape' is given twice");
    return json_.array([&] {
      uint64_t dim;
      if (!whole(dim)) return false;
      if (dim > UINT32_MAX) return refuse(where(at) + "a dimension is a whole number of 32 bits");
      return at.tensor->shape.push(int64_t(dim)) || refuse(where(at) + "a shape has at most 16 dimensions");
    });
  }

  // Read at once when everything about it is known, as clients write it; else passed over, and read by settle().
  bool data(Place& at, size_t type) {
    if (json_.peek_inside() == JsonCursor::Kind::kNone) return json_.skip();  // []: a field's default
    if (at.data_at) return refuse(where(at) + "its data is given twice");
    at.data_at = json_.at();
    at.data_type = type;
    if (at.type != type || at.tensor->shape.rank() == 0) return json_.skip();
    return elements(at);
  }

  bool elements(Place& at) {
    at.read = true;
    Status status = marshal::read_data(json_, *at.tensor, slabs_, BytesText::kUtf8, WideText::kString);
    if (status.ok()) return true;
    if (status_.ok()) status_ = std::move(status);
    return json_.refuse();
  }

  bool settle(Place& at) {
    if (at.type == 0) return refuse(where(at) + "no dtype");
    if (!at.data_at)
      return at.tensor->shape.elements() == 0u || refuse(where(at) + "no '" + std::string(kTypes[at.type].field) + "'");
    if (at.read) return true;
    if (at.data_type != at.type)
      return refuse(where(at) + std::string(kTypes[at.type].name) + " data belongs in '" +
                    std::string(kTypes[at.type].field) + "', not '" + std::string(kTypes[at.data_type].field) + "'");
    size_t end = json_.at();
    json_.rewind(*at.data_at);
    if (!elements(at)) return false;
    json_.rewind(end);
    return true;
  }

  bool maps() {
    return json_.object([&](std::string_view key) {
      if (json_.peek() == JsonCursor::Kind::kNull) return json_.null();
      for (size_t i = 0; i < kMaps.size(); ++i)
        if (is(key, kMaps[i].name)) return map(Map(i));
      return json_.skip();
    });
  }

  bool map(Map which) {
    return json_.object([&](std::string_view key) {
      if (message_.tensors.size() == kMaxTensors) return refuse("more than 256 map entries");
      msg::Tensor& t = message_.tensors.emplace_back();
      message_.maps.push_back(which);
      t.name = key;
      t.dtype = type_of(which).dtype;
      return t.dtype == DType::kBytes ? string_value(t, which) : number_value(t);
    });
  }

  bool string_value(msg::Tensor& t, Map which) {
    std::string_view text;
    if (!json_.string(text)) return false;
    std::optional<std::string> bytes;
    if (which == Map::kBytes && !(bytes = base::base64url_decode(text, base::Base64Url::kLenient)))
      return refuse("'" + t.name + "' of s_b is not base64");
    std::string data;
    msg::append_string(data, bytes ? *bytes : text);
    t.data = charged(slabs_, base::Bytes::adopt(std::move(data)));
    return true;
  }
  // As a tensor of one element, so that all the rules of numbers are in one place.
  bool number_value(msg::Tensor& t) {
    size_t from = json_.at();
    if (!json_.skip()) return false;
    std::string one = "[" + std::string(json_.since(from)) + "]";
    JsonCursor cursor(one);
    t.shape = {1};
    Status status = marshal::read_data(cursor, t, slabs_, BytesText::kUtf8, WideText::kString);
    t.shape = {};
    if (status.ok()) return true;
    if (status_.ok()) status_ = std::move(status);
    return json_.refuse();
  }

  JsonCursor json_;
  base::SlabSource& slabs_;
  Message& message_;
  Status status_;
};

}  // namespace

Status read_json(std::string_view body, base::SlabSource& slabs, Message& message) {
  return JsonMessageReader(body, slabs, message).read();
}

}  // namespace weir::grps
