// Documents of the protocol (protocol.h): written to a string, and read back with every length checked.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::process {

class Writer {
 public:
  template <class T>
  void put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_string(std::string_view text) {
    put(uint32_t(text.size()));
    text_.append(text);
  }
  void put_shape(const msg::Shape& shape);
  void put_specs(const std::vector<msg::TensorSpec>& specs);
  void put_value(const msg::ParamValue& value);
  void put_parameters(const msg::Parameters& parameters);
  const std::string& text() const { return text_; }
  void clear() { text_.clear(); }

 private:
  std::string text_;
};

// After the first thing that is not there, everything is empty and ok() is false: who reads asks once, at the end, and
// after each count() before it makes room.
class DocumentReader {
 public:
  explicit DocumentReader(std::string_view text) : text_(text) {}

  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && text_.empty(); }
  template <class T>
  T get() {
    T value{};
    auto bytes = take(sizeof value);
    if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string get_string() { return std::string(take(get<uint32_t>())); }
  // The length of a list whose elements have at least `least` bytes each: never more than can be there.
  uint32_t count(size_t least);
  msg::DType get_dtype();
  msg::Shape get_shape();
  std::vector<msg::TensorSpec> get_specs();
  msg::ParamValue get_value();
  msg::Parameters get_parameters();

 private:
  std::string_view take(size_t bytes);
  void fail() { ok_ = false, text_ = {}; }

  std::string_view text_;
  bool ok_ = true;
};

// A tensor as a document describes it; its data lie elsewhere.
struct TensorPlace {
  std::string name;
  msg::DType dtype = msg::DType::kInvalid;
  msg::Shape shape;
  uint64_t offset = 0, size = 0;
};
void put_tensor(Writer& out, const TensorPlace& tensor);
TensorPlace get_tensor(DocumentReader& in);

}  // namespace weir::process
